package record

import (
	"fmt"
	"testing"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
)

// The first user of a result has waited for it; the second has not.
func TestArrivals(t *testing.T) {
	var a Arrivals
	x, y := task.NewKey("x"), task.NewKey("y")
	var none Period
	if a.Use(x, &none); none != (Period{}) {
		t.Errorf("without arrivals: got %v", none)
	}
	a.Add([]state.Stored{{Key: x}}, Period{20, 30})
	a.Add([]state.Stored{{Key: y}}, Period{10, 25})
	var first, second Period
	a.Use(x, &first)
	a.Use(y, &first)
	if a.Use(x, &second); first != (Period{10, 30}) || second != (Period{}) {
		t.Errorf("got %v for the first user, %v for the second", first, second)
	}
	for i := range 3 * maxArrivals {
		a.Add([]state.Stored{{Key: task.NewKey(fmt.Sprint("k-", i))}}, Period{1, 2})
	}
	if len(a) > maxArrivals {
		t.Errorf("got %d arrivals", len(a))
	}
}

func TestPartsEach(t *testing.T) {
	const ms = 1_000_000
	for _, tc := range []struct {
		p    Parts
		want string
	}{
		{Parts{Start: 5 * ms, Stop: 7 * ms}, "[compute 5-7]"},
		{Parts{Start: 5 * ms, Stop: 7 * ms, Load: 5*ms - 10}, "[compute 5-7]"},
		{Parts{Start: 5 * ms, Stop: 7 * ms, Load: 4 * ms}, "[compute 5-7]"},
		{Parts{Start: 5 * ms, Stop: 7 * ms, Load: 2 * ms}, "[disk-read 2-5 compute 5-7]"},
		{Parts{Start: 5 * ms, Stop: 7 * ms, Load: 2 * ms, Python: true}, "[deserialize 2-5 compute 5-7]"},
		{Parts{Start: 5 * ms, Stop: 7 * ms, Load: 2 * ms, Moved: Period{ms, 2 * ms}},
			"[transfer 1-2 disk-read 2-5 compute 5-7]"},
	} {
		var names []string
		tc.p.Each(func(action string, start, stop int64) {
			names = append(names, fmt.Sprintf("%s %d-%d", action, start/ms, stop/ms))
		})
		if got := fmt.Sprint(names); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.p, got, tc.want)
		}
	}
}

func TestPeriodCover(t *testing.T) {
	var p Period
	for _, c := range []struct{ with, want Period }{
		{Period{20, 30}, Period{20, 30}},
		{Period{22, 28}, Period{20, 30}},
		{Period{10, 12}, Period{10, 30}},
		{Period{29, 40}, Period{10, 40}},
	} {
		if p.Cover(c.with); p != c.want {
			t.Errorf("with %v: got %v, want %v", c.with, p, c.want)
		}
	}
}
