package sim

import (
	"flag"
	"testing"
)

var scaleFlag = flag.Int("sim.scale", 4000, "how many tasks TestScale runs; a million for the real thing")

// TestScale prints the cost of an event with ten workers and with a thousand (fewer tasks, unless -sim.scale specifies
// a million).
func TestScale(t *testing.T) {
	many := 1000
	if *scaleFlag < 1_000_000 {
		many = 100
	}
	var costs []Scale
	for _, workers := range []int{10, many} {
		s, err := RunScale(workers, *scaleFlag)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(s)
		if s.Tasks != *scaleFlag || s.Runs < s.Tasks || s.Checked == 0 {
			t.Errorf("got %d tasks, %d runs, %d checked", s.Tasks, s.Runs, s.Checked)
		}
		costs = append(costs, s)
	}
	t.Logf("scheduler CPU per event: %.2f times that with 10 workers",
		float64(costs[1].PerEvent())/float64(costs[0].PerEvent()))
}
