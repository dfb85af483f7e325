package worker

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/ops"
	"go.millstream.dev/worker/internal/record"
)

// maxPythonTasks bounds the tasks that code in the sidecar can read.
const maxPythonTasks = 1_000_000

// pythonState returns the state of the worker for worker.state in the sidecar: see millstream/sidecar_state.py.
func pythonState(w *Worker) (msgpack.Map, error) {
	tasks, log, n := []any{}, []any{}, 0
	var stats state.Stats
	w.do(func() {
		w.state.Tasks(func(t *state.Task) bool {
			if n++; n <= maxPythonTasks {
				tasks = append(tasks, pythonTask(t))
			}
			return n <= maxPythonTasks
		})
		for _, t := range w.state.Log() {
			log = append(log, ops.StoryRow(t))
		}
		stats = w.state.Stats()
	})
	if n > maxPythonTasks {
		return nil, fmt.Errorf("worker: more than %d tasks for worker.state; use Client.story or dump_cluster_state",
			maxPythonTasks)
	}
	return msgpack.MapOf("tasks", tasks, "log", log, "nbytes", stats.NBytes, "executed_count", stats.Executed,
		"transition_counter", stats.Transitions, "transfer_incoming_bytes", stats.IncomingBytes,
		"transfer_incoming_count_total", stats.IncomingTotal), nil
}

// pythonTask returns a task with keys for its neighbors.
func pythonTask(t *state.Task) msgpack.Map {
	deps, dependents, holders := []any{}, []any{}, []any{}
	for i := range t.NumDeps() {
		deps = append(deps, t.Dep(i).Key().Value())
	}
	for i := range t.NumDependents() {
		dependents = append(dependents, t.Dependent(i).Key().Value())
	}
	for i := range t.NumHolders() {
		holders = append(holders, t.Holder(i).Address())
	}
	priority := t.Priority()
	start, stop, _ := t.Times()
	var nbytes, previous, from, annotations, exception, traceback any
	if t.NBytes() >= 0 {
		nbytes = t.NBytes()
	}
	if p, ok := t.Previous(); ok {
		previous = p.String()
	}
	if p := t.ComingFrom(); p != nil {
		from = p.Address()
	}
	if a := t.Annotations(); len(a) > 0 {
		annotations = msgpack.Raw(a)
	}
	if f := t.Failure(); f != nil {
		exception, traceback = f.ExceptionText, f.TracebackText
	}
	return msgpack.MapOf("key", t.Key().Value(), "state", t.State().String(), "previous", previous, "run_id", t.RunID(),
		"priority", priority[:], "nbytes", nbytes, "who_has", holders, "coming_from", from, "dependencies", deps,
		"dependents", dependents, "start", record.Seconds(start), "stop", record.Seconds(stop), "annotations",
		annotations, "span_id", t.SpanID(), "exception_text", exception, "traceback_text", traceback)
}
