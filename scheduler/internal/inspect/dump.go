package inspect

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// dumpStep is the number of tasks that are dumped at once, so that the loop serves others in between.
const dumpStep = 5000

// dumpRPC serves Client.dump_cluster_state: the state of scheduler and workers in the form that
// distributed.cluster_dump.DumpArtefact reads.
func (s *Inspector) dumpRPC(ctx context.Context, _ *rpc.Request, in struct {
	Exclude []string `rpc:"exclude,optional"`
}) (msgpack.Map, error) {
	exclude := slices.Clone(in.Exclude)
	own, err := s.dump(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.Broadcast(ctx, msgpack.MapOf("op", "dump_state", "exclude", exclude))
	if err != nil {
		return nil, err
	}
	workerVersions, err := s.Broadcast(ctx, msgpack.MapOf("op", "versions"))
	if err != nil {
		return nil, err
	}
	versions, err := s.Versions(ctx)
	if err != nil {
		return nil, err
	}
	return msgpack.MapOf("scheduler", rpc.Exclude(own, exclude), "workers", states,
		"versions", msgpack.MapOf("scheduler", versions, "workers", workerVersions)), nil
}

// dump returns the state of the scheduler. Tasks that change meanwhile are in the state at which they were read.
func (s *Inspector) dump(ctx context.Context) (msgpack.Map, error) {
	var keys []task.Key
	out, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		for t := range s.State.Tasks() {
			keys = append(keys, t.Key())
		}
		return s.dumpHead(), nil
	})
	if err != nil {
		return nil, err
	}
	events, err := s.Topics.Events(ctx, nil)
	if err != nil {
		return nil, err
	}
	tasks := make(msgpack.Map, 0, len(keys))
	for part := range slices.Chunk(keys, dumpStep) {
		err := s.Loop.Do(ctx, func() {
			for _, k := range part {
				if t := s.State.Task(k); t != nil {
					tasks = append(tasks, msgpack.Pair{Key: k.String(), Value: dumpTask(t)})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return append(out, msgpack.MapOf("tasks", tasks, "events", events, "log", s.Lines(0))...), nil
}

// dumpHead returns the state of the scheduler without its tasks. It runs in the loop.
func (s *Inspector) dumpHead() msgpack.Map {
	m := s.Identity(0)
	workers := msgpack.Map{}
	s.Workers.Each(nil, func(w *peers.Worker, sw *state.Worker) {
		workers = append(workers, msgpack.Pair{Key: w.Address, Value: s.dumpWorker(w, sw)})
	})
	m.Set("workers", workers)
	clients := msgpack.Map{}
	for c := range s.State.Clients() {
		clients = append(clients, msgpack.Pair{Key: c.Name(), Value: clientText(c)})
	}
	groups := msgpack.Map{}
	for g := range s.State.Groups() {
		groups = append(groups, msgpack.Pair{Key: g.Name(), Value: groupText(g)})
	}
	return append(m, msgpack.MapOf("status", "running", "transition_counter", s.State.Counters().Transitions,
		"transition_log", s.FacadeTransitions(), "clients", clients, "task_groups", groups, "total_occupancy",
		s.State.TotalOccupancy())...)
}

// dumpWorker returns the state of a worker, as far as the scheduler knows it. It runs in the loop.
func (s *Inspector) dumpWorker(w *peers.Worker, sw *state.Worker) msgpack.Map {
	m := textKeys(s.Worker(w))
	has := make([]any, sw.NumHeld())
	for i := range has {
		has[i] = taskText(sw.Held(i))
	}
	processing, longRunning := []any{}, []any{}
	for t := range sw.Processing() {
		processing = append(processing, taskText(t))
		if t.LongRunning() {
			longRunning = append(longRunning, taskText(t))
		}
	}
	return append(m, msgpack.MapOf("address", w.Address, "pid", w.PID, "server_id", w.ServerID, "nbytes", sw.NBytes(),
		"occupancy", s.State.Occupancy(sw), "has_what", has, "processing", processing, "long_running", longRunning,
		"time_delay", w.Delay)...)
}

// textKeys returns a map whose keys are texts at any depth, as in Dask's dumps: metrics of Dask workers have tuples.
func textKeys(m msgpack.Map) msgpack.Map {
	out := make(msgpack.Map, len(m))
	for i, p := range m {
		if _, ok := p.Key.(string); !ok {
			p.Key = fmt.Sprint(p.Key)
			if k, err := task.KeyOf(m[i].Key); err == nil {
				p.Key = k.String()
			}
		}
		if inner, ok := p.Value.(msgpack.Map); ok {
			p.Value = textKeys(inner)
		}
		out[i] = p
	}
	return out
}

// dumpTask returns the state of a task under the names of Dask's TaskState. It runs in the loop.
func dumpTask(t *state.Task) msgpack.Map {
	var processingOn, exceptionText, tracebackText any
	if w := t.ProcessingOn(); w != nil {
		processingOn = w.Address()
	}
	if f := t.Failure(); f != nil {
		exceptionText, tracebackText = f.ExceptionText, f.TracebackText
	}
	p := t.Priority()
	m := msgpack.MapOf("key", t.Key().String(), "state", t.State().String(), "prefix", t.Prefix().Name(),
		"group", groupText(t.Group()), "group_key", t.Group().Name(), "priority", []any{p.User, p.Generation, p.Order},
		"nbytes", t.NBytes(), "type", typeName(t), "run_id", t.RunID(), "retries", t.Retries(),
		"suspicious", t.Suspicious(),
		"actor", t.Actor(), "processing_on", processingOn, "who_has", holders(t), "erred_on", erredOn(t),
		"exception_text", exceptionText, "traceback_text", tracebackText)
	deps, dependents, waiters, waitingOn, wants := []any{}, []any{}, []any{}, []any{}, []any{}
	for i := range t.NumDeps() {
		deps = append(deps, taskText(t.Dep(i)))
	}
	for i := range t.NumDependents() {
		d := t.Dependent(i)
		dependents = append(dependents, taskText(d))
		switch d.State() {
		case state.Waiting, state.Queued, state.NoWorkerState, state.Processing:
			waiters = append(waiters, taskText(d))
		}
	}
	for d := range t.WaitingOn() {
		waitingOn = append(waitingOn, taskText(d))
	}
	for c := range t.WhoWants() {
		wants = append(wants, clientText(c))
	}
	if a := t.Annotations(); a != nil {
		resources := msgpack.Map{}
		for _, r := range a.Resources {
			resources = append(resources, msgpack.Pair{Key: r.Name, Value: r.Amount})
		}
		m = append(m, msgpack.MapOf("worker_restrictions", a.Workers, "resource_restrictions", resources)...)
	}
	return append(m, msgpack.MapOf("dependencies", deps, "dependents", dependents, "waiters", waiters, "waiting_on",
		waitingOn, "who_wants", wants)...)
}

func taskText(t *state.Task) string { return fmt.Sprintf("<TaskState '%s' %s>", t.Key(), t.State()) }

func clientText(c *state.Client) string { return fmt.Sprintf("<Client '%s'>", c.Name()) }

// groupText returns the name of a group and the number of its tasks by state.
func groupText(g *state.Group) string {
	text := "<" + g.Name() + ":"
	for st := range state.Forgotten {
		if n := g.Count(st); n > 0 {
			text += fmt.Sprintf(" %s: %d", st, n)
		}
	}
	return text + ">"
}

// dumpToURL rejects Client.dump_cluster_state(…, write_from_scheduler=True).
func dumpToURL(context.Context, *rpc.Request) (any, error) {
	return nil, &rpc.Exception{Type: "NotImplementedError", Message: "dump_cluster_state_to_url: the scheduler " +
		"writes no files for clients; call Client.dump_cluster_state with write_from_scheduler=False, which writes " +
		"to the same path or URL"}
}
