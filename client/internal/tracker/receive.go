package tracker

import (
	"errors"
	"slices"
	"strings"
	"unsafe"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// ErrStreamClosed is returned by Receive when the scheduler closes the stream.
var ErrStreamClosed = errors.New("scheduler closed the stream")

// Receive applies a message of the scheduler: a list of maps.
func (t *Tracker) Receive(m *wire.Message) error {
	var later []func() // called without the lock, while m is valid
	defer func() {
		for _, f := range later {
			f()
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.forgetReceived()
	ops := message.OpsOf(m)
	for ops.Next() {
		f, err := t.apply(m, &ops)
		if err != nil {
			return err
		}
		if f != nil {
			later = append(later, f)
		}
	}
	return ops.Err()
}

// apply applies the current message of ops. The caller holds mu, and calls the returned function, if any, without it.
func (t *Tracker) apply(m *wire.Message, ops *message.Ops) (later func(), err error) {
	switch string(ops.Op()) {
	case "key-in-memory": // the most frequent message: one for each task
		err = t.applyInMemory(ops)
	case "task-erred":
		err = t.applyErred(m, ops)
	case "lost-data":
		var f message.LostData
		if err = f.Read(ops); err == nil {
			if s := t.keys.Get(f.Key); s != nil && s.status == Finished {
				s.status, s.where = Lost, -1
			}
		}
	case "task-retried":
		var f message.TaskRetried
		if err = f.Read(ops); err == nil {
			if s := t.keys.Get(f.Key); s != nil {
				s.status, s.err, s.where = Pending, nil, -1
				s.retried++
			}
		}
	case "cancelled-keys":
		err = t.applyCanceled(ops)
	case "restart":
		for s := range t.keys.All() {
			s.cancel("", "the cluster was restarted")
		}
	case "millstream-unrunnable":
		return t.applyUnrunnable(ops)
	case "event":
		var f message.Event
		if err = f.Read(ops); err != nil {
			return nil, err
		}
		event, err := f.Event.Decode(m, wire.DecodeOptions{})
		return func() { t.cfg.Event(f.Topic, event) }, err
	case "error", "stream-closed", "close":
		err = ErrStreamClosed
	}
	return nil, err
}

// forgetReceived drops the references of t.memory to a message. The caller holds mu.
func (t *Tracker) forgetReceived() {
	list := t.memory.Workers[:cap(t.memory.Workers)]
	clear(list)
	t.memory = message.KeyInMemory{Workers: list[:0]}
}

func (t *Tracker) applyInMemory(ops *message.Ops) error {
	f := &t.memory
	if err := f.Read(ops); err != nil {
		return err
	}
	s := t.keys.Get(f.Key)
	if s == nil {
		return nil
	}
	s.where = t.addresses.first(f.Workers)
	s.value = t.values.keep(f.Value)
	if s.status != Finished {
		s.end(Finished, nil)
	}
	return nil
}

// valueBytes is the size of the memory that values share.
const valueBytes = 4 << 10

// values is the memory of results that the scheduler sent. They are not modified after they have been added.
type values []byte

// keep copies a result.
func (m *values) keep(v []byte) string {
	if len(v) == 0 {
		return ""
	}
	if cap(*m)-len(*m) < len(v) {
		*m = make([]byte, 0, max(valueBytes, len(v)))
	}
	from := len(*m)
	*m = append(*m, v...)
	return unsafe.String(&(*m)[from], len(v))
}

// Values calls f with the encoded result of each key that has ended and whose result is known to the client. It returns
// the indices of the other keys. The mutex is not held while f runs.
func (t *Tracker) Values(keys []*State, which []int, f func(i int, raw []byte) error) (rest []int, err error) {
	var list []knownValue
	for part := range slices.Chunk(which, valuesAtOnce) {
		t.mu.Lock()
		list, rest = knownValues(keys, part, list[:0], rest)
		t.mu.Unlock()
		for _, k := range list {
			if err := f(k.i, unsafe.Slice(unsafe.StringData(k.value), len(k.value))); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// valuesAtOnce is the number of keys whose values are read with the mutex held.
const valuesAtOnce = 1024

// knownValue is the encoded result of the key at an index.
type knownValue struct {
	i     int
	value string
}

// knownValues appends the known results of keys to list, and the indices of the other keys to rest. The caller holds
// the tracker's mutex.
func knownValues(keys []*State, which []int, list []knownValue, rest []int) ([]knownValue, []int) {
	list = slices.Grow(list, len(which))
	for _, i := range which {
		if s := keys[i]; s.status == Finished && s.value != "" {
			list = append(list, knownValue{i, s.value})
		} else {
			rest = append(rest, i)
		}
	}
	return list, rest
}

func (t *Tracker) applyErred(m *wire.Message, ops *message.Ops) error {
	var f message.KeyErred
	if err := f.Read(ops); err != nil {
		return err
	}
	held := t.keys.Get(f.Key)
	if held == nil {
		return nil
	}
	exc, err := f.Exception.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return err
	}
	trace, err := f.Traceback.Decode(m, wire.DecodeOptions{})
	if err != nil {
		return err
	}
	if f.TracebackText != "" {
		trace = f.TracebackText
	}
	held.end(Failed, t.cfg.Failure(held.key, wire.Clone(exc), wire.Clone(trace)))
	return nil
}

func (t *Tracker) applyCanceled(ops *message.Ops) error {
	var f message.CancelledKeys
	if err := f.Read(ops); err != nil {
		return err
	}
	reason, text := strings.Clone(f.Reason), strings.Clone(f.Msg)
	for _, k := range f.Keys {
		if s := t.keys.Get(k); s != nil && !s.isStale(t.cfg.ID, reason, text) {
			s.cancel(reason, text)
		}
	}
	return nil
}
