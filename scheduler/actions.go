package scheduler

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/peers"
)

// apply applies an event to the state and carries out the resulting actions. Only the loop calls it.
func (s *Scheduler) apply(ev state.Event) {
	outer := s.loop.SetCritical(true) // a panic now ends the scheduler
	s.state.Apply(s.loop.Now(), ev, &s.actions)
	list := s.actions.List()
	for i := range list {
		s.act(&list[i])
	}
	s.loop.SetCritical(outer)
}

func (s *Scheduler) act(a *state.Action) {
	switch a.Kind {
	case state.ActionNone:
	case state.LogEvent:
		s.logAction(a)
	case state.TaskMoved:
		s.taskMoved(a)
	case state.RequestDone:
		s.requests.Done(a.Number, a.Keys)
	case state.WorkerRemoved:
		s.workers.Forget(s.workers.ByID(a.Worker), "retired", true)
	case state.LostData:
		if !s.ending {
			s.feed.LostData(s.loop.Now(), a)
		}
		s.toClient(a)
	case state.KeyErred:
		if !s.ending {
			s.feed.KeyErred(s.loop.Now(), a)
		}
		s.toClient(a)
	case state.KeyInMemory, state.CancelledKeys, state.TaskRetried, state.ClientRestart:
		s.toClient(a)
	default:
		if w := s.workers.ByID(a.Worker); w != nil && w.Stream != nil && !w.Stream.Gone {
			if a.Kind == state.ComputeTask {
				s.traceAssigned(a, w)
			}
			s.writer.ToWorker(w.Stream, a, s.loop.Now())
		}
	}
}

// toClient sends an action to its client, if that is connected.
func (s *Scheduler) toClient(a *state.Action) {
	if c := s.clients.ByID(a.Client); c != nil && c.Stream != nil && !c.Stream.Gone {
		s.writer.ToClient(c.Stream, a)
	}
}

// updateGraph submits a graph. It runs in the loop.
func (s *Scheduler) updateGraph(c *peers.Client, g *graphs.Graph) {
	if g.Err != nil {
		s.rejectGraph(c, g.Event.Keys, g.Err)
		return
	}
	s.computations.Note(s.loop.Now(), s.state.Idle(), g.Code)
	s.journal.Graph(c.Name, g.Raw, g.Expr)
	s.allowBuilds(&g.Tasks)
	g.Event.Client, g.Event.Graph = c.ID, &g.Tasks
	s.traceArrived(&g.Tasks)
	s.hooks.Hold()
	s.apply(&g.Event)
	s.hooks.Graph(c.Name, &g.Event)
	s.collectors.Submitted(g.Event.Keys)
	g.Recycle()
	s.tasksKnown.Fire()
	if g.Event.Err != nil {
		s.log.Warn("graph rejected", "client", c.Name, "error", g.Event.Err)
	}
}

// allowBuilds lets workers of any build run a graph if Config.AnyBuild is set. The journal keeps the registry of the
// client.
func (s *Scheduler) allowBuilds(g *state.Graph) {
	if s.cfg.AnyBuild {
		g.Registry, _ = task.SplitHash(g.Registry)
	}
}

// rejectGraph reports to a client that its keys cannot be computed.
func (s *Scheduler) rejectGraph(c *peers.Client, keys []task.Key, why error) {
	s.log.Warn("graph rejected", "client", c.Name, "error", why)
	if c.Stream == nil || c.Stream.Gone {
		return
	}
	f := graphs.FailureOf(why)
	for _, k := range keys {
		s.writer.ToClient(c.Stream, &state.Action{Kind: state.KeyErred, Key: k, Failure: f})
	}
}

// taskMoved notifies shuffles, feeds and collectors of the new state of a task. It runs in the loop, while actions are
// carried out.
func (s *Scheduler) taskMoved(a *state.Action) {
	s.shuffles.Moved(a)
	s.feeds.Moved(a)
	s.collectors.Moved(a)
}
