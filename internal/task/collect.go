package task

import (
	"reflect"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// collect converts a tree that contains values of package wire (Arrow data, device arrays, dicts, sets, objects) to a
// collection of package wire, whose members are sent one by one in their own frames, because package pickle has no form
// for them. It reports false for a tree without such values.
func collect(tree any) (any, bool) {
	switch x := tree.(type) {
	case *wire.NDArray, *wire.DeviceArray, *wire.Object, *wire.Serialized, wire.Dict, wire.Set, wire.FrozenSet,
		wire.ByteArray:
		return x, true
	case *pickle.List:
		out, found := collectList(x.Items)
		return out, found
	case wire.Tuple:
		out, found := collectList(x)
		return wire.Tuple(out), found
	case *pickle.Dict:
		out := make(wire.Dict, 0, x.Len())
		found := false
		for _, p := range x.Items() {
			v, ok := collect(p.Value)
			found = found || ok
			out = append(out, wire.Pair{Key: p.Key, Value: v})
		}
		if found {
			return out, true
		}
	default:
		return tree, hasCodec(reflect.TypeOf(tree))
	}
	return tree, false
}

func collectList(items []any) ([]any, bool) {
	out := make([]any, len(items))
	found := false
	for i, x := range items {
		v, ok := collect(x)
		out[i], found = v, found || ok
	}
	return out, found
}

// encodeCollected encodes a collection of package wire that represents a Go value. As with other Go values the header
// has the name of the type, for a reader that expects any.
func encodeCollected(c any, t reflect.Type) (*wire.Serialized, error) {
	s, err := encodeWire(c)
	if err != nil {
		return nil, &EncodeError{Type: t, Reason: err.Error()}
	}
	h, err := msgpack.Decode(s.Header)
	d, ok := h.(wire.Dict)
	if err != nil || !ok {
		s.Release()
		return nil, &EncodeError{Type: t, Reason: "header of its members cannot be decoded"}
	}
	if !ambiguous(t) {
		d = append(d, wire.Pair{Key: "go-type", Value: fullName(t)})
	}
	if s.Header, err = msgpack.Append(nil, d); err != nil {
		s.Release()
		return nil, &EncodeError{Type: t, Reason: err.Error()}
	}
	return s, nil
}
