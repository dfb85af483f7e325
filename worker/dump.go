package worker

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/ops"
)

// dump returns the state of the worker for Dask's dump_state: its tasks and their transitions, under the names of Dask.
func dump(w *Worker) msgpack.Map {
	tasks, log := msgpack.Map{}, []any{}
	var stats state.Stats
	w.do(func() {
		w.state.Tasks(func(t *state.Task) bool {
			tasks = append(tasks, msgpack.Pair{Key: t.Key().String(), Value: dumpTask(t)})
			return true
		})
		for _, t := range w.state.Log() {
			log = append(log, ops.StoryRow(t))
		}
		stats = w.state.Stats()
	})
	return msgpack.MapOf("tasks", tasks, "log", log, "nbytes", stats.NBytes, "executed_count", stats.Executed,
		"transition_counter", stats.Transitions, "transfer_incoming_bytes", stats.IncomingBytes,
		"transfer_incoming_count", stats.IncomingCount, "transfer_incoming_count_total", stats.IncomingTotal,
		"logs", w.logs.records.List(0, nil, false))
}

// dumpTask returns the state of a task under the names of Dask's TaskState of workers.
func dumpTask(t *state.Task) msgpack.Map {
	deps, dependents, holders := []any{}, []any{}, []any{}
	for i := range t.NumDeps() {
		deps = append(deps, taskText(t.Dep(i)))
	}
	for i := range t.NumDependents() {
		dependents = append(dependents, taskText(t.Dependent(i)))
	}
	for i := range t.NumHolders() {
		holders = append(holders, t.Holder(i).Address())
	}
	var previous, from, failure any
	if p, ok := t.Previous(); ok {
		previous = p.String()
	}
	if p := t.ComingFrom(); p != nil {
		from = p.Address()
	}
	if f := t.Failure(); f != nil {
		failure = f.ExceptionText
	}
	return msgpack.MapOf("key", t.Key().String(), "state", t.State().String(), "previous", previous,
		"run_id", t.RunID(), "nbytes", t.NBytes(), "type", t.TypeName(), "actor", t.Actor(), "span_id", t.SpanID(),
		"dependencies", deps,
		"dependents", dependents, "who_has", holders, "coming_from", from, "exception_text", failure)
}

func taskText(t *state.Task) string { return fmt.Sprintf("<TaskState '%s' %s>", t.Key(), t.State()) }
