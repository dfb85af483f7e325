package stream

import (
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
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

// Messages writes the worker's messages. The zero value drops them: there is no scheduler. The holder of the worker's
// turn owns it.
type Messages struct {
	// Writer is the stream of the session, nil without one.
	Writer *rpc.Writer
}

// Linger is how long a message may wait for others if it is not urgent. Dask's workers let 2 ms pass between any two.
const Linger = 500 * time.Microsecond

// Flush hands over what was added. What is not urgent may wait for more.
func (m *Messages) Flush(urgent bool) {
	switch {
	case m.Writer == nil:
	case urgent:
		_ = m.Writer.Flush(0) // without a limit it does not fail
	default:
		_ = m.Writer.FlushLater()
	}
}

// Raw adds a message that is encoded already, with the frames that its markers count from 1.
func (m *Messages) Raw(message []byte, frames [][]byte) {
	if m.Writer == nil {
		return
	}
	list := make([]wire.Frame, len(frames))
	for i, f := range frames {
		list[i] = wire.HeapFrame(f)
	}
	m.Writer.Add(message, list)
}

// head appends the start of a message.
func head(b *rpc.Batch, op, stimulus string, fields int) []byte {
	body := msgpack.AppendMapHeader(b.Body, 2+fields)
	body = msgpack.AppendString(name(body, "op"), op)
	return msgpack.AppendString(name(body, "stimulus_id"), stimulus)
}

// Action adds a message that the state asks for, but for the end of a task: see Finished and Erred. Other actions are
// left alone.
func (m *Messages) Action(a *state.Action, stimulus string) {
	if m.Writer == nil || !isMessage(a.Kind) {
		return
	}
	b := m.Writer.Begin()
	switch a.Kind {
	case state.SendAddKeys:
		addKeys(b, a, stimulus)
	case state.SendRequestRefresh:
		b.Body = appendKeysOf(head(b, "request-refresh-who-has", stimulus, 1), a.Tasks)
	case state.SendReleaseData:
		b.Body = append(name(head(b, "release-worker-data", stimulus, 1), "key"), a.Key...)
	case state.SendReschedule:
		b.Body = append(name(head(b, "reschedule", stimulus, 1), "key"), a.Key...)
	case state.SendStealResponse:
		stealResponse(b, a)
	case state.SendLongRunning:
		body := append(name(head(b, "long-running", stimulus, 3), "key"), a.Key...)
		body = msgpack.AppendInt(name(body, "run_id"), a.RunID)
		body = name(body, "compute_duration")
		if a.HasState {
			b.Body = msgpack.AppendFloat(body, a.After.Seconds())
		} else {
			b.Body = msgpack.AppendNil(body)
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
func (m *Messages) Finished(t *state.Task, runID int64, class []byte, p *record.Parts, stimulus string) {
	if m.Writer == nil {
		return
	}
	b := m.Writer.Begin()
	body := head(b, "task-finished", stimulus, 9)
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
	b.Body = appendParts(body, p)
}

// Erred adds the message that a task has failed.
func (m *Messages) Erred(t *state.Task, runID int64, p *record.Parts, stimulus string) {
	if m.Writer == nil {
		return
	}
	b := m.Writer.Begin()
	body := head(b, "task-erred", stimulus, 9)
	f := t.Failure()
	_, _, thread := t.Times()
	body = append(name(body, "key"), t.Key()...)
	body = msgpack.AppendInt(name(body, "run_id"), runID)
	body = msgpack.AppendString(name(body, "status"), "error")
	b.Body = name(body, "exception")
	object(b, f.Exception)
	b.Body = name(b.Body, "traceback")
	object(b, f.Traceback)
	body = msgpack.AppendString(name(b.Body, "exception_text"), f.ExceptionText)
	body = msgpack.AppendString(name(body, "traceback_text"), f.TracebackText)
	body = msgpack.AppendInt(name(body, "thread"), thread)
	b.Body = appendParts(body, p)
}

// object appends an exception or traceback, which travel in frames of their own.
func object(b *rpc.Batch, v any) {
	s, _ := v.(*wire.Serialized)
	b.Serialized(s)
}

// isMessage reports whether Action adds a message for a kind of actions.
func isMessage(kind state.ActionKind) bool {
	switch kind {
	case state.SendAddKeys, state.SendRequestRefresh, state.SendReleaseData, state.SendReschedule,
		state.SendStealResponse,
		state.SendLongRunning:
		return true
	}
	return false
}

// addKeys announces results. Sizes are sent to a scheduler that is to adopt them: only Millstream's is ever asked to.
func addKeys(b *rpc.Batch, a *state.Action, stimulus string) {
	if !a.Adopt {
		b.Body = appendKeysOf(head(b, "add-keys", stimulus, 1), a.Tasks)
		return
	}
	body := appendKeysOf(head(b, "add-keys", stimulus, 3), a.Tasks)
	body = msgpack.AppendArrayHeader(name(body, "nbytes"), len(a.Tasks))
	for _, t := range a.Tasks {
		body = msgpack.AppendInt(body, t.NBytes())
	}
	b.Body = msgpack.AppendBool(name(body, "adopt"), true)
}

// stealResponse replies with the stimulus of the request, by which the scheduler finds the request.
func stealResponse(b *rpc.Batch, a *state.Action) {
	body := msgpack.AppendMapHeader(b.Body, 4)
	body = msgpack.AppendString(name(body, "op"), "steal-response")
	body = append(name(body, "key"), a.Key...)
	body = name(body, "state")
	if a.HasState {
		body = msgpack.AppendString(body, a.State.String())
	} else {
		body = msgpack.AppendNil(body)
	}
	b.Body = msgpack.AppendString(name(body, "stimulus_id"), a.Stimulus)
}

// Status adds worker-status-change.
func (m *Messages) Status(status, stimulus string) {
	if m.Writer == nil {
		return
	}
	b := m.Writer.Begin()
	b.Body = msgpack.AppendString(name(head(b, "worker-status-change", stimulus, 1), "status"), status)
}

// KeepAlive adds a message without a meaning, which keeps the connection in use.
func (m *Messages) KeepAlive() {
	if m.Writer == nil {
		return
	}
	b := m.Writer.Begin()
	body := msgpack.AppendMapHeader(b.Body, 1)
	b.Body = msgpack.AppendString(name(body, "op"), "keep-alive")
}

// CloseStream adds the last message of a stream. A reason counts as a death of the worker.
func (m *Messages) CloseStream(reason string) {
	if m.Writer == nil {
		return
	}
	b := m.Writer.Begin()
	if reason == "" {
		b.Body = msgpack.AppendString(name(msgpack.AppendMapHeader(b.Body, 1), "op"), "close-stream")
		return
	}
	body := msgpack.AppendString(name(msgpack.AppendMapHeader(b.Body, 2), "op"), "close-stream")
	b.Body = msgpack.AppendString(name(body, "reason"), reason)
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
