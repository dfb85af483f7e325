package stream

import (
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// Messages encodes the messages of a worker. Without a Writer it drops them, because there is no scheduler. It is
// guarded by the worker's turn.
type Messages struct {
	// Writer is the stream of the session, nil without one.
	Writer *rpc.Writer

	// Buffers that are reused for each message.
	keys  []task.Key
	sizes []int64
	parts []message.Part
}

// Linger is how long a non-urgent message may wait for others. Dask workers send at most one batch every 2 ms.
const Linger = 500 * time.Microsecond

// Flush sends the added messages. If they are not urgent, they may wait for more.
func (m *Messages) Flush(urgent bool) {
	switch {
	case m.Writer == nil:
	case urgent:
		_ = m.Writer.FlushNow(0) // cannot fail without a limit
	default:
		_ = m.Writer.FlushLater()
	}
}

// Raw adds an encoded message, with the frames that its markers number from 1.
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

// Action adds the message of an action of the state, except for finished tasks: see Finished and Erred. It ignores
// actions without a message.
func (m *Messages) Action(a *state.Action, stimulus string) {
	if m.Writer == nil {
		return
	}
	switch a.Kind {
	case state.SendAddKeys:
		m.addKeys(a, stimulus)
	case state.SendRequestRefresh:
		f := message.RequestRefreshWhoHas{StimulusID: stimulus, Keys: m.keysOf(a.Tasks)}
		f.Append(m.begin())
	case state.SendReleaseData:
		f := message.ReleaseWorkerData{StimulusID: stimulus, Key: a.Key}
		f.Append(m.begin())
	case state.SendReschedule:
		f := message.Reschedule{StimulusID: stimulus, Key: a.Key}
		f.Append(m.begin())
	case state.SendStealResponse:
		// The stimulus is that of the request: the scheduler identifies the request by it.
		f := message.StealResponse{StimulusID: a.Stimulus, Key: a.Key}
		if a.HasState {
			f.State = a.State.String()
		}
		f.Append(m.begin())
	case state.SendLongRunning:
		f := message.LongRunning{StimulusID: stimulus, Key: a.Key, RunID: a.RunID, ComputeDuration: -1}
		if a.HasState {
			f.ComputeDuration = a.After.Seconds()
		}
		f.Append(m.begin())
	}
}

// begin starts a message and returns its buffer.
func (m *Messages) begin() *message.Buffer { return &m.Writer.Begin().Buffer }

// keysOf returns the keys of tasks. The slice is valid until the next call.
func (m *Messages) keysOf(tasks []*state.Task) []task.Key {
	m.keys = m.keys[:0]
	for _, t := range tasks {
		m.keys = append(m.keys, t.Key())
	}
	return m.keys
}

// addKeys announces results. Their sizes are sent if the scheduler shall adopt them, which only Millstream schedulers
// do.
func (m *Messages) addKeys(a *state.Action, stimulus string) {
	f := message.AddKeys{StimulusID: stimulus, Keys: m.keysOf(a.Tasks), Adopt: a.Adopt}
	if a.Adopt {
		m.sizes = m.sizes[:0]
		for _, t := range a.Tasks {
			m.sizes = append(m.sizes, t.NBytes())
		}
		f.NBytes = m.sizes
	}
	f.Append(m.begin())
}

// Finished adds the message that a task has a result. class is the pickled Python class of the result, nil for Go
// types; value is the encoded result if it is short and the scheduler passes it on, otherwise nil.
func (m *Messages) Finished(t *state.Task, runID int64, class, value []byte, p *record.Parts, stimulus string) {
	if m.Writer == nil {
		return
	}
	_, _, thread := t.Times()
	f := message.TaskFinished{StimulusID: stimulus, Key: t.Key(), RunID: runID, Status: "OK",
		NBytes: max(0, t.NBytes()), Type: class, TypeName: t.TypeName(), Metadata: message.EmptyMap, Thread: thread,
		StartStops: message.StartStops{Parts: m.partsOf(p)}, Value: value, Waited: float64(p.Waited) / 1e9}
	f.Append(m.begin())
}

// Erred adds the message that a task has failed.
func (m *Messages) Erred(t *state.Task, runID int64, p *record.Parts, stimulus string) {
	if m.Writer == nil {
		return
	}
	_, _, thread := t.Times()
	failure := t.Failure()
	f := message.TaskErred{StimulusID: stimulus, Key: t.Key(), RunID: runID, Status: "error",
		ExceptionText: failure.ExceptionText, TracebackText: failure.TracebackText, Thread: thread,
		StartStops: message.StartStops{Parts: m.partsOf(p)}}
	f.Exception.Value, _ = failure.Exception.(*wire.Serialized)
	f.Traceback.Value, _ = failure.Traceback.(*wire.Serialized)
	f.Append(m.begin())
}

// partsOf returns the parts of a run's time as Dask's startstops, from which the scheduler derives durations and its
// task stream. They are valid until the next call.
func (m *Messages) partsOf(p *record.Parts) []message.Part {
	m.parts = m.parts[:0]
	p.Each(func(action string, start, stop int64) {
		m.parts = append(m.parts, message.Part{Action: action, Start: record.Seconds(start),
			Stop: record.Seconds(stop)})
	})
	return m.parts
}

// Status adds worker-status-change.
func (m *Messages) Status(status, stimulus string) {
	if m.Writer != nil {
		f := message.WorkerStatusChange{Status: status, StimulusID: stimulus}
		f.Append(m.begin())
	}
}

// KeepAlive adds a message without effect, which keeps the connection in use.
func (m *Messages) KeepAlive() {
	if m.Writer != nil {
		new(message.KeepAlive).Append(m.begin())
	}
}

// CloseStream adds the last message of a stream. With a reason, the scheduler counts it as a crash of the worker.
func (m *Messages) CloseStream(reason string) {
	if m.Writer != nil {
		f := message.CloseStream{Reason: reason}
		f.Append(m.begin())
	}
}
