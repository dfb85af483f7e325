package message

import (
	"errors"
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Ops iterates over the messages of a stream: a body that is a list of maps, each with "op", or one such map. It does
// not allocate, and its results borrow from the body. It must be used by one goroutine.
//
//	ops := message.ReadOps(m.Body())
//	for ops.Next() {
//		switch string(ops.Op()) {
//		case "task-finished":
//			err = finished.Read(&ops)
//		default:
//			raw, err = ops.Raw()
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

// Body returns the body of a message of a stream, or an error if the message has no body in host memory.
func Body(m *wire.Message) ([]byte, error) {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return nil, errNoBody
	}
	return m.Body(), nil
}

var errNoBody = errors.New("message without a body in host memory")

// OpsOf starts at the body of m. Err reports errors, also a missing body.
func OpsOf(m *wire.Message) Ops {
	body, err := Body(m)
	if err != nil {
		return Ops{err: err}
	}
	return ReadOps(body)
}

// ReadOps starts at a message's body. Err reports errors.
func ReadOps(body []byte) Ops {
	o := Ops{r: msgpack.NewReader(body), body: body, left: 1}
	if o.r.Kind() == msgpack.Array {
		o.left, o.err = o.r.ReadArrayLen()
	}
	return o
}

// Next advances to the next message, and reports whether there is one.
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

// finish moves past the current message.
func (o *Ops) finish() error {
	if !o.walked {
		return skipFields(&o.r, o.fields)
	}
	o.r = o.end
	return nil
}

// skipFields moves past n names with their values.
func skipFields(r *msgpack.Reader, n int) error {
	for range n {
		if err := r.Skip(); err != nil {
			return err
		}
		if err := r.Skip(); err != nil {
			return err
		}
	}
	return nil
}

// findOp searches for "op", which Python writes first.
func findOp(r msgpack.Reader, fields int) ([]byte, error) {
	for range fields {
		if r.Kind() != msgpack.Str {
			if err := skipFields(&r, 1); err != nil {
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

// Op returns the current message's "op", nil if it has none.
func (o *Ops) Op() []byte { return o.op }

// Err returns the error that ended the iteration, nil at the end of the body.
func (o *Ops) Err() error { return o.err }

// Raw returns the current message, encoded.
func (o *Ops) Raw() ([]byte, error) {
	end := o.r
	if err := skipFields(&end, o.fields); err != nil {
		o.err = err
		return nil, err
	}
	o.end, o.walked = end, true
	return o.body[o.start:end.Offset():end.Offset()], nil
}

// Error is returned for a message that is not valid for its op.
type Error struct {
	// Op is the message's op, and Field the invalid field, "" if there is none.
	Op, Field string
	// Cause describes the problem.
	Cause error
}

// Error returns op, field and cause.
func (e *Error) Error() string {
	text := e.Cause.Error()
	var bad *msgpack.Error
	if errors.As(e.Cause, &bad) {
		text = bad.Text // its offset says little: messages are not kept
	}
	if e.Field == "" {
		return e.Op + ": " + text
	}
	return e.Op + ": field " + e.Field + ": " + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// fail ends the iteration at an invalid field.
func (o *Ops) fail(field []byte, err error) error {
	o.err = &Error{Op: string(o.op), Field: string(field), Cause: err}
	return o.err
}

// failAt ends the iteration at an invalid field with a known name.
func (o *Ops) failAt(field string, err error) error {
	o.err = &Error{Op: string(o.op), Field: field, Cause: err}
	return o.err
}

// inField adds a field of a part to an error.
func inField(field []byte, err error) error { return inFieldAt(string(field), err) }

func inFieldAt(field string, err error) error { return fmt.Errorf("%s: %w", field, err) }

// errMissing is the cause of an Error about a field that is required.
var errMissing = errors.New("missing or empty")

// tooSmall is the cause of an Error about a number.
func tooSmall(v, least int64) error { return fmt.Errorf("%d, want at least %d", v, least) }
