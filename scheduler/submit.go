package scheduler

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/peers"
)

// updateGraph submits a graph. It runs in the loop.
func (s *Scheduler) updateGraph(c *peers.Client, g *graphs.Graph) {
	if g.Err != nil {
		s.badGraph(c, g.Event.Keys, g.Err)
		return
	}
	s.computations.Note(s.loop.Now(), s.state.Idle(), g.Code)
	s.journal.Graph(c.Name, g.Raw, g.Expr)
	s.relax(&g.Tasks)
	g.Event.Client, g.Event.Graph = c.ID, &g.Tasks
	s.apply(&g.Event)
	s.collectors.Submitted(g.Event.Keys)
	g.Recycle()
	s.tasksKnown.Fire()
	if g.Event.Err != nil {
		s.log.Warn("a graph cannot be run", "client", c.Name, "error", g.Event.Err)
	}
}

// relax lets workers of any build run a graph where the configuration says so. The journal keeps what the client wants.
func (s *Scheduler) relax(g *state.Graph) {
	if s.cfg.AnyBuild {
		g.Registry, _ = task.SplitHash(g.Registry)
	}
}

// badGraph tells a client that what it wants cannot be computed.
func (s *Scheduler) badGraph(c *peers.Client, keys []task.Key, why error) {
	s.log.Warn("a graph cannot be run", "client", c.Name, "error", why)
	if c.Stream == nil || c.Stream.Gone {
		return
	}
	f := graphs.FailureOf(why)
	for _, k := range keys {
		s.toClient(c.Stream, &state.Action{Kind: state.KeyErred, Key: k, Failure: f})
	}
}
