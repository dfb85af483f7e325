package graphs

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
)

// The process that has opened the graph of a shuffle plans it. It is found by the key of the barrier, and the number of
// entries is bounded.
func TestPlannersOfShuffles(t *testing.T) {
	const prefix = "barrier-"
	m := New(Config{ShuffleOf: func(k task.Key) string {
		id, _ := strings.CutPrefix(k.String(), prefix)
		if !strings.HasPrefix(k.String(), prefix) {
			return ""
		}
		return id
	}})
	m.plans("me", []state.Node{{Key: task.NewKey("x")}, {Key: task.NewKey(prefix + "a")}, {Key: task.NewKey(prefix)}})
	m.plans("you", []state.Node{{Key: task.NewKey(prefix + "b")}})
	if want := map[string]string{"a": "me", "b": "you"}; !maps.Equal(m.planner, want) {
		t.Errorf("got %v, want %v", m.planner, want)
	}
	nodes := make([]state.Node, 2*maxPlanners)
	for i := range nodes {
		nodes[i].Key = task.NewKey(fmt.Sprint(prefix, i))
	}
	if m.plans("flood", nodes); len(m.planner) > maxPlanners {
		t.Errorf("shuffles: got %d, want at most maxPlanners", len(m.planner))
	}
}
