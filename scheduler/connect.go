package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/clients"
	"go.millstream.dev/scheduler/internal/control"
	"go.millstream.dev/scheduler/internal/data"
	"go.millstream.dev/scheduler/internal/feed"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/hooks"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/memory"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/profiles"
	"go.millstream.dev/scheduler/internal/progress"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shortage"
	"go.millstream.dev/scheduler/internal/shuffle"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/scheduler/internal/versions"
	"go.millstream.dev/scheduler/internal/workers"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// connect creates the subsystems and gives each the functions of the others that it needs.
func (s *Scheduler) connect() {
	workerList, clientList := peers.NewWorkers(s.state), peers.NewClients(s.state)
	python := s.cfg.Python
	preloads, argv := pythonPreloads(&s.cfg.Python)
	s.helpers = helpers.New(helpers.Config{
		Log: s.log, Interpreter: python.Interpreter, Off: python.Off, AllowUnsafe: python.AllowUnsafe,
		Limits: pyproc.Limits{Memory: python.Memory, Disk: python.Disk, Processes: python.MaxProcesses},
		Hide:   append(slices.Clone(python.Hide), s.cfg.Journal), Facade: s.facade, Closed: s.loop.ClosedError,
		Restored: func(ctx context.Context, p *pyproc.Process) { s.hooks.Restore(ctx, p) },
		Exited:   func() { s.hooks.Exited() },
	})
	s.hooks = hooks.New(hooks.Host{
		Loop: s.loop, Log: s.log, State: s.state, Server: s.server, Context: s.ctx, Go: s.serving.Go,
		Preloads: preloads, PreloadArgv: argv,
		Call: func(ctx context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error) {
			return s.helpers.Call(ctx, helpers.Service, op, body, frames)
		},
	})
	s.opener = graphs.New(graphs.Config{
		Log: s.log, Helpers: s.helpers, Processes: python.Processes, Idle: python.Idle, Timeout: python.GraphTimeout,
		Record: s.journal.Enabled, ShuffleOf: shuffle.Of, Closed: s.loop.ClosedError,
	})
	s.topics = topics.New(topics.Host{
		Loop: s.loop, Log: s.log, Length: s.cfg.LogLength, Bytes: s.cfg.EventBytes, Logged: s.hooks.Logged,
		Send: func(client string, msg msgpack.Map) {
			if to := s.clients.ByName[client]; to != nil && to.Stream.Connected() {
				to.Stream.SendValue(msg)
			}
		},
	})
	s.versions = versions.New(versions.Host{Log: s.log, Workers: workerList, Helpers: s.helpers, Opener: s.opener})
	s.clients = clients.New(clients.Host{
		Loop: s.loop, Log: s.log, Apply: s.apply, Streams: s.streams, Workers: workerList, Journal: s.journal,
		Topics: s.topics, Changed: s.hooks.ClientChanged,
		Versions: s.versions, Totals: &s.totals, Serve: s.serve, ID: s.id, Forget: s.cfg.Forget,
		ReleaseStep: s.cfg.releaseStep, AnyBuild: s.cfg.AnyBuild,
	}, clientList)
	s.relay = data.NewRelay(data.RelayHost{Loop: s.loop, Log: s.log, State: s.state, Workers: workerList, Pool: s.pool})
	s.requests = data.NewRequests(s.loop, s.apply)
	s.data = data.New(data.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Workers: workerList, Clients: clientList,
		Journal: s.journal,
		Pool:    s.pool, Relay: s.relay, Requests: s.requests, Tasks: &s.tasksKnown, WorkersChanged: &s.workersChanged,
		Client: s.clients.Named, Publish: s.topics.Publish,
	})
	s.plugins = plugins.New(plugins.Host{
		Loop: s.loop, Journal: s.journal, Budget: &s.budget,
		Broadcast: func(ctx context.Context, msg msgpack.Map, nanny bool) (any, error) {
			return s.relay.Broadcast(ctx, data.Broadcast{Msg: msg, Nanny: nanny, OnError: "raise"})
		},
	}, msgpack.MapOf("shuffle", shuffle.Plugin()))
	s.prims = primitives.New(primitives.Host{
		Loop: s.loop, Log: s.log, Journal: s.journal, Clients: parts{s}, Budget: &s.budget, Tasks: &s.tasksKnown,
		Known:    func(key task.Key) bool { return s.state.Task(key) != nil },
		Describe: s.describe, LeaseTimeout: s.cfg.LeaseTimeout, LeaseInterval: s.cfg.LeaseInterval,
	})
	s.shuffles = shuffle.New(shuffle.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Workers: workerList, Publish: s.topics.Publish,
		Planner: s.opener.PlannerOf,
		Python: func(ctx context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error) {
			return s.helpers.Call(ctx, helpers.Shuffle, op, body, frames)
		},
		Call: func(ctx context.Context, address string, request msgpack.Map) error {
			var a data.Answers
			defer a.Release()
			_, err := s.relay.Call(ctx, address, request, &a)
			return err
		},
	})
	s.feeds = progress.New(progress.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Helpers: s.helpers, Tasks: &s.tasksKnown,
		Exception: s.writer.Exception,
		Followed:  func(key task.Key) bool { return shuffle.Of(key) != "" || s.collectors.Follows(key) },
	})
	s.short = shortage.New(shortage.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Workers: workerList, Clients: clientList,
		Publish: s.topics.Publish, Contact: s.Address, WorkersAdded: func() int64 { return s.totals.WorkersAdded },
		After: s.cfg.UnrunnableAfter, Closed: s.cfg.Closed, TickInterval: s.tickInterval(),
	})
	s.profiles = profiles.New(profiles.Host{
		Loop: s.loop, Log: s.log, State: s.state, Workers: workerList, Network: s.cfg.Network,
		Dial: s.cfg.Dial.To(secure.Worker), Cycle: s.cfg.ProfileCycle,
		Own: profile.New(profile.Config{Interval: s.cfg.ProfileInterval, Cycle: s.cfg.ProfileCycle,
			Length: s.cfg.LogLength}),
	})
	s.inspect = inspect.New(inspect.Host{
		Loop: s.loop, Log: s.log, State: s.state, Workers: workerList, Clients: clientList, Topics: s.topics,
		Primitives: s.prims,
		Journal:    s.journal, TaskStream: s.stream, Transfers: s.transfer, Shortages: s.short, Totals: &s.totals,
		Context: s.ctx, ID: s.id, Contact: s.Address, Started: func() time.Time { return s.started },
		WorkerTTL: s.cfg.WorkerTTL, Hosts: s.cfg.DashboardHosts, Token: s.cfg.DashboardToken,
		TLS: s.cfg.ListenConfig.TLS, Ask: s.ask, API: s.cfg.httpAPI,
		Collectors: slices.Concat(s.metrics.collectors(), s.cfg.Collectors),
		Broadcast: func(ctx context.Context, msg msgpack.Map) (any, error) {
			return s.relay.Broadcast(ctx, data.Broadcast{Msg: msg, OnError: "ignore"})
		},
		Versions: s.versions.Own, Usage: func(w *peers.Worker) msgpack.Map { return s.memory.Usage(w) },
		Pool: s.pool, Lines: s.lines.Pairs, Profile: s.profiles.Tree, Stacks: s.profiles.Stacks,
	})
	s.control = control.New(control.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Workers: workerList, Clients: clientList,
		Journal: s.journal,
		Pool:    s.pool, Requests: s.requests, WorkersChanged: &s.workersChanged,
		RemoveWorker: func(w *peers.Worker, why string, safe, notify bool) { s.workers.Remove(w, why, safe, notify) },
		Identity:     s.inspect.Worker, Publish: s.topics.Publish, End: s.terminate,
		Restarted: s.hooks.Restarted, Removable: s.removable,
	})
	s.memory = memory.New(memory.Host{
		Loop: s.loop, Log: s.log, Apply: s.apply, Workers: workerList, Clients: clientList,
		Interval: s.cfg.ReplicaInterval, RecentToOld: s.cfg.RecentToOld,
	})
	s.recovery = recovery.New(recovery.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Context: s.ctx, Replayer: replayer{s},
		Panicked: func() { s.loop.SetCritical(false) },
		Workers: func() []string {
			list := make([]string, 0, len(s.workers.ByAddress))
			for address := range s.workers.ByAddress {
				list = append(list, address)
			}
			return list
		},
		Clients: func() map[string]state.ClientID {
			ids := make(map[string]state.ClientID, len(s.clients.ByName))
			for name, c := range s.clients.ByName {
				ids[name] = c.ID
			}
			return ids
		},
		Changes: func(f func(op string, args msgpack.Map)) {
			s.prims.EachChange(f)
			s.plugins.EachChange(f)
		},
		Dir: s.cfg.Journal, MaxRecord: s.cfg.maxRecord, Reattach: s.cfg.Reattach,
		OnSync: s.metrics.committed,
	}, s.journal)
	s.workers = workers.New(workers.Host{
		Loop: s.loop, Log: s.log, State: s.state, Apply: s.apply, Streams: s.streams, Journal: s.journal,
		Recovery: s.recovery,
		Topics:   s.topics, Plugins: s.plugins, Shuffles: s.shuffles, Transfers: s.transfer, Versions: s.versions,
		Feed:   func() *feed.Feed { return s.feed },
		Totals: &s.totals, Pool: s.pool, Context: s.ctx, Go: s.serving.Go, Changed: &s.workersChanged, Serve: s.serve,
		Dial: func(ctx context.Context, address string) (comm.Comm, error) {
			return s.cfg.Network.Dial(ctx, address, s.cfg.Dial.To(secure.Worker))
		},
		Watch:       s.watch,
		Joined:      func(address string) { delete(s.removed, address) },
		Left:        func(address string) { s.removed[address] = s.loop.Now() },
		ClientEnded: s.clients.Ended, Ending: func() bool { return s.ending },
		ID: s.id, TTL: s.cfg.WorkerTTL, Reattach: s.cfg.Reattach,
	}, workerList)
}

// describe returns the fields that Dask has in a future of a task. It runs in the loop.
func (s *Scheduler) describe(key task.Key) msgpack.Map {
	t := s.state.Task(key)
	if t == nil {
		return msgpack.MapOf("state", "lost")
	}
	m := msgpack.MapOf("state", t.State().String())
	if f := t.Failure(); f != nil {
		exc, trace := s.writer.Exception(f, true)
		m = append(m, msgpack.MapOf("exception", val.OrNil(exc), "traceback", val.OrNil(trace))...)
	}
	return m
}

// journalFailed closes the scheduler, which cannot record changes any longer.
func (s *Scheduler) journalFailed(err error) {
	err = fmt.Errorf("scheduler %s: write journal in %s: %w; check whether the disk is full", s.id, s.cfg.Journal,
		err)
	s.log.Error("journal failed; scheduler closes", "error", err)
	s.setErr(err)
	go func() { _ = s.Close() }()
}

// parts holds keys for parts of the scheduler, such as primitives, in the way clients do.
type parts struct{ s *Scheduler }

// Desire holds keys for a part.
func (p parts) Desire(name string, keys ...task.Key) { p.s.clients.Desire(name, keys...) }

// Release undoes Desire.
func (p parts) Release(name string, keys ...task.Key) { p.s.clients.Release(name, keys...) }

// Forget removes a part and releases its keys.
func (p parts) Forget(name string) {
	if c := p.s.clients.ByName[name]; c != nil {
		p.s.clients.Remove(c)
	}
}

// Registered reports whether a client of this name is registered.
func (p parts) Registered(name string) bool { return p.s.clients.ByName[name] != nil }

// replayer applies the records of the journal.
type replayer struct{ s *Scheduler }

// ReplayGraph submits a graph.
func (r replayer) ReplayGraph(client string, raw []byte, expr *wire.Serialized) error {
	ops := message.ReadOps(raw)
	if !ops.Next() {
		return recovery.ErrRecord
	}
	var u message.UpdateGraph
	g, err := graphs.ReadUpdate(&ops, &u)
	if err != nil {
		return err
	}
	if g.Err == nil {
		g.Err = g.Read(expr)
	}
	if g.Err != nil {
		return g.Err
	}
	c := r.s.clients.Named(client)
	r.s.allowBuilds(&g.Tasks)
	g.Event.Client, g.Event.Graph = c.ID, &g.Tasks
	r.s.apply(&g.Event)
	g.Recycle()
	return nil
}

// ReplayChange changes a plugin or a primitive.
func (r replayer) ReplayChange(op string, args msgpack.Map) error {
	if r.s.plugins.Replay(op, args) {
		return nil
	}
	known, err := r.s.prims.Replay(op, args)
	switch {
	case !known:
		return fmt.Errorf("%w: op %q was written by a newer release", recovery.ErrRecord, op)
	case err != nil:
		return fmt.Errorf("%w: op %q: %w", recovery.ErrRecord, op, err)
	}
	return nil
}

// ReplayClient registers a client or removes it.
func (r replayer) ReplayClient(name string, there bool) {
	if there {
		r.s.clients.Named(name)
		return
	}
	parts(r).Forget(name)
}

// ReplayDesire holds keys for a client, or releases them.
func (r replayer) ReplayDesire(client string, keys []task.Key, release bool) {
	if release {
		r.s.clients.Release(client, keys...)
		return
	}
	r.s.clients.Desire(client, keys...)
}

// ReplayData declares scattered data that a client holds.
func (r replayer) ReplayData(client string, keys []task.Key) {
	r.s.apply(&state.ExpectData{Client: r.s.clients.Named(client).ID, Keys: keys})
}
