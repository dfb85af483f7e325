package inspect

import (
	"fmt"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
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
				sw.NumProcessing(), "server_id", w.ServerID, "pid", w.PID, "time_delay", w.Delay, "versions",
				w.Versions, "extra", w.Extra, "used_resources", used(sw), "idle", s.State.Unoccupied(sw), "saturated",
				s.State.Saturated(sw), "usage", s.Usage(w))...)
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
		s.Primitives.Metadata(), "worker_ttl", ttl, "bandwidth", s.State.Bandwidth(), "transition_counter",
		s.State.Counters().Transitions)...)
}

// used returns the resources of a worker that are in use.
func used(w *state.Worker) msgpack.Map {
	supplied, amounts := w.Resources()
	out := msgpack.Map{}
	for i, r := range supplied {
		out = append(out, msgpack.Pair{Key: r.Name, Value: amounts[i]})
	}
	return out
}

// FacadeTransitions returns the latest transitions of all tasks. It runs in the loop.
func (s *Inspector) FacadeTransitions() []any {
	out := []any{}
	for _, t := range s.State.Story() {
		out = append(out, storyRow(t))
	}
	return out
}

// FacadeOps are the ops that functions on the scheduler may perform, under the names of the methods of Dask's scheduler
// that do the same. Their replies have no pickled values.
var FacadeOps = map[string]string{
	"adaptive_target": "adaptive_target", "workers_to_close": "workers_to_close", "retire_workers": "retire_workers",
	"restart": "restart", "restart_workers": "restart_workers", "rebalance": "rebalance", "replicate": "replicate",
	"remove_worker": "unregister", "close": "terminate", "check_idle": "check_idle",
	"get_who_has": "who_has", "get_has_what": "has_what", "get_ncores": "ncores",
	"get_ncores_running": "ncores_running",
	"get_processing":     "processing", "get_nbytes": "nbytes", "get_task_status": "get_task_status",
	"get_task_prefix_states": "get_task_prefix_states", "story": "get_story", "get_logs": "get_logs",
	"get_task_stream":          "get_task_stream",
	"unregister_worker_plugin": "unregister_worker_plugin", "unregister_nanny_plugin": "unregister_nanny_plugin",
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
		rows[i] = facadeRow(t, index)
	}
	return rows, nil
}

// maxFacadeNeighbors bounds the neighbors of a task that FacadeTask returns.
const maxFacadeNeighbors = 10_000

// FacadeTask returns the row of a task, and those of its dependencies and dependents; none if there is no such task.
// Neighbors have no neighbors but those of the list. It runs in the loop.
func (s *Inspector) FacadeTask(key task.Key) []any {
	t := s.State.Task(key)
	if t == nil {
		return []any{}
	}
	tasks, index := []*state.Task{t}, map[*state.Task]int{t: 0}
	add := func(n *state.Task) {
		if _, known := index[n]; !known && len(tasks) <= maxFacadeNeighbors {
			index[n] = len(tasks)
			tasks = append(tasks, n)
		}
	}
	for i := range t.NumDeps() {
		add(t.Dep(i))
	}
	for i := range t.NumDependents() {
		add(t.Dependent(i))
	}
	rows := make([]any, len(tasks))
	for i, t := range tasks {
		rows[i] = facadeRow(t, index)
	}
	return rows
}

// facadeRow returns the row of a task. index has the positions of rows, for dependencies.
func facadeRow(t *state.Task, index map[*state.Task]int) []any {
	var on any
	if w := t.ProcessingOn(); w != nil {
		on = w.Address()
	}
	deps := make([]any, 0, t.NumDeps())
	for j := range t.NumDeps() {
		if i, known := index[t.Dep(j)]; known {
			deps = append(deps, i)
		}
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
	return []any{t.Key().Raw(), t.State().String(), t.NBytes(), t.RunID(), t.Retries(), t.Suspicious(),
		t.Actor(), text, trace,
		t.Prefix().Name(), t.Group().Name(), []any{p.User, p.Generation, p.Order}, on, holders(t), deps, wants,
		facadeNotes(t), typeName(t), erredOn(t), t.LongRunning()}
}

// facadeNotes returns the annotations of a task as msgpack, the workers that may run it, whether others may, and the
// resources that it uses; nil if it has none.
func facadeNotes(t *state.Task) any {
	a := t.Annotations()
	if a == nil {
		return nil
	}
	resources := msgpack.Map{}
	for _, r := range a.Resources {
		resources = append(resources, msgpack.Pair{Key: r.Name, Value: r.Amount})
	}
	return []any{a.Raw, a.Workers, a.AllowOtherWorkers, resources}
}

func typeName(t *state.Task) any {
	if r := t.Type(); r != nil {
		return r.Name
	}
	return nil
}

func erredOn(t *state.Task) []any {
	out := []any{}
	if f := t.Failure(); f != nil && f.Worker != "" {
		out = append(out, f.Worker)
	}
	return out
}
