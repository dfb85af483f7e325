package worker

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/registration"
	"go.millstream.dev/worker/internal/sidecar"
)

// nameValue is the worker's name as it travels.
func nameValue(name, address string) any {
	if name == "" {
		return address
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && strconv.FormatInt(n, 10) == name {
		return n
	}
	return name
}

// registrationConfig returns what the connection to the scheduler is given.
func (w *Worker) registrationConfig() registration.Config {
	return registration.Config{Scheduler: w.cfg.Scheduler, Network: w.cfg.Network, Dial: w.cfg.Dial,
		DeathTimeout: w.cfg.DeathTimeout,
		Logger:       w.log,
		Worker: registration.Worker{
			Context:      w.ctx,
			Registration: w.registration,
			Registered: func(list []registration.Plugin) {
				if w.sidecar == nil {
					return
				}
				plugins := make([]sidecar.Plugin, len(list))
				for i, p := range list {
					plugins[i] = sidecar.Plugin(p)
				}
				w.sidecar.Registered(plugins)
			},
			Session: w.currentSession,
			Beat:    w.beat,
		}}
}

// currentSession returns the worker's session, nil without a scheduler.
func (w *Worker) currentSession() (s *registration.Session) {
	w.do(func() { s = w.session })
	return s
}

// registration is what the worker tells about itself.
func (w *Worker) registration() msgpack.Map {
	status := w.Status()
	if status == statusInit {
		status = statusRunning
	}
	resources := msgpack.Map{}
	for k, v := range w.cfg.Resources {
		resources.Set(k, v)
	}
	services := msgpack.Map{}
	if w.http != nil {
		services.Set("dashboard", w.http.Port)
	}
	var nanny, limit any
	if w.cfg.Nanny != "" {
		nanny = w.cfg.Nanny
	}
	if w.cfg.MemoryLimit > 0 {
		limit = w.cfg.MemoryLimit
	}
	now := w.snapshot()
	own := msgpack.MapOf("v", 1, "registry", task.Hash(), "functions", task.Names(), "signatures", task.Signatures(),
		"build", task.BuildText(),
		"lanes", len(w.DataAddresses()), "python", w.sidecar != nil, "death-token", w.cfg.DeathToken, "incarnation",
		w.incarnation)
	return msgpack.MapOf(
		"address", w.address, "status", status, "nthreads", w.cfg.Threads, "name", w.name, "now",
		record.Unix(time.Now()),
		"resources", resources, "memory_limit", limit, "local_directory", w.memory.Directory(), "services", services,
		"nanny", nanny,
		"pid", os.Getpid(), "versions", w.versions(), "metrics", now.Heartbeat(w.transfers.Bandwidths(),
			w.usage.Recent()), "extra", msgpack.MapOf("millstream", own),
		"stimulus_id", "worker-connect-"+w.id, "server_id", w.id)
}

// attach makes a session the worker's own.
func (w *Worker) attach(s *registration.Session, first bool) {
	w.do(func() {
		w.session, w.out.Writer = s, s.Send
		if first {
			w.status.set(statusRunning)
			return
		}
		w.apply(&state.Reattach{Stimulus: w.stimulus})
		if st := w.Status(); st != statusRunning {
			w.out.Status(st, w.stimulus)
		}
	})
}

// supervise reads the scheduler's stream until the worker ends, and finds the scheduler
// again after it was lost.
func (w *Worker) supervise(s *registration.Session) {
	for {
		err := s.Read(w.ctx, func(m *wire.Message) { w.hand(item{msg: m, session: s}) })
		if w.ctx.Err() != nil || w.closing.Load() {
			return
		}
		w.do(func() {
			w.drain(nil) // its last words, which may be that the worker is to end
			w.session, w.out.Writer = nil, nil
			w.apply(&state.SchedulerLost{Stimulus: w.stimulus})
		})
		if w.closing.Load() {
			return
		}
		if !s.Millstream {
			// Dask's scheduler has forgotten the worker and everything on it.
			w.endLater(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.log.Warn("lost the scheduler; data is kept until it is back", "scheduler", w.cfg.Scheduler, "error", err)
		if s, err = w.scheduler.Connect(w.ctx); err != nil {
			w.endLater(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.attach(s, false)
		w.log.Info("back with the scheduler", "scheduler", w.cfg.Scheduler)
	}
}

// hand leaves an item in the inbox and handles all that is there, unless another goroutine has the
// turn.
func (w *Worker) hand(i item) {
	if !w.inbox.putQuietly(i) {
		return
	}
	if !w.turn.TryLock() {
		w.inbox.poke()
		return
	}
	defer w.turn.Unlock()
	w.begin(nil)
	w.drain(nil)
	w.finish()
}
