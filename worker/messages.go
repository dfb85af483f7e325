package worker

import (
	"unsafe"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// The messages of the worker's stream, as Dask's scheduler reads them. The names of fields
// are copied as they are encoded: nothing here allocates.

// name appends the name of a field. All names are shorter than 32 bytes, whose head is one
// byte.
func name(b []byte, text string) []byte {
	return append(append(b, 0xa0|byte(len(text))), text...)
}

func (w *Worker) message(op string, fields int) {
	w.out.n++
	b := msgpack.AppendMapHeader(w.out.body, 2+fields)
	b = msgpack.AppendString(name(b, "op"), op)
	w.out.body = msgpack.AppendString(name(b, "stimulus_id"), w.stimulus)
}

// say encodes one of the state's messages.
func (w *Worker) say(a *state.Action) {
	switch a.Kind {
	case state.SendTaskFinished:
		w.sayFinished(a.Task, a.RunID)
	case state.SendTaskErred:
		w.sayErred(a.Task, a.RunID)
	case state.SendAddKeys:
		w.sayAddKeys(a)
	case state.SendRequestRefresh:
		w.message("request-refresh-who-has", 1)
		w.sayKeys(a.Tasks)
	case state.SendReleaseData:
		w.message("release-worker-data", 1)
		w.out.body = append(name(w.out.body, "key"), a.Key...)
	case state.SendReschedule:
		w.message("reschedule", 1)
		w.out.body = append(name(w.out.body, "key"), a.Key...)
	case state.SendStealResponse:
		w.sayStealResponse(a)
	case state.SendLongRunning:
		w.message("long-running", 3)
		b := append(name(w.out.body, "key"), a.Key...)
		b = msgpack.AppendInt(name(b, "run_id"), a.RunID)
		b = name(b, "compute_duration")
		if a.HasState {
			w.out.body = msgpack.AppendFloat(b, a.After.Seconds())
		} else {
			w.out.body = msgpack.AppendNil(b)
		}
	}
}

func (w *Worker) sayKeys(tasks []*state.Task) {
	b := msgpack.AppendArrayHeader(name(w.out.body, "keys"), len(tasks))
	for _, t := range tasks {
		b = append(b, t.Key()...)
	}
	w.out.body = b
}

func (w *Worker) sayFinished(t *state.Task, runID int64) {
	w.message("task-finished", 9)
	start, stop, thread := t.Times()
	b := append(name(w.out.body, "key"), t.Key()...)
	b = msgpack.AppendInt(name(b, "run_id"), runID)
	b = msgpack.AppendString(name(b, "status"), "OK")
	b = msgpack.AppendInt(name(b, "nbytes"), max(0, t.NBytes()))
	if class := w.pyTypes.of(t.TypeName()); class != nil {
		b = msgpack.AppendBytes(name(b, "type"), class)
	} else {
		b = msgpack.AppendNil(name(b, "type")) // Go's types are no classes of Python
	}
	b = msgpack.AppendString(name(b, "typename"), t.TypeName())
	b = msgpack.AppendMapHeader(name(b, "metadata"), 0)
	b = msgpack.AppendInt(name(b, "thread"), thread)
	p := w.partsOf(t, start, stop)
	w.out.body = appendParts(b, &p)
}

func (w *Worker) sayErred(t *state.Task, runID int64) {
	w.message("task-erred", 9)
	f := t.Failure()
	start, stop, thread := t.Times()
	b := append(name(w.out.body, "key"), t.Key()...)
	b = msgpack.AppendInt(name(b, "run_id"), runID)
	b = msgpack.AppendString(name(b, "status"), "error")
	w.out.body = name(b, "exception")
	w.sayObject(f.Exception)
	w.out.body = name(w.out.body, "traceback")
	w.sayObject(f.Traceback)
	b = msgpack.AppendString(name(w.out.body, "exception_text"), f.ExceptionText)
	b = msgpack.AppendString(name(b, "traceback_text"), f.TracebackText)
	b = msgpack.AppendInt(name(b, "thread"), thread)
	p := w.partsOf(t, start, stop)
	w.out.body = appendParts(b, &p)
}

// sayObject appends an exception or traceback, which travel in frames of their own.
func (w *Worker) sayObject(v any) {
	if s, ok := v.(*wire.Serialized); ok && s != nil {
		w.out.serialized(s)
	} else {
		w.out.body = msgpack.AppendNil(w.out.body)
	}
}

// sayAddKeys announces results. Sizes are said for a scheduler that is to adopt them: only
// Millstream's is ever asked to.
func (w *Worker) sayAddKeys(a *state.Action) {
	if !a.Adopt {
		w.message("add-keys", 1)
		w.sayKeys(a.Tasks)
		return
	}
	w.message("add-keys", 3)
	w.sayKeys(a.Tasks)
	b := msgpack.AppendArrayHeader(name(w.out.body, "nbytes"), len(a.Tasks))
	for _, t := range a.Tasks {
		b = msgpack.AppendInt(b, t.NBytes())
	}
	w.out.body = msgpack.AppendBool(name(b, "adopt"), true)
}

// sayStealResponse answers with the stimulus of the request, by which the scheduler knows
// it again.
func (w *Worker) sayStealResponse(a *state.Action) {
	w.out.n++
	b := msgpack.AppendMapHeader(w.out.body, 4)
	b = msgpack.AppendString(name(b, "op"), "steal-response")
	b = append(name(b, "key"), a.Key...)
	b = name(b, "state")
	if a.HasState {
		b = msgpack.AppendString(b, a.State.String())
	} else {
		b = msgpack.AppendNil(b)
	}
	w.out.body = msgpack.AppendString(name(b, "stimulus_id"), a.Stimulus)
}

func (w *Worker) sayStatus(status string) {
	w.message("worker-status-change", 1)
	w.out.body = msgpack.AppendString(name(w.out.body, "status"), status)
}

func (w *Worker) sayKeepAlive() {
	w.out.n++
	b := msgpack.AppendMapHeader(w.out.body, 1)
	w.out.body = msgpack.AppendString(name(b, "op"), "keep-alive")
}

// appendParts appends the parts of a run's time as Dask's startstops, from which the scheduler learns durations and
// what its task stream shows of a task.
func appendParts(b []byte, p *record.Parts) []byte {
	n := 0
	p.Each(func(string, int64, int64) { n++ })
	b = msgpack.AppendArrayHeader(name(b, "startstops"), n)
	p.Each(func(action string, start, stop int64) {
		b = msgpack.AppendMapHeader(b, 3)
		b = msgpack.AppendString(name(b, "action"), action)
		b = msgpack.AppendFloat(name(b, "start"), record.Seconds(start))
		b = msgpack.AppendFloat(name(b, "stop"), record.Seconds(stop))
	})
	return b
}

// partsOf returns those of a task that has ended in this turn, or its computation alone.
func (w *Worker) partsOf(t *state.Task, start, stop int64) record.Parts {
	if r := w.ended; r != nil && r.key == t.Key() && r.start == start {
		return record.Parts{Moved: r.moved, Load: r.load, Start: start, Stop: stop}
	}
	return record.Parts{Start: start, Stop: stop}
}

// borrow is bytes as a string without a copy, for calls that do not keep it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// pointer is where a run is in memory: its goroutine's stack shows it.
func pointer(r *run) uintptr { return uintptr(unsafe.Pointer(r)) }
