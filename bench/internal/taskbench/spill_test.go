package taskbench

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Each direction is a figure compared with copies of package cuda in that direction.
func TestSpillFigures(t *testing.T) {
	one := answer{Pid: 1, Pids: []int{2}}
	good := script{"start-spill": {one}, deviceSpill: {{Rates: []float64{10e9, 20e9, 30e9}}},
		"device-copies": {{Rates: []float64{50e9, 60e9}}}}
	o := Options{Cases: []string{deviceSpill}, Rounds: 2}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	run := func(s script) (benchfmt.Figures, error) {
		var got benchfmt.Figures
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, Programs{Go: s.starter(t)}, o, &got, nil)
		return got, err
	}
	got, err := run(good)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(spillSettings) {
		t.Fatalf("got %d figures, want %d", len(got), len(spillSettings))
	}
	for i, want := range []struct{ ours, theirs float64 }{{10, 50}, {20, 50}, {30, 60}} {
		f := got[i]
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		if f.Setting != spillSettings[i] || f.Ours != want.ours || f.Theirs != want.theirs || f.Peer != CopyPeer {
			t.Errorf("figure %d: got %+v, want %+v", i, f, want)
		}
	}
	for _, c := range []struct {
		name string
		bad  script
		want string
	}{
		{"no GPU", script{"start-spill": {{Error: "no driver"}}}, "no driver"},
		{"worker in the process of the client", script{"start-spill": {{Pid: 1, Pids: []int{1}}}},
			"separate processes"},
		{"rate missing", script{"start-spill": {one}, deviceSpill: {{Rates: []float64{1}}}}, "got 1 rates, want 3"},
		{"rate of the peer missing", script{"start-spill": {one}, deviceSpill: good[deviceSpill],
			"device-copies": {{}}}, "cuda: got 0 rates, want 2"},
	} {
		if _, err := run(c.bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A rate is that of the moves since the last reading, and needs as many as the case causes.
func TestMoveRate(t *testing.T) {
	before := moveTotals{10, 1000, 5}
	if got, err := (moveTotals{14, 3000, 6}).rate(before, 4); err != nil || got != 2000 {
		t.Errorf("got %v, %v, want 2000 bytes per second", got, err)
	}
	for _, after := range []moveTotals{before, {13, 3000, 6}, {14, 3000, 5}} {
		if got, err := after.rate(before, 4); err == nil {
			t.Errorf("%+v: got %v, want an error", after, got)
		}
	}
}

// Results that all fit on the GPU are not moved, and nothing would be measured.
func TestSpillNeedsMoreThanFits(t *testing.T) {
	for _, c := range []command{{N: 3, Size: 1, Limit: 2}, {N: 3, Size: 4, Limit: 2}} {
		if _, err := (&local{}).deviceSpill(t.Context(), c); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
}
