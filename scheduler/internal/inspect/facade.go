package inspect

import (
	"fmt"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
)

func (s *Inspector) FacadeInfo() msgpack.Map {
	m := s.Identity(-1)
	v, _ := m.Get("workers")
	workers, _ := v.(msgpack.Map)
	for i := range workers {
		w := s.Workers.Find(workers[i].Key)
		info, _ := workers[i].Value.(msgpack.Map)
		if sw := s.State.Worker(w.ID); sw != nil {
			info = append(info, msgpack.MapOf("nbytes", sw.NBytes(), "occupancy", s.State.Occupancy(sw), "nprocessing",
				sw.NumProcessing(), "server_id", w.ServerID, "pid", w.PID)...)
		}
		for j := range info {
			if _, err := msgpack.Append(nil, info[j].Value); err != nil {
				info[j].Value = fmt.Sprint(info[j].Value) // may have types that msgpack cannot encode
			}
		}
		workers[i].Value = info
	}
	clients := []any{}
	for c := range s.State.Clients() {
		clients = append(clients, c.Name())
	}
	var ttl any // None: no limit
	if s.WorkerTTL > 0 {
		ttl = s.WorkerTTL.Seconds()
	}
	return append(m, msgpack.MapOf("occupancy", s.State.TotalOccupancy(), "clients", clients, "metadata",
		s.Primitives.Metadata(), "worker_ttl", ttl)...)
}

// maxFacadeTasks bounds the number of tasks that a function can read.
const maxFacadeTasks = 1_000_000

// FacadeTasks returns all tasks as rows: see Task in internal/dask/python/millstream/_facade.py.
func (s *Inspector) FacadeTasks() (any, error) {
	if n := s.State.NumTasks(); n > maxFacadeTasks {
		return nil, fmt.Errorf("%d tasks exceed the limit of %d for functions on the scheduler", n, maxFacadeTasks)
	}
	index := make(map[*state.Task]int, s.State.NumTasks())
	tasks := make([]*state.Task, 0, s.State.NumTasks())
	for t := range s.State.Tasks() {
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
		rows[i] = []any{t.Key().Raw(), t.State().String(), t.NBytes(), t.RunID(), t.Retries(), t.Suspicious(),
			t.Actor(), text, trace,
			t.Prefix().Name(), t.Group().Name(), []any{p.User, p.Generation, p.Order}, on, holders(t), deps, wants}
	}
	return rows, nil
}
