package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/wire"
)

// facade are the calls of the Python helper in which functions of clients run: what
// python/millstream/_facade.py shows them of the scheduler.
func (s *Scheduler) facade() map[string]pyproc.Handler {
	return map[string]pyproc.Handler{
		"scheduler-info": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.facadeInfo(), nil })
			return v, nil, err
		},
		"scheduler-tasks": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.facadeTasks() })
			return v, nil, err
		},
		"scheduler-computations": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.computations.Rows(), nil })
			return v, nil, err
		},
		"scheduler-log-event": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			args, err := bodyMap(m)
			if err != nil {
				return nil, nil, err
			}
			topic, _ := args.Get("topic")
			msg, _ := args.Get("msg")
			_, err = loop.Ask(ctx, s.loop, func() (any, error) { return nil, s.topics.PublishFrom(topic, msg, "") })
			return nil, nil, err
		},
		"scheduler-events": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			args, err := bodyMap(m)
			if err != nil {
				return nil, nil, err
			}
			topic, _ := args.Get("topic")
			v, err := s.topics.Events(ctx, topic)
			return v, nil, err
		},
		"scheduler-upload-file": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			args, err := bodyMap(m)
			if err != nil || len(m.Frames) != 1 {
				return nil, nil, errors.Join(err, helpers.ErrNoBody)
			}
			v, _ := args.Get("load")
			load, _ := v.(bool)
			n, err := s.helpers.Upload(ctx, helpers.Upload{Filename: args.GetString("filename"), Data: m.Frames[0], Load: load}, s.opener.Children())
			return msgpack.MapOf("status", "OK", "nbytes", n), nil, err
		},
		"scheduler-worker-plugin": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			return s.facadePlugin(ctx, m, false)
		},
		"scheduler-nanny-plugin": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			return s.facadePlugin(ctx, m, true)
		},
	}
}

// bodyMap is the body of a helper's call. It is the caller's own.
func bodyMap(m *pyproc.Message) (msgpack.Map, error) {
	v, err := msgpack.Decode(m.Body)
	if err != nil {
		return nil, err
	}
	args, ok := wire.Clone(v).(msgpack.Map)
	if !ok {
		return nil, fmt.Errorf("%s: its body is no map", m.Op)
	}
	return args, nil
}

func (s *Scheduler) facadeInfo() msgpack.Map {
	m := s.identity(-1)
	v, _ := m.Get("workers")
	workers, _ := v.(msgpack.Map)
	for i := range workers {
		w := s.workers.Find(workers[i].Key)
		info, _ := workers[i].Value.(msgpack.Map)
		if sw := s.state.Worker(w.ID); sw != nil {
			info = append(info, msgpack.MapOf("nbytes", sw.NBytes(), "occupancy", s.state.Occupancy(sw), "nprocessing", sw.NumProcessing(), "server_id", w.ServerID, "pid", w.PID)...)
		}
		for j := range info {
			if _, err := msgpack.Append(nil, info[j].Value); err != nil {
				info[j].Value = fmt.Sprint(info[j].Value) // a worker may say more than msgpack has words for
			}
		}
		workers[i].Value = info
	}
	clients := []any{}
	for c := range s.state.Clients() {
		clients = append(clients, c.Name())
	}
	var ttl any // Python's None: a worker may be silent for ever
	if s.cfg.WorkerTTL > 0 {
		ttl = s.cfg.WorkerTTL.Seconds()
	}
	return append(m, msgpack.MapOf("occupancy", s.state.TotalOccupancy(), "clients", clients, "metadata", s.prims.Metadata(), "worker_ttl", ttl)...)
}

// maxFacadeTasks bounds how many tasks a function is shown.
const maxFacadeTasks = 1_000_000

// facadeTasks are all tasks as rows: see Task in python/millstream/_facade.py.
func (s *Scheduler) facadeTasks() (any, error) {
	if n := s.state.NumTasks(); n > maxFacadeTasks {
		return nil, fmt.Errorf("there are %d tasks, and a function is shown at most %d", n, maxFacadeTasks)
	}
	index := make(map[*state.Task]int, s.state.NumTasks())
	tasks := make([]*state.Task, 0, s.state.NumTasks())
	for t := range s.state.Tasks() {
		index[t] = len(tasks)
		tasks = append(tasks, t)
	}
	rows := make([]any, len(tasks))
	for i, t := range tasks {
		var on any
		if w := t.ProcessingOn(); w != nil {
			on = w.Address()
		}
		deps := make([]any, t.NumDeps())
		for j := range deps {
			deps[j] = index[t.Dep(j)]
		}
		wants := []any{}
		for c := range t.WhoWants() {
			wants = append(wants, c.Name())
		}
		var text, trace string
		if f := t.Failure(); f != nil {
			text, trace = f.ExceptionText, f.TracebackText
		}
		p := t.Priority()
		rows[i] = []any{t.Key().Raw(), t.State().String(), t.NBytes(), t.RunID(), t.Retries(), t.Suspicious(), t.Actor(), text, trace,
			t.Prefix().Name(), t.Group().Name(), []any{p.User, p.Generation, p.Order}, on, holders(t), deps, wants}
	}
	return rows, nil
}

// facadePlugin registers a worker or nanny plugin for a scheduler plugin of Dask's. The
// answers of the workers go back as a message of Dask's protocol.
func (s *Scheduler) facadePlugin(ctx context.Context, m *pyproc.Message, nanny bool) (any, [][]byte, error) {
	args, err := bodyMap(m)
	if err != nil || len(m.Frames) != 1 {
		return nil, nil, errors.Join(err, helpers.ErrNoBody)
	}
	v, _ := args.Get("idempotent")
	idempotent, _ := v.(bool)
	out, err := s.plugins.Add(ctx, plugins.Args{Plugin: m.Frames[0], Name: args.GetString("name"), Idempotent: idempotent}, nanny)
	if err != nil {
		return nil, nil, err
	}
	msg, err := wire.Encode(out, wire.EncodeOptions{})
	if err != nil {
		return nil, nil, err
	}
	frames := make([][]byte, len(msg.Frames))
	for i, f := range msg.Frames {
		frames[i] = slices.Clone(f.Bytes())
	}
	msg.Release()
	return nil, frames, nil
}
