package stream

import (
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// The messages of the worker's stream, as Dask's scheduler reads them. The names of fields are copied as they are
// encoded: nothing here allocates.

// name appends the name of a field. All names are shorter than 32 bytes, whose head is one byte.
func name(b []byte, text string) []byte {
	return append(append(b, 0xa0|byte(len(text))), text...)
}

func (b *Batch) message(op, stimulus string, fields int) []byte {
	b.n++
	body := msgpack.AppendMapHeader(b.body, 2+fields)
	body = msgpack.AppendString(name(body, "op"), op)
	return msgpack.AppendString(name(body, "stimulus_id"), stimulus)
}

// Action adds a message that the state asks for, but for the end of a task: see Finished and Erred. Other actions are
// left alone.
func (b *Batch) Action(a *state.Action, stimulus string) {
	switch a.Kind {
	case state.SendAddKeys:
		b.addKeys(a, stimulus)
	case state.SendRequestRefresh:
		b.body = appendKeysOf(b.message("request-refresh-who-has", stimulus, 1), a.Tasks)
	case state.SendReleaseData:
		b.body = append(name(b.message("release-worker-data", stimulus, 1), "key"), a.Key...)
	case state.SendReschedule:
		b.body = append(name(b.message("reschedule", stimulus, 1), "key"), a.Key...)
	case state.SendStealResponse:
		b.stealResponse(a)
	case state.SendLongRunning:
		body := append(name(b.message("long-running", stimulus, 3), "key"), a.Key...)
		body = msgpack.AppendInt(name(body, "run_id"), a.RunID)
		body = name(body, "compute_duration")
		if a.HasState {
			b.body = msgpack.AppendFloat(body, a.After.Seconds())
		} else {
			b.body = msgpack.AppendNil(body)
		}
	}
}

func appendKeysOf(b []byte, tasks []*state.Task) []byte {
	b = msgpack.AppendArrayHeader(name(b, "keys"), len(tasks))
	for _, t := range tasks {
		b = append(b, t.Key()...)
	}
	return b
}

// Finished adds the message that a task has a result. class is the pickled Python class of the result, nil for types
// of Go.
func (b *Batch) Finished(t *state.Task, runID int64, class []byte, p *record.Parts, stimulus string) {
	body := b.message("task-finished", stimulus, 9)
	_, _, thread := t.Times()
	body = append(name(body, "key"), t.Key()...)
	body = msgpack.AppendInt(name(body, "run_id"), runID)
	body = msgpack.AppendString(name(body, "status"), "OK")
	body = msgpack.AppendInt(name(body, "nbytes"), max(0, t.NBytes()))
	if class != nil {
		body = msgpack.AppendBytes(name(body, "type"), class)
	} else {
		body = msgpack.AppendNil(name(body, "type"))
	}
	body = msgpack.AppendString(name(body, "typename"), t.TypeName())
	body = msgpack.AppendMapHeader(name(body, "metadata"), 0)
	body = msgpack.AppendInt(name(body, "thread"), thread)
	b.body = appendParts(body, p)
}

// Erred adds the message that a task has failed.
func (b *Batch) Erred(t *state.Task, runID int64, p *record.Parts, stimulus string) {
	body := b.message("task-erred", stimulus, 9)
	f := t.Failure()
	_, _, thread := t.Times()
	body = append(name(body, "key"), t.Key()...)
	body = msgpack.AppendInt(name(body, "run_id"), runID)
	body = msgpack.AppendString(name(body, "status"), "error")
	b.body = name(body, "exception")
	b.object(f.Exception)
	b.body = name(b.body, "traceback")
	b.object(f.Traceback)
	body = msgpack.AppendString(name(b.body, "exception_text"), f.ExceptionText)
	body = msgpack.AppendString(name(body, "traceback_text"), f.TracebackText)
	body = msgpack.AppendInt(name(body, "thread"), thread)
	b.body = appendParts(body, p)
}

// object appends an exception or traceback, which travel in frames of their own.
func (b *Batch) object(v any) {
	if s, ok := v.(*wire.Serialized); ok && s != nil {
		b.serialized(s)
	} else {
		b.body = msgpack.AppendNil(b.body)
	}
}

// addKeys announces results. Sizes are sent to a scheduler that is to adopt them: only Millstream's is ever asked to.
func (b *Batch) addKeys(a *state.Action, stimulus string) {
	if !a.Adopt {
		b.body = appendKeysOf(b.message("add-keys", stimulus, 1), a.Tasks)
		return
	}
	body := appendKeysOf(b.message("add-keys", stimulus, 3), a.Tasks)
	body = msgpack.AppendArrayHeader(name(body, "nbytes"), len(a.Tasks))
	for _, t := range a.Tasks {
		body = msgpack.AppendInt(body, t.NBytes())
	}
	b.body = msgpack.AppendBool(name(body, "adopt"), true)
}

// stealResponse replies with the stimulus of the request, by which the scheduler finds the request.
func (b *Batch) stealResponse(a *state.Action) {
	b.n++
	body := msgpack.AppendMapHeader(b.body, 4)
	body = msgpack.AppendString(name(body, "op"), "steal-response")
	body = append(name(body, "key"), a.Key...)
	body = name(body, "state")
	if a.HasState {
		body = msgpack.AppendString(body, a.State.String())
	} else {
		body = msgpack.AppendNil(body)
	}
	b.body = msgpack.AppendString(name(body, "stimulus_id"), a.Stimulus)
}

// Status adds worker-status-change.
func (b *Batch) Status(status, stimulus string) {
	b.body = msgpack.AppendString(name(b.message("worker-status-change", stimulus, 1), "status"), status)
}

// KeepAlive adds a message without a meaning, which keeps the connection in use.
func (b *Batch) KeepAlive() {
	b.n++
	body := msgpack.AppendMapHeader(b.body, 1)
	b.body = msgpack.AppendString(name(body, "op"), "keep-alive")
}

// CloseStream adds the last message of a stream. A reason counts as a death of the worker.
func (b *Batch) CloseStream(reason string) {
	b.n++
	if reason == "" {
		b.body = msgpack.AppendString(name(msgpack.AppendMapHeader(b.body, 1), "op"), "close-stream")
		return
	}
	body := msgpack.AppendString(name(msgpack.AppendMapHeader(b.body, 2), "op"), "close-stream")
	b.body = msgpack.AppendString(name(body, "reason"), reason)
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
