// Package memory observes the memory of workers and manages the replicas of results: the active memory manager and
// the samples of distributed.diagnostics.MemorySampler.
package memory

import (
	"context"
	"log/slog"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// Host is the part of the scheduler that Memory uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	Apply   func(state.Event)
	Workers *peers.Workers
	Clients *peers.Clients
	// Interval is the time between two runs of the active memory manager; negative: it runs on request only, until a
	// client starts it.
	Interval time.Duration
	// RecentToOld is the time after which unmanaged memory is no longer recent.
	RecentToOld time.Duration
}

// Memory is the active memory manager and the memory samplers. The loop owns it.
type Memory struct {
	Host
	running  bool
	lastRun  time.Time
	lastSeen time.Time // of the last record of unmanaged memory
	old      map[*peers.Worker]*lowest
	samplers map[string]*sampler
}

// defaultInterval is the time between two runs that a client has started although Interval is negative.
const defaultInterval = 2 * time.Second

// New returns a Memory.
func New(h Host) *Memory {
	s := &Memory{Host: h, running: h.Interval > 0, old: map[*peers.Worker]*lowest{}, samplers: map[string]*sampler{}}
	if h.Interval <= 0 {
		s.Interval = defaultInterval
	}
	return s
}

// Register sets the handlers of requests.
func (s *Memory) Register(r *rpc.Server) {
	rpc.Handle(r, "amm_handler", s.ammRPC)
	rpc.Handle(r, "memory_sampler_start", s.startRPC)
	rpc.Handle(r, "memory_sampler_stop", s.stopRPC)
}

// Tick runs the active memory manager if it is due. It runs in the loop.
func (s *Memory) Tick() {
	now := s.Loop.Now()
	if s.running && now.Sub(s.lastRun) >= s.Interval {
		s.run()
	}
	if now.Sub(s.lastSeen) >= recordInterval {
		s.lastSeen = now
		s.record(now)
	}
}

// run drops superfluous replicas.
func (s *Memory) run() {
	s.lastRun = s.Loop.Now()
	var ev state.ReduceReplicas
	if s.Apply(&ev); ev.Dropped > 0 {
		s.Log.Debug("superfluous replicas dropped", "replicas", ev.Dropped)
	}
}

// ammRPC serves Client.amm.
func (s *Memory) ammRPC(ctx context.Context, _ *rpc.Request, in struct {
	Method string `rpc:"method"`
}) (any, error) {
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		switch in.Method {
		case "running":
			return s.running, nil
		case "start":
			if !s.running {
				s.running, s.lastRun = true, s.Loop.Now()
			}
		case "stop":
			s.running = false
		case "run_once":
			s.run()
		default:
			return nil, &rpc.Exception{Type: "AttributeError",
				Message: "amm_handler: unknown method " + in.Method + "; want start, stop, run_once or running"}
		}
		return nil, nil
	})
}
