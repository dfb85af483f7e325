package rpc

import (
	"fmt"
	"iter"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Limits of one message map, checked before it is decoded.
const (
	// MaxOp is the maximum length of the name of an op in bytes.
	MaxOp = 256
	// MaxArgs is the maximum number of arguments of a request.
	MaxArgs = 4096
)

// Body is one message map: a request, or one message of a stream. It is a view of its message and valid as long as
// that.
type Body struct {
	// Op is the requested operation.
	Op string

	raw  []byte        // the whole map, encoded
	n    int           // its entries
	at   int           // where the first of them begins
	msg  *wire.Message // the message with its frames
	opts wire.DecodeOptions
	all  msgpack.Map // decoded on first use

	reply, close, serializers []byte // encoded; nil if absent
}

// ProtocolError is returned for a message that is not valid in Dask's protocol.
type ProtocolError struct {
	// Reason describes the problem.
	Reason string
}

func (e *ProtocolError) Error() string { return "rpc: bad message: " + e.Reason }

// Raw returns the whole map, encoded.
func (b *Body) Raw() []byte { return b.raw }

// Message returns the message of the map. It belongs to the loop that reads: retain it to keep it beyond the handler.
func (b *Body) Message() *wire.Message { return b.msg }

// parseBody finds the op of the encoded map raw. known returns existing strings for names, so that the messages of a
// stream cost no allocation; it may be nil.
func parseBody(raw []byte, msg *wire.Message, known func([]byte) (string, bool)) (Body, error) {
	b := Body{raw: raw, msg: msg}
	r := msgpack.NewReader(raw)
	if k := r.Kind(); k != msgpack.MapKind {
		return b, &ProtocolError{fmt.Sprintf("expected a map, got %v", k)}
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return b, err
	}
	if n > MaxArgs {
		return b, &ProtocolError{fmt.Sprintf("%d arguments, more than %d (rpc.MaxArgs)", n, MaxArgs)}
	}
	b.n, b.at = n, r.Offset()
	found := false
	for range n {
		if r.Kind() != msgpack.Str {
			return b, &ProtocolError{fmt.Sprintf("keywords must be strings, got %v", r.Kind())}
		}
		key, err := r.ReadStringBytes()
		if err != nil {
			return b, err
		}
		if string(key) != "op" {
			value, err := r.ReadRaw()
			if err != nil {
				return b, err
			}
			switch string(key) {
			case "reply":
				b.reply = value
			case "close":
				b.close = value
			case "serializers":
				b.serializers = value
			}
			continue
		}
		if r.Kind() != msgpack.Str {
			return b, &ProtocolError{fmt.Sprintf("'op' must be a string, got %v", r.Kind())}
		}
		op, err := r.ReadStringBytes()
		if err != nil {
			return b, err
		}
		if len(op) > MaxOp {
			return b, &ProtocolError{fmt.Sprintf("op name of %d bytes, more than %d (rpc.MaxOp): %.40q…",
				len(op), MaxOp, op)}
		}
		found = true
		if known != nil {
			if name, ok := known(op); ok {
				b.Op = name
				continue
			}
		}
		b.Op = string(op)
	}
	if !found {
		return b, &ProtocolError{"missing 'op' key"}
	}
	return b, nil
}

// Fields iterates over the names and the encoded values of the map, in order.
func (b *Body) Fields() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		r := msgpack.NewReader(b.raw[b.at:])
		for range b.n {
			key, err := r.ReadString()
			if err != nil {
				return // validated by parseBody
			}
			value, err := r.ReadRaw()
			if err != nil || !yield(key, value) {
				return
			}
		}
	}
}

// Field returns the encoded value of one name; of two with the same name the last counts, as in Python.
func (b *Body) Field(name string) (raw []byte, ok bool) {
	r := msgpack.NewReader(b.raw[b.at:])
	for range b.n {
		key, err := r.ReadStringBytes()
		if err != nil {
			break
		}
		value, err := r.ReadRaw()
		if err != nil {
			break
		}
		if string(key) == name {
			raw, ok = value, true
		}
	}
	return raw, ok
}

// truth decodes a bool with Python's truth rules.
func truth(raw []byte, otherwise bool) bool {
	if raw == nil {
		return otherwise
	}
	v, err := msgpack.Decode(raw)
	if err != nil {
		return otherwise
	}
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case uint64, float64:
		return v != 0.0
	case string:
		return v != ""
	case []byte:
		return len(v) > 0
	case []any:
		return len(v) > 0
	case msgpack.Map:
		return len(v) > 0
	}
	return true
}
