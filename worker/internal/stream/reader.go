// Package stream encodes and decodes the stream between a worker and its scheduler, of Millstream or Dask: it decodes
// messages to events of the state, and encodes the messages of the resulting actions.
package stream

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/pyspec"
)

// Reader decodes messages of the scheduler to events. It is guarded by the worker's turn, and reuses its memory for
// each message: events borrow from it and from the message. The zero value is ready to use.
type Reader struct {
	compute   message.ComputeTask
	free      message.FreeKeys
	remove    message.RemoveReplicas
	event     state.ComputeTask
	deps      []state.Dep
	holders   []string // backing array of Dep.WhoHas
	resources []state.Resource
	addresses map[string]string // interned addresses of peers
}

// Event returns the event of the current message of ops, if it is about tasks or data and is not a compute-task;
// otherwise nil. The event borrows from the reader until Forget or the next call.
func (in *Reader) Event(ops *message.Ops) (state.Event, error) {
	switch string(ops.Op()) {
	case "free-keys":
		f := &in.free
		err := f.Read(ops)
		return &state.FreeKeys{Stimulus: f.StimulusID, Keys: f.Keys}, err
	case "remove-replicas":
		f := &in.remove
		err := f.Read(ops)
		return &state.RemoveReplicas{Stimulus: f.StimulusID, Keys: f.Keys}, err
	case "acquire-replicas":
		var f message.AcquireReplicas
		if err := f.Read(ops); err != nil {
			return nil, err
		}
		deps, err := in.Deps(f.WhoHas, f.NBytes)
		return &state.AcquireReplicas{Stimulus: f.StimulusID, Deps: deps}, inOp(ops, err)
	case "refresh-who-has":
		var f message.RefreshWhoHas
		if err := f.Read(ops); err != nil {
			return nil, err
		}
		deps, err := in.Deps(f.WhoHas, nil)
		return &state.RefreshWhoHas{Stimulus: f.StimulusID, Deps: deps}, inOp(ops, err)
	case "steal-request":
		var f message.StealRequest
		err := f.Read(ops)
		return &state.StealRequest{Stimulus: f.StimulusID, Key: f.Key}, err
	case "cancel-compute":
		var f message.CancelCompute
		err := f.Read(ops)
		return &state.CancelCompute{Stimulus: f.StimulusID, Key: f.Key}, err
	case "remove-worker":
		var f message.RemoveWorker
		err := f.Read(ops)
		return &state.RemovePeer{Stimulus: f.StimulusID, Peer: f.Worker}, err
	}
	return nil, nil
}

// inOp adds the op to an error about the content of a field.
func inOp(ops *message.Ops, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: field %w", ops.Op(), err)
	}
	return err
}

// Forget drops the reader's references to the last message.
func (in *Reader) Forget() {
	clear(in.free.Keys)
	clear(in.remove.Keys)
}

// Task reads the compute-task at the position of ops. The result borrows from the reader and from m, until the next
// call.
func (in *Reader) Task(ops *message.Ops, m *wire.Message) (*state.ComputeTask, error) {
	c, ev := &in.compute, &in.event
	if err := c.Read(ops); err != nil {
		return nil, err
	}
	return ev, inOp(ops, in.task(c, ev, m))
}

func (in *Reader) task(c *message.ComputeTask, ev *state.ComputeTask, m *wire.Message) error {
	*ev = state.ComputeTask{Stimulus: c.StimulusID, Key: c.Key, RunID: c.RunID, Actor: c.Actor, SpanID: c.SpanID}
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
	if a := &c.Annotations; a.Frame == 0 && !a.IsNil() && !(len(a.Raw) == 1 && a.Raw[0] == 0x80) {
		ev.Annotations = a.Raw
	}
	r := msgpack.NewReader(c.RunSpec.Raw)
	if c.RunSpec.Frame == 0 && r.Kind() == msgpack.Bin {
		ev.Spec, err = r.ReadBytes()
	} else if spec, bad := pyspec.FromMessage(m, &c.RunSpec); bad == nil {
		ev.Spec = spec
	} else {
		ev.Data = bad // the task fails with this error when it is run
	}
	return err
}

// readPriority reads the first three numbers.
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

// Deps reads who_has and, if present, nbytes. The result is valid until the next call.
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
		deps = append(deps, state.Dep{Key: task.Key(msgpack.Borrow(k)), NBytes: -1,
			WhoHas: holders[from:len(holders):len(holders)]})
	}
	if err := readSizes(nbytes, deps); err != nil {
		return nil, fmt.Errorf("nbytes: %w", err)
	}
	return deps, nil
}

// maxAddresses bounds the table of addresses.
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

// readSizes sets the sizes of deps. They usually have the same order.
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
			list = append(list, state.Resource{Name: msgpack.Borrow(k), Amount: amount})
		}
	}
	in.resources = list
	return list, err
}
