package sim

import (
	"fmt"
	"strings"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	work "go.millstream.dev/internal/engine/worker/state"
)

var started = time.Now()

// describe returns an event as a line of a trace.
func describe(ev any) string {
	switch ev := ev.(type) { // events with pointers, which differ between runs
	case *sched.UpdateGraph:
		return fmt.Sprintf("UpdateGraph{%d nodes, %d wanted, of client %d}", len(ev.Graph.Nodes), len(ev.Keys),
			ev.Client)
	case *work.ExecuteFailure:
		return fmt.Sprintf("ExecuteFailure{%s: %v}", ev.Key, ev.Failure)
	case *work.GatherFailure:
		return fmt.Sprintf("GatherFailure{%s: %v}", ev.Peer, ev.Failure)
	}
	s := fmt.Sprintf("%+v", ev)
	name := strings.TrimPrefix(fmt.Sprintf("%T", ev), "*state.")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return name + strings.TrimPrefix(s, "&")
}
