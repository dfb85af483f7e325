package worker

import (
	"fmt"
	"testing"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/task"
	"go.millstream.dev/wire/msgpack"
)

// Who uses a result first has waited for it; the second has not.
func TestArrivals(t *testing.T) {
	var a arrivals
	x, y := task.NewKey("x"), task.NewKey("y")
	var none period
	if a.use(x, &none); none != (period{}) {
		t.Errorf("nothing has come, and %v was waited for", none)
	}
	a.add([]state.Stored{{Key: x}}, period{20, 30})
	a.add([]state.Stored{{Key: y}}, period{10, 25})
	var first, second period
	a.use(x, &first)
	a.use(y, &first)
	if a.use(x, &second); first != (period{10, 30}) || second != (period{}) {
		t.Errorf("the first waited for %v, the second for %v", first, second)
	}
	for i := range 3 * mostArrivals {
		a.add([]state.Stored{{Key: task.NewKey(fmt.Sprint("k-", i))}}, period{1, 2})
	}
	if len(a) > mostArrivals {
		t.Errorf("%d are kept", len(a))
	}
}

func TestParts(t *testing.T) {
	const ms = 1_000_000
	for _, tc := range []struct {
		p    parts
		want string
	}{
		{parts{start: 5 * ms, stop: 7 * ms}, "[compute]"},
		{parts{start: 5 * ms, stop: 7 * ms, load: 5*ms - 10}, "[compute]"},
		{parts{start: 5 * ms, stop: 7 * ms, load: 2 * ms}, "[disk-read compute]"},
		{parts{start: 5 * ms, stop: 7 * ms, load: 2 * ms, moved: period{ms, 2 * ms}}, "[transfer disk-read compute]"},
	} {
		b := tc.p.append(msgpack.AppendMapHeader(nil, 1))
		v, err := msgpack.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := v.(msgpack.Map).Get("startstops")
		var names []string
		for _, x := range list.([]any) {
			names = append(names, x.(msgpack.Map).GetString("action"))
		}
		if got := fmt.Sprint(names); got != tc.want {
			t.Errorf("%+v gives %s, want %s", tc.p, got, tc.want)
		}
	}
}
