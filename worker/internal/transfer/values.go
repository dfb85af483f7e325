package transfer

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// ReadValues reads a map of keys to values: those of the wanted keys, or all if wanted is nil.
func ReadValues(m *wire.Message, r *msgpack.Reader, wanted []task.Key) ([]*task.Value, []state.Stored, error) {
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, nil, err
	}
	var set map[string]bool
	if wanted != nil {
		set = make(map[string]bool, len(wanted))
		for _, k := range wanted {
			set[string(k)] = true
		}
	}
	values, stored := make([]*task.Value, 0, n), make([]state.Stored, 0, n)
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, nil, err
		}
		key := task.Key(k)
		raw, err := r.ReadRaw()
		if err != nil {
			return nil, nil, err
		}
		if wanted != nil && !set[string(key)] {
			continue
		}
		v, err := ReadValue(m, raw)
		if err != nil {
			return nil, nil, fmt.Errorf("value of %v: %w", key, err)
		}
		if wanted != nil {
			delete(set, string(key)) // the first of two values for a key counts
		}
		values = append(values, v)
		stored = append(stored, state.Stored{Key: key, NBytes: v.Size(), TypeName: v.Type()})
	}
	return values, stored, nil
}

// ReadValue returns the value of one field of a message. Values in frames stay encoded.
func ReadValue(m *wire.Message, raw []byte) (*task.Value, error) {
	r := msgpack.NewReader(raw)
	if k := r.Kind(); k != msgpack.MapKind && k != msgpack.Array {
		x, err := msgpack.Decode(raw)
		return task.NewValue(x), err
	}
	x, err := message.DecodePart(m, raw, wire.DecodeOptions{Keep: true})
	if err != nil {
		return nil, err
	}
	if s, ok := x.(*wire.Serialized); ok {
		return task.NewEncoded(s.Retain()), nil
	}
	return task.NewValue(wire.Clone(x)), nil
}
