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

// nameValue returns the name of the worker as it is sent: a string or a number.
func nameValue(name, address string) any {
	if name == "" {
		return address
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && strconv.FormatInt(n, 10) == name {
		return n
	}
	return name
}

// registrationConfig returns the configuration of the connection to the scheduler.
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
				w.sidecar.AddPlugins(plugins)
			},
			Session:   w.currentSession,
			Heartbeat: w.heartbeat,
		}}
}

// currentSession returns the session of the worker, nil without a scheduler.
func (w *Worker) currentSession() (s *registration.Session) {
	w.do(func() { s = w.session })
	return s
}

// registration returns the arguments of register-worker.
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
	extra := msgpack.Map{}
	if g := w.gpu.Extra(); g != nil {
		extra.Set("gpu", g)
	}
	own := msgpack.MapOf("v", 1, "registry", task.Hash(), "functions", task.Names(), "signatures", task.Signatures(),
		"build", task.BuildText(),
		"data-connections", len(w.DataAddresses()), "python", w.sidecar != nil, "values", true,
		"ahead", true, "death-token", w.cfg.DeathToken, "incarnation", w.incarnation)
	return msgpack.MapOf(
		"address", w.address, "status", status, "nthreads", w.cfg.Threads, "name", w.name, "now",
		record.Unix(time.Now()),
		"resources", resources, "memory_limit", limit, "local_directory", w.memory.Directory(), "services", services,
		"nanny", nanny,
		"pid", os.Getpid(), "versions", w.versions(), "metrics", now.Heartbeat(w.transfers.Bandwidths(),
			w.usage.Recent()), "extra", append(extra, msgpack.Pair{Key: "millstream", Value: own}),
		"stimulus_id", "worker-connect-"+w.id, "server_id", w.id)
}

// attach makes s the session of the worker.
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

// supervise reads the stream of the scheduler until the worker closes, and reconnects when the connection is lost.
func (w *Worker) supervise(s *registration.Session) {
	for {
		err := s.Read(w.ctx, func(m *wire.Message) { w.deliver(item{msg: m, session: s}) })
		if w.ctx.Err() != nil || w.closing.Load() {
			return
		}
		w.do(func() {
			w.drain(nil) // the last messages may close the worker
			w.session, w.out.Writer = nil, nil
			w.apply(&state.SchedulerLost{Stimulus: w.stimulus})
		})
		if w.closing.Load() {
			return
		}
		if !s.Millstream {
			// A Dask scheduler has removed the worker and everything on it.
			w.shutDownAsync(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.log.Warn("scheduler connection lost; reconnecting", "scheduler", w.cfg.Scheduler, "error", err)
		if s, err = w.scheduler.Connect(w.ctx); err != nil {
			w.shutDownAsync(fmt.Errorf("%w: %w", ErrSchedulerLost, err))
			return
		}
		w.attach(s, false)
		w.log.Info("reconnected to scheduler", "scheduler", w.cfg.Scheduler)
	}
}

// deliver adds an item to the inbox and handles all items, unless another goroutine holds the turn.
func (w *Worker) deliver(i item) {
	if !w.inbox.add(i) {
		return
	}
	if !w.turn.TryLock() {
		w.inbox.signal()
		return
	}
	defer w.turn.Unlock()
	w.begin(nil)
	w.drain(nil)
	w.finish()
}
