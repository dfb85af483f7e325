// Package stream is the form of a worker's stream with its scheduler, Millstream's or Dask's: it reads orders into
// events of the worker's state, and writes the messages that the state asks for.
package stream

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/pyspec"
)

// Reader turns the scheduler's messages into events. It belongs to the holder of the worker's turn, and uses its memory
// again for each message: events borrow from it and from the message. The zero value is ready.
type Reader struct {
	compute   wire.ComputeTask
	event     state.ComputeTask
	deps      []state.Dep
	holders   []string // what Dep.WhoHas points into
	resources []state.Resource
	keys      []task.Key
	addresses map[string]string // each address of a peer once
	order     Order
}

// Order is any message but compute-task; which fields it has depends on its op. It borrows from the message.
type Order struct {
	Status string
	Worker string
	Reason string
	Raw    []byte // the whole message

	key            task.Key
	keys           []byte
	whoHas, nbytes []byte
	stimulus       string
}

// Order reads the message that ops is at, which is not a compute-task. What it returns is valid until the next call.
func (in *Reader) Order(ops *wire.Ops) (*Order, error) {
	raw, err := ops.Raw()
	if err != nil {
		return nil, err
	}
	if err := in.order.read(raw); err != nil {
		return nil, fmt.Errorf("worker: %s: %w", ops.Op(), err)
	}
	return &in.order, nil
}

// Event returns the event of an order that is about tasks or data, nil for others. It borrows from the reader until
// Forget or the next call.
func (in *Reader) Event(op string, o *Order) (state.Event, error) {
	switch op {
	case "free-keys":
		keys, err := in.Keys(o.keys)
		return &state.FreeKeys{Stimulus: o.stimulus, Keys: keys}, err
	case "remove-replicas":
		keys, err := in.Keys(o.keys)
		return &state.RemoveReplicas{Stimulus: o.stimulus, Keys: keys}, err
	case "acquire-replicas":
		deps, err := in.Deps(o.whoHas, o.nbytes)
		return &state.AcquireReplicas{Stimulus: o.stimulus, Deps: deps}, err
	case "refresh-who-has":
		deps, err := in.Deps(o.whoHas, nil)
		return &state.RefreshWhoHas{Stimulus: o.stimulus, Deps: deps}, err
	case "steal-request":
		return &state.StealRequest{Stimulus: o.stimulus, Key: o.key}, nil
	case "cancel-compute":
		return &state.CancelCompute{Stimulus: o.stimulus, Key: o.key}, nil
	case "remove-worker":
		return &state.RemovePeer{Stimulus: o.stimulus, Peer: o.Worker}, nil
	}
	return nil, nil
}

// Keys reads a list or a set of keys. They borrow from raw and from the reader, until Forget or the next call.
func (in *Reader) Keys(raw []byte) ([]task.Key, error) {
	keys, err := appendKeys(in.keys[:0], raw)
	in.keys = keys
	return keys, err
}

// Forget drops the references to the last message that the reader's memory has.
func (in *Reader) Forget() { clear(in.keys) }

func (o *Order) read(raw []byte) error {
	*o = Order{Raw: raw}
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadName(); err != nil {
			break
		}
		switch string(k) {
		case "key":
			var b []byte
			b, err = r.ReadKey(nil)
			o.key = task.Key(borrow(b))
		case "keys":
			o.keys, err = r.ReadRaw()
		case "who_has":
			o.whoHas, err = r.ReadRaw()
		case "nbytes":
			o.nbytes, err = r.ReadRaw()
		case "stimulus_id":
			o.stimulus, err = text(&r)
		case "status":
			o.Status, err = text(&r)
		case "worker":
			o.Worker, err = text(&r)
		case "reason":
			o.Reason, err = text(&r)
		default:
			err = r.Skip()
		}
		if err != nil {
			return fmt.Errorf("field %q: %w", k, err)
		}
	}
	return err
}

// text reads a string that is borrowed, "" for anything else.
func text(r *msgpack.Reader) (string, error) {
	if r.Kind() != msgpack.Str {
		return "", r.Skip()
	}
	b, err := r.ReadStringBytes()
	return borrow(b), err
}

// appendKeys reads a list of keys, which borrow from it.
func appendKeys(keys []task.Key, raw []byte) ([]task.Key, error) {
	r := msgpack.NewReader(raw)
	if r.Kind() != msgpack.Array { // a set of Python's
		err := wire.EachKey(raw, func(k []byte) error {
			keys = append(keys, task.Key(k)) // the walk may use the memory of k again
			return nil
		})
		return keys, err
	}
	n, err := r.ReadArrayLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadKey(nil); err == nil {
			keys = append(keys, task.Key(borrow(k)))
		}
	}
	return keys, err
}

// Task reads the compute-task that ops is at. What it returns borrows from the reader and from m, until the next call.
func (in *Reader) Task(ops *wire.Ops, m *wire.Message) (*state.ComputeTask, error) {
	c, ev := &in.compute, &in.event
	if err := ops.ComputeTask(c); err != nil {
		return nil, err
	}
	if err := in.task(c, ev, m); err != nil {
		return nil, fmt.Errorf("worker: compute-task: %w", err)
	}
	return ev, nil
}

func (in *Reader) task(c *wire.ComputeTask, ev *state.ComputeTask, m *wire.Message) error {
	*ev = state.ComputeTask{Stimulus: borrow(c.StimulusID), Key: task.Key(borrow(c.Key)), RunID: c.RunID,
		Actor:  c.Actor,
		SpanID: borrow(c.SpanID)}
	var err error
	if ev.Priority, err = readPriority(c.Priority); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	if ev.Deps, err = in.Deps(c.WhoHas, c.NBytes); err != nil {
		return err
	}
	if ev.Resources, err = in.readResources(c.ResourceRestrictions); err != nil {
		return fmt.Errorf("resource_restrictions: %w", err)
	}
	if a := c.Annotations; a.Frame == 0 && !a.IsNil() && !(len(a.Raw) == 1 && a.Raw[0] == 0x80) {
		ev.Annotations = a.Raw
	}
	r := msgpack.NewReader(c.RunSpec.Raw)
	if c.RunSpec.Frame == 0 && r.Kind() == msgpack.Bin {
		ev.Spec, err = r.ReadBytes()
	} else if spec, bad := pyspec.FromMessage(m, c.RunSpec); bad == nil {
		ev.Spec = spec
	} else {
		ev.Data = bad // it fails when it is run, with the reason
	}
	return err
}

// readPriority takes the first three numbers.
func readPriority(raw []byte) (p state.Priority, err error) {
	if len(raw) == 0 {
		return p, nil
	}
	r := msgpack.NewReader(raw)
	if r.TryNil() {
		return p, nil
	}
	n, err := r.ReadArrayLen()
	for i := 0; err == nil && i < min(n, len(p)); i++ {
		p[i], err = r.ReadFloat()
	}
	return p, err
}

// Deps reads who_has and, if there is one, nbytes. What it returns is valid until the next call.
func (in *Reader) Deps(whoHas, nbytes []byte) ([]state.Dep, error) {
	deps, holders := in.deps[:0], in.holders[:0]
	defer func() { in.deps, in.holders = deps, holders }()
	if len(whoHas) == 0 {
		return nil, nil
	}
	r := msgpack.NewReader(whoHas)
	if r.TryNil() {
		return nil, nil
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, fmt.Errorf("who_has: %w", err)
	}
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, fmt.Errorf("who_has: %w", err)
		}
		from := len(holders)
		if holders, err = in.readAddresses(&r, holders); err != nil {
			return nil, fmt.Errorf("who_has: %w", err)
		}
		deps = append(deps, state.Dep{Key: task.Key(borrow(k)), NBytes: -1,
			WhoHas: holders[from:len(holders):len(holders)]})
	}
	if err := readSizes(nbytes, deps); err != nil {
		return nil, fmt.Errorf("nbytes: %w", err)
	}
	return deps, nil
}

// maxAddresses bounds the table of addresses: a cluster has thousands of workers, not more
// over the life of one.
const maxAddresses = 1 << 16

func (in *Reader) readAddresses(r *msgpack.Reader, to []string) ([]string, error) {
	n, err := r.ReadArrayLen()
	if err != nil {
		return to, err
	}
	for range n {
		b, err := r.ReadStringBytes()
		if err != nil {
			return to, err
		}
		a, ok := in.addresses[string(b)]
		if !ok {
			a = string(b)
			if in.addresses == nil || len(in.addresses) >= maxAddresses {
				in.addresses = map[string]string{}
			}
			in.addresses[a] = a
		}
		to = append(to, a)
	}
	return to, nil
}

// readSizes fills the sizes in, which come in the same order as a rule.
func readSizes(raw []byte, deps []state.Dep) error {
	if len(raw) == 0 {
		return nil
	}
	r := msgpack.NewReader(raw)
	if r.TryNil() {
		return nil
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for i := range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return err
		}
		size := int64(-1)
		if !r.TryNil() {
			if size, err = r.ReadInt(); err != nil {
				return err
			}
		}
		if i < len(deps) && string(deps[i].Key) == string(k) {
			deps[i].NBytes = size
			continue
		}
		for j := range deps {
			if string(deps[j].Key) == string(k) {
				deps[j].NBytes = size
				break
			}
		}
	}
	return nil
}

func (in *Reader) readResources(raw []byte) ([]state.Resource, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	r := msgpack.NewReader(raw)
	n, err := r.ReadMapLen()
	list := in.resources[:0]
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = r.ReadStringBytes(); err != nil {
			break
		}
		var amount float64
		if amount, err = r.ReadFloat(); err == nil {
			list = append(list, state.Resource{Name: borrow(k), Amount: amount})
		}
	}
	in.resources = list
	return list, err
}

// borrow returns bytes as a string without a copy, for calls that do not keep it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
