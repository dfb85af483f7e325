package message

import (
	"fmt"

	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Object is a field that is either in the body or in separate frames.
type Object struct {
	// Frame is the index in Message.Frames of the group's header; 0 for a field in the body. Read sets it.
	Frame int
	// Pickled distinguishes groups that are unpickled on arrival from serialized ones. Read sets it.
	Pickled bool
	// Raw is the encoded field, also if it is a marker. Append writes it if Value and Pickle are nil.
	Raw Raw
	// Value is written into frames by Append; Pickle is the header of a pickle that is.
	Value  *wire.Serialized
	Pickle []byte
}

// IsNil reports whether a field that was read is missing or nil.
func (f *Object) IsNil() bool { return len(f.Raw) == 0 || f.Raw[0] == 0xc0 }

// empty reports whether there is nothing to append.
func (f *Object) empty() bool { return f.Value == nil && f.Pickle == nil && f.Raw == nil }

// read reads a field that may be a marker.
func (f *Object) read(r *msgpack.Reader) error {
	raw, err := r.ReadRaw()
	if err != nil {
		return err
	}
	*f = Object{Raw: raw}
	m := msgpack.NewReader(raw)
	name, at, err := m.ReadMarker()
	if err != nil || name == "" {
		return err
	}
	if at <= 0 || at > framing.DefaultMaxFrames {
		return fmt.Errorf("a marker of frame %d", at)
	}
	f.Frame, f.Pickled = int(at), name == msgpack.Pickled
	return nil
}

// append appends the field.
func (f *Object) append(b *Buffer) {
	switch {
	case f.Value != nil:
		b.Serialized(f.Value)
	case f.Pickle != nil:
		b.Pickled(f.Pickle)
	default:
		b.Body = appendRaw(b.Body, f.Raw)
	}
}

// Decode returns the value of a field that was read from m, nil for nil.
func (f *Object) Decode(m *wire.Message, opt wire.DecodeOptions) (any, error) {
	if f.IsNil() {
		return nil, nil
	}
	return DecodePart(m, f.Raw, opt)
}
