// Package messages encodes the actions of the state machine as Dask messages to workers and clients.
package messages

import (
	"log/slog"
	"strconv"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// Writer encodes the actions of the state as Dask messages. The loop owns it.
type Writer struct {
	log   *slog.Logger
	state *state.State
	// wait is how long tasks may wait for a worker before they fail, failures the number of lost workers before a task
	// fails: arguments of Dask's exceptions.
	wait     time.Duration
	failures int

	made    madeException
	now     time.Time // of the turn
	stamped time.Time // the turn of stamp
	stamp   []byte    // the time of the turn as text
	text    []byte    // of a stimulus; reused

	// Memory that is reused by the next message.
	whoHas, sizes []byte
	values        []byte
	holder        [1]string
}

// New returns a Writer for a state.
func New(log *slog.Logger, st *state.State, wait time.Duration, failures int) *Writer {
	return &Writer{log: log, state: st, wait: wait, failures: failures}
}

// stimulus returns the stimulus_id of messages of this turn. It is valid until the next call.
func (s *Writer) stimulus(name string) string {
	if !s.now.Equal(s.stamped) {
		s.stamped = s.now
		s.stamp = strconv.AppendFloat(append(s.stamp[:0], '-'), val.Seconds(s.now), 'f', 3, 64)
	}
	s.text = append(append(s.text[:0], name...), s.stamp...)
	return msgpack.Borrow(s.text)
}

// fixed returns a constant piece of a message as msgpack: the head of a map, unless it has no fields, and strings.
func fixed(fields int, strs ...string) string {
	var b []byte
	if fields > 0 {
		b = msgpack.AppendMapHeader(nil, fields)
	}
	for _, s := range strs {
		b = msgpack.AppendString(b, s)
	}
	return string(b)
}

var (
	computeHead  = fixed(12, "op", "compute-task", "key")
	fieldRunID   = fixed(0, "run_id")
	fieldPrio    = fixed(0, "priority")
	fieldStim    = fixed(0, "stimulus_id")
	fieldWhoHas  = fixed(0, "who_has")
	fieldNBytes  = fixed(0, "nbytes")
	fieldRunSpec = fixed(0, "run_spec")
	fieldRes     = fixed(0, "resource_restrictions")
	fieldActor   = fixed(0, "actor")
	fieldNotes   = fixed(0, "annotations")
	fieldSpan    = fixed(0, "span_id")
)

// computeTask appends Dask's compute-task message, the most frequent one. It is encoded by hand: message.ComputeTask
// has its maps as encoded values, which would have to be encoded elsewhere first and copied, which takes a tenth more
// time per message (BenchmarkComputeTask).
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
	b = msgpack.AppendString(b, s.stimulus("compute-task"))
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

// appendNumber appends whole numbers as integers, as in Python.
func appendNumber(b []byte, v float64) []byte {
	if i := int64(v); float64(i) == v {
		return msgpack.AppendInt(b, i)
	}
	return msgpack.AppendFloat(b, v)
}

// appendHolders appends a key and the list of its holders.
func appendHolders(b []byte, t *state.Task) []byte {
	b = append(b, t.Key()...)
	n := t.NumHolders()
	b = msgpack.AppendArrayHeader(b, n)
	for i := range n {
		b = msgpack.AppendString(b, t.Holder(i).Address())
	}
	return b
}

// ToWorker sends one action to a worker.
func (s *Writer) ToWorker(st *peers.Stream, a *state.Action, now time.Time) {
	s.now = now
	out := st.Begin()
	b := &out.Buffer
	switch a.Kind {
	case state.ComputeTask:
		out.Body = s.computeTask(out, a.Task, a.RunID)
	case state.FreeKeys:
		f := message.FreeKeys{Keys: a.Keys, StimulusID: s.stimulus("free-keys")}
		f.Append(b)
	case state.RemoveReplicas:
		f := message.RemoveReplicas{Keys: a.Keys, StimulusID: s.stimulus("remove-replicas")}
		f.Append(b)
	case state.AcquireReplicas:
		s.whoHas, s.sizes = appendWhoHas(s.whoHas[:0], a.Tasks), appendSizes(s.sizes[:0], a.Tasks)
		f := message.AcquireReplicas{WhoHas: s.whoHas, NBytes: s.sizes, StimulusID: s.stimulus("acquire-replicas")}
		f.Append(b)
	case state.RefreshWhoHas:
		s.whoHas = appendWhoHas(s.whoHas[:0], a.Tasks)
		f := message.RefreshWhoHas{WhoHas: s.whoHas, StimulusID: s.stimulus("refresh-who-has")}
		f.Append(b)
	case state.StealRequest:
		// The response has the number of the request in its stimulus_id.
		f := message.StealRequest{Key: a.Key, StimulusID: StealPrefix + strconv.FormatUint(a.Number, 10)}
		f.Append(b)
	case state.ForgetPeer:
		f := message.RemoveWorker{Worker: a.Text, StimulusID: s.stimulus("remove-worker")}
		f.Append(b)
	case state.StatusChange:
		f := message.WorkerStatusChange{Status: a.Status.String(), StimulusID: s.stimulus("worker-status-change")}
		f.Append(b)
	case state.CloseWorker:
		f := message.Close{Reason: a.Text}
		f.Append(b)
	case state.StoreValues:
		n := 0 // the same event may have released some
		for _, t := range a.Tasks {
			if t.HasValue() {
				n++
			}
		}
		s.values = msgpack.AppendMapHeader(s.values[:0], n)
		for _, t := range a.Tasks {
			if t.HasValue() {
				s.values = t.AppendValue(append(s.values, t.Key()...))
			}
		}
		f := message.StoreValues{Data: s.values, StimulusID: s.stimulus("values")}
		f.Append(b)
	}
}

// StealPrefix starts the stimulus_id of a steal-request, before its number.
const StealPrefix = "steal-"

func appendWhoHas(b []byte, tasks []*state.Task) []byte {
	b = msgpack.AppendMapHeader(b, len(tasks))
	for _, t := range tasks {
		b = appendHolders(b, t)
	}
	return b
}

func appendSizes(b []byte, tasks []*state.Task) []byte {
	b = msgpack.AppendMapHeader(b, len(tasks))
	for _, t := range tasks {
		b = append(b, t.Key()...)
		b = msgpack.AppendInt(b, t.NBytes())
	}
	return b
}

// ToClient sends one action to a client.
func (s *Writer) ToClient(st *peers.Stream, a *state.Action) {
	b := &st.Begin().Buffer
	switch a.Kind {
	case state.KeyInMemory:
		f := message.KeyInMemory{Key: a.Task.Key()}
		if st.Ours {
			// A Millstream client fetches from a holder directly and does not use Python classes.
			f.Workers = s.holder[:0]
			if a.Task.NumHolders() > 0 {
				f.Workers = append(f.Workers, a.Task.Holder(0).Address())
			}
			if a.Text != "" {
				s.values = append(s.values[:0], a.Text...)
				f.Value = s.values
			}
		} else if typ := a.Task.Type(); typ != nil && len(typ.Pickle) > 0 {
			f.Type = typ.Pickle
		}
		f.Append(b)
	case state.KeyErred:
		f := message.KeyErred{Key: a.Key}
		f.Exception.Value, f.Traceback.Value = s.Exception(a.Failure, st.Ours)
		if st.Ours {
			f.TracebackText = a.Failure.TracebackText
		}
		f.Append(b)
	case state.LostData:
		f := message.LostData{Key: a.Task.Key()}
		f.Append(b)
	case state.TaskRetried:
		f := message.TaskRetried{Key: a.Task.Key()}
		f.Append(b)
	case state.CancelledKeys:
		f := message.CancelledKeys{Keys: a.Keys, Reason: a.Text, Msg: a.Msg}
		f.Append(b)
	case state.ClientRestart:
		new(message.Restart).Append(b)
	}
}
