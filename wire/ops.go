package wire

import (
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
)

// Ops walks over the messages of a stream: a body that is a list of maps, each with "op",
// or one such map. It allocates nothing, and what it returns borrows from the body. One
// goroutine uses it.
//
//	ops := wire.ReadOps(m.Body())
//	for ops.Next() {
//		switch string(ops.Op()) {
//		case "task-finished":
//			err = ops.TaskFinished(&t)
//		default:
//			v, err = wire.Decode(...) // or walk over ops.Raw()
//		}
//	}
//	err = ops.Err()
type Ops struct {
	r      msgpack.Reader // at the current message's first field
	end    msgpack.Reader // behind it, once it is known
	body   []byte
	left   int // messages to come
	fields int // of the current one
	start  int // its offset in the body
	op     []byte
	walked bool // end is known
	begun  bool
	err    error
}

// ReadOps starts at a message's body. Errors come out of Err.
func ReadOps(body []byte) Ops {
	o := Ops{r: msgpack.NewReader(body), body: body, left: 1}
	if o.r.Kind() == msgpack.Array {
		o.left, o.err = o.r.ReadArrayLen()
	}
	return o
}

// Next goes to the next message, and tells whether there is one.
func (o *Ops) Next() bool {
	if o.err != nil {
		return false
	}
	if o.begun {
		if o.err = o.finish(); o.err != nil {
			return false
		}
	}
	if o.left == 0 {
		o.err = o.r.End()
		return false
	}
	o.begun, o.walked = true, false
	o.left--
	o.start = o.r.Offset()
	if o.fields, o.err = o.r.ReadMapLen(); o.err != nil {
		return false
	}
	o.op, o.err = findOp(o.r, o.fields)
	return o.err == nil
}

// finish moves behind the current message.
func (o *Ops) finish() error {
	if !o.walked {
		for range o.fields {
			if err := skip2(&o.r); err != nil {
				return err
			}
		}
		return nil
	}
	o.r = o.end
	return nil
}

// findOp looks for "op", which Python writes first.
func findOp(r msgpack.Reader, fields int) ([]byte, error) {
	for range fields {
		if r.Kind() != msgpack.Str {
			if err := skip2(&r); err != nil {
				return nil, err
			}
			continue
		}
		k, err := r.ReadName()
		if err != nil {
			return nil, err
		}
		if string(k) == "op" {
			return r.ReadStringBytes()
		}
		if err := r.Skip(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Op is the current message's "op", nil if it has none.
func (o *Ops) Op() []byte { return o.op }

// Err is what ended the walk, nil at the end of the body.
func (o *Ops) Err() error { return o.err }

// Raw is the current message, as msgpack.
func (o *Ops) Raw() ([]byte, error) {
	end := o.r
	for range o.fields {
		if err := skip2(&end); err != nil {
			o.err = err
			return nil, err
		}
	}
	o.end, o.walked = end, true
	return o.body[o.start:end.Offset():end.Offset()], nil
}

// fail ends the walk at a field that is not what it should be.
func (o *Ops) fail(key []byte, err error) error {
	o.err = fmt.Errorf("wire: %s: field %q: %w", o.op, key, err)
	return o.err
}

// Ref is a field that is either in the body or in frames of its own.
type Ref struct {
	// Frame is the index in Message.Frames of the group's header; 0 for a field in the
	// body.
	Frame int
	// Pickled tells the two kinds of groups apart: ToPickle, and Serialize if it is false.
	Pickled bool
	// Raw is the field as msgpack, also if it is a marker.
	Raw []byte
}

// IsNil reports whether the field is missing or nil.
func (f Ref) IsNil() bool { return len(f.Raw) == 0 || f.Raw[0] == 0xc0 }

// readRef reads a field that may be a marker.
func readRef(r *msgpack.Reader) (Ref, error) {
	raw, err := r.ReadRaw()
	if err != nil {
		return Ref{}, err
	}
	f := Ref{Raw: raw}
	m := msgpack.NewReader(raw)
	if m.Kind() != msgpack.MapKind {
		return f, nil
	}
	if n, err := m.ReadMapLen(); err != nil || n != 1 || m.Kind() != msgpack.Str {
		return f, err
	}
	k, err := m.ReadStringBytes()
	if err != nil {
		return f, err
	}
	pickled := string(k) == "__Pickled__"
	if !pickled && string(k) != "__Serialized__" || m.Kind() != msgpack.Int {
		return f, nil
	}
	at, err := m.ReadInt()
	if err != nil {
		return f, err
	}
	if at <= 0 || at > DefaultMaxFrames {
		return f, fmt.Errorf("a marker of frame %d", at)
	}
	f.Frame, f.Pickled = int(at), pickled
	return f, nil
}

// DecodeRef decodes a field of a message that Ops walked over.
func DecodeRef(m *Message, f Ref, opt DecodeOptions) (any, error) {
	if f.IsNil() {
		return nil, nil
	}
	d, err := newDecoder(m.Frames, opt)
	if err != nil {
		return nil, err
	}
	body := msgpack.Decoder{Share: true, Hook: d.hook}
	return body.Decode(f.Raw)
}
