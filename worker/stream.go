package worker

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/pyspec"
)

// reader turns the scheduler's messages into events. It belongs to whoever holds the turn,
// and uses its memory again for each message: events borrow from it and from the message.
type streamReader struct {
	compute   wire.ComputeTask
	event     state.ComputeTask
	deps      []state.Dep
	holders   []string // what Dep.WhoHas points into
	resources []state.Resource
	keys      []task.Key
	addresses map[string]string // each address of a peer once
	order     order
}

// order is any message but compute-task; which fields it has depends on its op.
type order struct {
	key            task.Key
	keys           []byte
	whoHas, nbytes []byte
	stimulus       string
	status         string
	worker         string
	reason         string
}

func (o *order) read(raw []byte) error {
	*o = order{}
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
			o.status, err = text(&r)
		case "worker":
			o.worker, err = text(&r)
		case "reason":
			o.reason, err = text(&r)
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

// walk applies all messages of a batch. Its error means that the scheduler speaks something
// else, and ends the session.
func (w *Worker) walk(m *wire.Message) error {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return fmt.Errorf("worker: a message of the scheduler has no body")
	}
	ops := wire.ReadOps(m.Body())
	for ops.Next() {
		if string(ops.Op()) == "compute-task" {
			if err := ops.ComputeTask(&w.in.compute); err != nil {
				return err
			}
			if err := w.computeTask(m); err != nil {
				return fmt.Errorf("worker: compute-task: %w", err)
			}
			continue
		}
		raw, err := ops.Raw()
		if err != nil {
			return err
		}
		if err := w.in.order.read(raw); err != nil {
			return fmt.Errorf("worker: %s: %w", ops.Op(), err)
		}
		if err := w.obey(string(ops.Op()), &w.in.order, raw, m); err != nil {
			return fmt.Errorf("worker: %s: %w", ops.Op(), err)
		}
	}
	return ops.Err()
}

// obey does what any message but compute-task says.
func (w *Worker) obey(op string, o *order, raw []byte, m *wire.Message) error {
	switch op {
	case "free-keys":
		return w.withKeys(o.keys, func(keys []task.Key) { w.apply(&state.FreeKeys{Stimulus: o.stimulus, Keys: keys}) })
	case "remove-replicas":
		return w.withKeys(o.keys, func(keys []task.Key) { w.apply(&state.RemoveReplicas{Stimulus: o.stimulus, Keys: keys}) })
	case "acquire-replicas":
		deps, err := w.in.readDeps(o.whoHas, o.nbytes)
		if err == nil {
			w.apply(&state.AcquireReplicas{Stimulus: o.stimulus, Deps: deps})
		}
		return err
	case "refresh-who-has":
		deps, err := w.in.readDeps(o.whoHas, nil)
		if err == nil {
			w.apply(&state.RefreshWhoHas{Stimulus: o.stimulus, Deps: deps})
		}
		return err
	case "steal-request":
		w.apply(&state.StealRequest{Stimulus: o.stimulus, Key: o.key})
	case "cancel-compute":
		w.apply(&state.CancelCompute{Stimulus: o.stimulus, Key: o.key})
	case "remove-worker":
		w.apply(&state.RemovePeer{Stimulus: o.stimulus, Peer: o.worker})
		w.forgetPeer(o.worker)
	case "worker-status-change":
		w.orderedStatus(o.status)
	case "close":
		w.orderedClose(o.reason)
	case "close-stream":
		return errStreamClosed
	case "":
		return fmt.Errorf("a message without an op")
	default:
		if w.sidecar != nil && w.sidecar.obey(raw, m) {
			return nil
		}
		// Unknown orders are not worth a worker's data, as they are to Dask's workers.
		w.log.Warn("the scheduler sent an order that this worker does not know", "op", op)
	}
	return nil
}

func (w *Worker) withKeys(raw []byte, f func([]task.Key)) error {
	keys, err := appendKeys(w.in.keys[:0], raw)
	if err == nil {
		f(keys)
	}
	clear(keys)
	w.in.keys = keys[:0]
	return err
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

// computeTask applies the order in w.in.compute.
func (w *Worker) computeTask(m *wire.Message) error {
	c, ev := &w.in.compute, &w.in.event
	*ev = state.ComputeTask{Stimulus: borrow(c.StimulusID), Key: task.Key(borrow(c.Key)), RunID: c.RunID, Actor: c.Actor, SpanID: borrow(c.SpanID)}
	var err error
	if ev.Priority, err = readPriority(c.Priority); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	if ev.Deps, err = w.in.readDeps(c.WhoHas, c.NBytes); err != nil {
		return err
	}
	if ev.Resources, err = w.in.readResources(c.ResourceRestrictions); err != nil {
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
	if err == nil {
		w.apply(ev)
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

// readDeps reads who_has and, if there is one, nbytes. What it returns is valid until the
// next call.
func (in *streamReader) readDeps(whoHas, nbytes []byte) ([]state.Dep, error) {
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
		deps = append(deps, state.Dep{Key: task.Key(borrow(k)), NBytes: -1, WhoHas: holders[from:len(holders):len(holders)]})
	}
	if err := readSizes(nbytes, deps); err != nil {
		return nil, fmt.Errorf("nbytes: %w", err)
	}
	return deps, nil
}

// maxAddresses bounds the table of addresses: a cluster has thousands of workers, not more
// over the life of one.
const maxAddresses = 1 << 16

func (in *streamReader) readAddresses(r *msgpack.Reader, to []string) ([]string, error) {
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

func (in *streamReader) readResources(raw []byte) ([]state.Resource, error) {
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
