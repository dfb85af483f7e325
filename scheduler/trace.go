package scheduler

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/lifetrace"
	"go.millstream.dev/scheduler/internal/peers"
)

// traceArrived reports the traced tasks of a graph. Tasks of one call share their annotations. It runs in the loop.
func (s *Scheduler) traceArrived(g *state.Graph) {
	o := lifetrace.Get()
	if o == nil {
		return
	}
	var last *state.Annotations
	trace := ""
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Annotations == nil {
			continue
		}
		if n.Annotations != last {
			last, trace = n.Annotations, lifetrace.Of(n.Annotations.Raw)
		}
		if trace != "" {
			o.Arrived(trace, n.Key.String(), s.loop.Now())
		}
	}
}

// traceAssigned reports that a traced task is sent to a worker. It runs in the loop.
func (s *Scheduler) traceAssigned(a *state.Action, w *peers.Worker) {
	o := lifetrace.Get()
	if o == nil {
		return
	}
	if notes := a.Task.Annotations(); notes != nil {
		if trace := lifetrace.Of(notes.Raw); trace != "" {
			o.Assigned(trace, a.Key.String(), w.Address, s.loop.Now())
		}
	}
}
