package tracker

import (
	"errors"
	"fmt"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// ErrStreamClosed is returned by Receive when the scheduler closes the stream.
var ErrStreamClosed = errors.New("the scheduler closed the stream")

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
	ops := message.OpsOf(m)
	for ops.Next() {
		raw, err := ops.Raw()
		if err != nil {
			return err
		}
		switch string(ops.Op()) {
		case "key-in-memory":
			err = t.inMemory(raw)
		case "task-erred":
			err = t.taskErred(m, raw)
		case "lost-data":
			err = t.eachKey(raw, "key", func(s *State) {
				if s.status == Finished {
					s.status, s.where = Lost, -1
				}
			})
		case "task-retried":
			err = t.eachKey(raw, "key", func(s *State) {
				s.status, s.err, s.where = Pending, nil, -1
				s.retried++
			})
		case "cancelled-keys":
			err = t.keysCanceled(m, raw)
		case "restart":
			for _, s := range t.keys {
				s.cancel("", "the cluster was restarted")
			}
		case "millstream-unrunnable":
			var f func()
			if f, err = t.unrunnable(m, raw); f != nil {
				later = append(later, f)
			}
		case "event":
			var d wire.Dict
			if d, err = decode(m, raw); err == nil {
				later = append(later, func() { t.cfg.Event(d) })
			}
		case "error", "stream-closed", "close":
			return ErrStreamClosed
		}
		if err != nil {
			return err
		}
	}
	return ops.Err()
}

// inMemory reads key-in-memory, of which there is one for each task.
func (t *Tracker) inMemory(raw []byte) error {
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	var s *State
	where := int32(-1)
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		switch string(name) {
		case "key":
			var k []byte
			if k, err = r.ReadKey(nil); err == nil {
				s = t.keys[task.Key(k)]
			}
		case "workers":
			where, err = t.addresses.readFirst(&r)
		default:
			err = r.Skip()
		}
		if err != nil {
			return err
		}
	}
	if s == nil {
		return nil
	}
	s.where = where
	if s.status != Finished {
		s.end(Finished, nil)
	}
	return nil
}

// eachKey calls f for a key of a message, or for each of a list of keys.
func (t *Tracker) eachKey(raw []byte, field string, f func(*State)) error {
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		if string(name) != field {
			if err := r.Skip(); err != nil {
				return err
			}
			continue
		}
		if field == "keys" {
			list, err := r.ReadRaw()
			if err != nil {
				return err
			}
			return message.EachKey(list, func(k []byte) error {
				if s := t.keys[task.Key(k)]; s != nil {
					f(s)
				}
				return nil
			})
		}
		k, err := r.ReadKey(nil)
		if err != nil {
			return err
		}
		if s := t.keys[task.Key(k)]; s != nil {
			f(s)
		}
	}
	return nil
}

// decode decodes one map of a message with the frames that it refers to.
func decode(m *wire.Message, raw []byte) (wire.Dict, error) {
	v, err := wire.DecodePart(m, raw, wire.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	d, ok := v.(wire.Dict)
	if !ok {
		return nil, fmt.Errorf("client: message is a %T, want a map", v)
	}
	return d, nil
}

func (t *Tracker) taskErred(m *wire.Message, raw []byte) error {
	var held *State
	if err := t.eachKey(raw, "key", func(s *State) { held = s }); err != nil || held == nil {
		return err
	}
	d, err := decode(m, raw)
	if err != nil {
		return err
	}
	exc, _ := d.Get("exception")
	trace, _ := d.Get("traceback")
	if text := d.GetString("traceback_text"); text != "" {
		trace = text
	}
	held.end(Failed, t.cfg.Failure(held.key, wire.Clone(exc), wire.Clone(trace)))
	return nil
}

func (t *Tracker) keysCanceled(m *wire.Message, raw []byte) error {
	d, err := decode(m, raw)
	if err != nil {
		return err
	}
	reason, text := d.GetString("reason"), d.GetString("msg")
	return t.eachKey(raw, "keys", func(s *State) {
		if !s.isStale(t.cfg.ID, reason, text) {
			s.cancel(reason, text)
		}
	})
}
