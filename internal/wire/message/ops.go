package message

import (
	"errors"
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Ops walks over the messages of a stream: a body that is a list of maps, each with "op", or one such map. It allocates
// nothing, and what it returns borrows from the body. One goroutine uses it.
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

// Body returns the body of a message that carries messages of a stream, or an error if the message has no body in host
// memory.
func Body(m *wire.Message) ([]byte, error) {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return nil, errNoBody
	}
	return m.Body(), nil
}

var errNoBody = errors.New("the message has no body in host memory")

// OpsOf starts at the body of m. Errors come out of Err, also that m has no body.
func OpsOf(m *wire.Message) Ops {
	body, err := Body(m)
	if err != nil {
		return Ops{err: err}
	}
	return ReadOps(body)
}

// ReadOps starts at a message's body. Errors come out of Err.
func ReadOps(body []byte) Ops {
	o := Ops{r: msgpack.NewReader(body), body: body, left: 1}
	if o.r.Kind() == msgpack.Array {
		o.left, o.err = o.r.ReadArrayLen()
	}
	return o
}

// Next goes to the next message, and reports whether there is one.
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
		return skipFields(&o.r, o.fields)
	}
	o.r = o.end
	return nil
}

// skipFields moves behind n names with their values.
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

// findOp looks for "op", which Python writes first.
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

// Err returns what ended the walk, nil at the end of the body.
func (o *Ops) Err() error { return o.err }

// Raw returns the current message, as msgpack.
func (o *Ops) Raw() ([]byte, error) {
	end := o.r
	if err := skipFields(&end, o.fields); err != nil {
		o.err = err
		return nil, err
	}
	o.end, o.walked = end, true
	return o.body[o.start:end.Offset():end.Offset()], nil
}

// Error is returned for a message that is not as its op wants it.
type Error struct {
	// Op is the message's op, and Field the field in question, "" if no field is to blame.
	Op, Field string
	// Cause says what is wrong with it.
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

// fail ends the walk at a field that is not what it should be.
func (o *Ops) fail(field []byte, err error) error {
	o.err = &Error{Op: string(o.op), Field: string(field), Cause: err}
	return o.err
}

// failAt ends the walk at a field whose name the caller knows.
func (o *Ops) failAt(field string, err error) error {
	o.err = &Error{Op: string(o.op), Field: field, Cause: err}
	return o.err
}

// inField names a field of a part in an error.
func inField(field []byte, err error) error { return inFieldAt(string(field), err) }

func inFieldAt(field string, err error) error { return fmt.Errorf("%s: %w", field, err) }

// errMissing is the cause of an Error about a field that is required.
var errMissing = errors.New("missing or empty")

// tooSmall is the cause of an Error about a number.
func tooSmall(v, least int64) error { return fmt.Errorf("%d, want at least %d", v, least) }
