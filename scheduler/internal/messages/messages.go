// Package messages writes the actions of the state machine as Dask's messages to workers and clients.
package messages

import (
	"log/slog"
	"strconv"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// Writer writes the actions of the state as Dask's messages. The loop owns it.
type Writer struct {
	log   *slog.Logger
	state *state.State
	// wait is how long tasks may wait for a worker before they fail, failures how many workers may die on a task:
	// arguments of Dask's exceptions.
	wait     time.Duration
	failures int

	made    madeException
	now     time.Time // of the turn
	stamped time.Time // the turn that stamp is of
	stamp   []byte    // the time of the turn as text
	text    []byte    // of a stimulus, used again
}

// New returns a writer for a state.
func New(log *slog.Logger, st *state.State, wait time.Duration, failures int) *Writer {
	return &Writer{log: log, state: st, wait: wait, failures: failures}
}

// stimulus is the stimulus_id of what is said in this turn.
func (s *Writer) stimulus(name string) []byte {
	if !s.now.Equal(s.stamped) {
		s.stamped = s.now
		s.stamp = strconv.AppendFloat(append(s.stamp[:0], '-'), val.Seconds(s.now), 'f', 3, 64)
	}
	s.text = append(append(s.text[:0], name...), s.stamp...)
	return s.text
}

var (
	computeHead  = peers.Fixed(12, "op", "compute-task", "key")
	fieldRunID   = peers.Fixed(0, "run_id")
	fieldPrio    = peers.Fixed(0, "priority")
	fieldStim    = peers.Fixed(0, "stimulus_id")
	fieldWhoHas  = peers.Fixed(0, "who_has")
	fieldNBytes  = peers.Fixed(0, "nbytes")
	fieldRunSpec = peers.Fixed(0, "run_spec")
	fieldRes     = peers.Fixed(0, "resource_restrictions")
	fieldActor   = peers.Fixed(0, "actor")
	fieldNotes   = peers.Fixed(0, "annotations")
	fieldSpan    = peers.Fixed(0, "span_id")

	memoryHead     = peers.Fixed(2, "op", "key-in-memory", "key")
	memoryTyped    = peers.Fixed(3, "op", "key-in-memory", "key")
	memoryHeld     = memoryTyped
	fieldWorkers   = peers.Fixed(0, "workers")
	fieldType      = peers.Fixed(0, "type")
	erredHead      = peers.Fixed(4, "op", "task-erred", "key")
	erredOurs      = peers.Fixed(5, "op", "task-erred", "key")
	fieldExc       = peers.Fixed(0, "exception")
	fieldTrace     = peers.Fixed(0, "traceback")
	fieldTraceText = peers.Fixed(0, "traceback_text")
	freeHead       = peers.Fixed(3, "op", "free-keys", "keys")
	removeHead     = peers.Fixed(3, "op", "remove-replicas", "keys")
	acquireHead    = peers.Fixed(4, "op", "acquire-replicas", "who_has")
	refreshHead    = peers.Fixed(3, "op", "refresh-who-has", "who_has")
	stealHead      = peers.Fixed(3, "op", "steal-request", "key")
	peerHead       = peers.Fixed(3, "op", "remove-worker", "worker")
	statusHead     = peers.Fixed(3, "op", "worker-status-change", "status")
	lostHead       = peers.Fixed(2, "op", "lost-data", "key")
	retriedHead    = peers.Fixed(2, "op", "task-retried", "key")
	cancelledHead  = peers.Fixed(4, "op", "cancelled-keys", "keys")
	fieldReason    = peers.Fixed(0, "reason")
	fieldMsg       = peers.Fixed(0, "msg")
	restartMsg     = peers.Fixed(1, "op", "restart")
)

// computeTask appends Dask's compute-task message: the hottest of all.
func (s *Writer) computeTask(out *rpc.Batch, t *state.Task, runID int64) []byte {
	b := append(out.Body, computeHead...)
	b = append(b, t.Key()...)
	b = append(b, fieldRunID...)
	b = msgpack.AppendInt(b, runID)
	b = append(b, fieldPrio...)
	p := t.Priority()
	b = append(b, 0x93)
	b = appendNumber(b, p.User)
	b = appendNumber(b, p.Generation)
	b = msgpack.AppendInt(b, p.Order)
	b = append(b, fieldStim...)
	b = msgpack.AppendStringBytes(b, s.stimulus("compute-task"))
	n := t.NumDeps()
	b = append(b, fieldWhoHas...)
	b = msgpack.AppendMapHeader(b, n)
	for i := range n {
		b = appendHolders(b, t.Dep(i))
	}
	b = append(b, fieldNBytes...)
	b = msgpack.AppendMapHeader(b, n)
	for i := range n {
		d := t.Dep(i)
		b = append(b, d.Key()...)
		b = msgpack.AppendInt(b, d.NBytes())
	}
	b = append(b, fieldRunSpec...)
	b = runSpec(out, b, t)
	notes := t.Annotations()
	b = append(b, fieldRes...)
	if notes == nil || len(notes.Resources) == 0 {
		b = msgpack.AppendNil(b)
	} else {
		b = msgpack.AppendMapHeader(b, len(notes.Resources))
		for _, r := range notes.Resources {
			b = msgpack.AppendString(b, r.Name)
			b = appendNumber(b, r.Amount)
		}
	}
	b = append(b, fieldActor...)
	b = msgpack.AppendBool(b, t.Actor())
	b = append(b, fieldNotes...)
	if notes == nil || len(notes.Raw) == 0 {
		b = msgpack.AppendMapHeader(b, 0)
	} else {
		b = append(b, notes.Raw...)
	}
	b = append(b, fieldSpan...)
	return msgpack.AppendNil(b)
}

// appendNumber writes whole numbers as integers, as Python has them.
func appendNumber(b []byte, v float64) []byte {
	if i := int64(v); float64(i) == v {
		return msgpack.AppendInt(b, i)
	}
	return msgpack.AppendFloat(b, v)
}

// appendHolders appends a key and the list of those who hold it.
func appendHolders(b []byte, t *state.Task) []byte {
	b = append(b, t.Key()...)
	n := t.NumHolders()
	b = msgpack.AppendArrayHeader(b, n)
	for i := range n {
		b = msgpack.AppendString(b, t.Holder(i).Address())
	}
	return b
}

func (s *Writer) appendStimulus(b []byte, name string) []byte {
	b = append(b, fieldStim...)
	return msgpack.AppendStringBytes(b, s.stimulus(name))
}

// ToWorker says one action to a worker.
func (s *Writer) ToWorker(st *peers.Stream, a *state.Action, now time.Time) {
	s.now = now
	out := st.Begin()
	b := out.Body
	switch a.Kind {
	case state.ComputeTask:
		b = s.computeTask(out, a.Task, a.RunID)
	case state.FreeKeys:
		b = val.AppendKeys(append(b, freeHead...), a.Keys)
		b = s.appendStimulus(b, "free-keys")
	case state.RemoveReplicas:
		b = val.AppendKeys(append(b, removeHead...), a.Keys)
		b = s.appendStimulus(b, "remove-replicas")
	case state.AcquireReplicas:
		b = append(b, acquireHead...)
		b = appendWhoHas(b, a.Tasks)
		b = append(b, fieldNBytes...)
		b = msgpack.AppendMapHeader(b, len(a.Tasks))
		for _, t := range a.Tasks {
			b = append(b, t.Key()...)
			b = msgpack.AppendInt(b, t.NBytes())
		}
		b = s.appendStimulus(b, "acquire-replicas")
	case state.RefreshWhoHas:
		b = appendWhoHas(append(b, refreshHead...), a.Tasks)
		b = s.appendStimulus(b, "refresh-who-has")
	case state.StealRequest:
		// The number of the request comes back in the answer's stimulus_id.
		b = append(b, stealHead...)
		b = append(b, a.Key...)
		b = append(b, fieldStim...)
		b = msgpack.AppendString(b, StealPrefix+strconv.FormatUint(a.Number, 10))
	case state.ForgetPeer:
		b = msgpack.AppendString(append(b, peerHead...), a.Text)
		b = s.appendStimulus(b, "remove-worker")
	case state.StatusChange:
		b = msgpack.AppendString(append(b, statusHead...), a.Status.String())
		b = s.appendStimulus(b, "worker-status-change")
	case state.CloseWorker:
		b = peers.AppendClose(b, a.Text)
	}
	out.Body = b
}

const StealPrefix = "steal-"

func appendWhoHas(b []byte, tasks []*state.Task) []byte {
	b = msgpack.AppendMapHeader(b, len(tasks))
	for _, t := range tasks {
		b = appendHolders(b, t)
	}
	return b
}

// ToClient says one action to a client.
func (s *Writer) ToClient(st *peers.Stream, a *state.Action) {
	out := st.Begin()
	switch a.Kind {
	case state.KeyInMemory:
		if st.Ours {
			// One of ours asks a holder at once, and has no use for a Python class.
			out.Body = append(append(out.Body, memoryHeld...), a.Task.Key()...)
			out.Body = append(out.Body, fieldWorkers...)
			n := min(a.Task.NumHolders(), 1)
			out.Body = msgpack.AppendArrayHeader(out.Body, n)
			if n > 0 {
				out.Body = msgpack.AppendString(out.Body, a.Task.Holder(0).Address())
			}
			return
		}
		typ := a.Task.Type()
		if typ == nil || len(typ.Pickle) == 0 {
			out.Body = append(append(out.Body, memoryHead...), a.Task.Key()...)
			return
		}
		out.Body = append(append(out.Body, memoryTyped...), a.Task.Key()...)
		out.Body = append(out.Body, fieldType...)
		out.Body = msgpack.AppendBytes(out.Body, typ.Pickle)
	case state.KeyErred:
		exc, trace := s.Exception(a.Failure, st.Ours)
		head := erredHead
		if st.Ours {
			head = erredOurs
		}
		out.Body = append(append(out.Body, head...), a.Key...)
		out.Body = append(out.Body, fieldExc...)
		out.Serialized(exc)
		out.Body = append(out.Body, fieldTrace...)
		out.Serialized(trace)
		if st.Ours {
			out.Body = append(out.Body, fieldTraceText...)
			out.Body = msgpack.AppendString(out.Body, a.Failure.TracebackText)
		}
	case state.LostData:
		out.Body = append(append(out.Body, lostHead...), a.Task.Key()...)
	case state.TaskRetried:
		out.Body = append(append(out.Body, retriedHead...), a.Task.Key()...)
	case state.CancelledKeys:
		out.Body = val.AppendKeys(append(out.Body, cancelledHead...), a.Keys)
		out.Body = append(out.Body, fieldReason...)
		out.Body = appendTextOrNil(out.Body, a.Text)
		out.Body = append(out.Body, fieldMsg...)
		out.Body = appendTextOrNil(out.Body, a.Msg)
	case state.ClientRestart:
		out.Body = append(out.Body, restartMsg...)
	}
}

// appendTextOrNil appends a text, or nil for none, as Dask has it.
func appendTextOrNil(b []byte, text string) []byte {
	if text == "" {
		return msgpack.AppendNil(b)
	}
	return msgpack.AppendString(b, text)
}
