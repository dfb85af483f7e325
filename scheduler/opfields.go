package scheduler

import (
	"fmt"
	"math"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// opFields are the fields of the short messages of streams. All borrow from the message.
type opFields struct {
	key      task.Key
	keys     []task.Key
	sizes    []int64
	adopt    bool
	force    bool
	runID    int64
	duration time.Duration
	state    string
	status   string
	stimulus string
	reason   string
	msg      string
	topic    string
	client   string
}

// fields reads the current message without allocating: the list of keys is the loop's,
// until the next call.
func (d *dispatcher) fields(ops *wire.Ops) (f opFields, err error) {
	raw, err := ops.Raw()
	if err != nil {
		return f, err
	}
	f.duration = -1
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	if err != nil {
		return f, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return f, err
		}
		if err := d.opField(&f, name, &r); err != nil {
			return f, fmt.Errorf("field %q: %w", name, err)
		}
	}
	if f.sizes != nil && len(f.sizes) != len(f.keys) {
		return f, fmt.Errorf("%d sizes for %d keys", len(f.sizes), len(f.keys))
	}
	return f, nil
}

// keyFields is fields for a message that must have a key.
func (d *dispatcher) keyFields(ops *wire.Ops) (opFields, error) {
	f, err := d.fields(ops)
	if err == nil && f.key == "" {
		err = errNoKey
	}
	return f, err
}

func (d *dispatcher) opField(f *opFields, name []byte, r *msgpack.Reader) (err error) {
	switch string(name) {
	case "key":
		var k []byte
		k, err = r.ReadKey(nil)
		f.key = task.Key(val.Borrow(k))
	case "keys":
		f.keys, err = d.readKeys(r)
	case "nbytes":
		f.sizes, err = readSizes(r)
	case "adopt":
		f.adopt, err = r.ReadBool()
	case "force":
		if !r.TryNil() {
			f.force, err = r.ReadBool()
		}
	case "run_id":
		if !r.TryNil() {
			f.runID, err = r.ReadInt()
		}
	case "compute_duration":
		if !r.TryNil() {
			var d float64
			if d, err = r.ReadFloat(); d >= 0 && d < math.MaxInt64/float64(time.Second) {
				f.duration = time.Duration(d * float64(time.Second))
			}
		}
	case "state":
		f.state, err = readText(r)
	case "status":
		f.status, err = readText(r)
	case "stimulus_id":
		f.stimulus, err = readText(r)
	case "reason":
		f.reason, err = readText(r)
	case "msg":
		if r.Kind() == msgpack.Str || r.Kind() == msgpack.Nil {
			f.msg, err = readText(r)
		} else {
			err = r.Skip()
		}
	case "topic":
		f.topic, err = readText(r)
	case "client":
		f.client, err = readText(r)
	default:
		err = r.Skip()
	}
	return err
}

func readText(r *msgpack.Reader) (string, error) {
	if r.TryNil() {
		return "", nil
	}
	b, err := r.ReadStringBytes()
	return val.Borrow(b), err
}

// readKeys reads a list or set of keys into the loop's own list.
func (d *dispatcher) readKeys(r *msgpack.Reader) ([]task.Key, error) {
	raw, err := r.ReadRaw()
	if err != nil {
		return nil, err
	}
	keys := d.keys[:0]
	err = wire.EachKey(raw, func(k []byte) error {
		if val.Within(raw, k) {
			keys = append(keys, task.Key(val.Borrow(k)))
		} else {
			keys = append(keys, task.Key(k)) // it was rewritten into memory that is used again
		}
		return nil
	})
	d.keys = keys
	return keys, err
}

// readSizes reads a list of sizes, of one number each.
func readSizes(r *msgpack.Reader) ([]int64, error) {
	if r.TryNil() {
		return nil, nil
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return nil, err
	}
	out := make([]int64, 0, n)
	for range n {
		v, err := r.ReadInt()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
