package wire

import (
	"go.millstream.dev/internal/wire/msgpack"
)

// TaskFinished is a worker's report that a task's result is in its memory. All bytes
// borrow from the message.
type TaskFinished struct {
	// Key is the task's key in its canonical form, see msgpack.Reader.ReadKey.
	Key []byte
	// RunID echoes that of the ComputeTask.
	RunID int64
	// NBytes is the size of the result.
	NBytes int64
	// Type is the pickle of the result's class, and TypeName its name.
	Type, TypeName []byte
	// Thread is the worker's thread.
	Thread int64
	// Status is "OK".
	Status []byte
	// Start and Stop are the times of the computation, in seconds since 1970; both 0 if
	// StartStops has none.
	Start, Stop float64
	// StartStops is the list of all actions, as msgpack: maps of action, start, stop.
	StartStops []byte
	// Metadata is a map, as msgpack.
	Metadata []byte
	// StimulusID names the event.
	StimulusID []byte
	// Scratch is where a key that is not canonical is rewritten, which Python's always
	// is. It is kept from one message to the next.
	Scratch []byte
}

// TaskFinished reads the current message, whose op it is, into t, without allocating.
func (o *Ops) TaskFinished(t *TaskFinished) error {
	*t = TaskFinished{Scratch: t.Scratch[:0]}
	r := o.r // on the stack: a function value would put it on the heap
	for range o.fields {
		k, err := r.ReadName()
		if err == nil {
			err = t.field(k, &r)
		}
		if err != nil {
			return o.fail(k, err)
		}
	}
	o.end, o.walked = r, true
	return nil
}

func (t *TaskFinished) field(k []byte, r *msgpack.Reader) (err error) {
	switch string(k) {
	case "key":
		t.Key, err = readKey(r, &t.Scratch)
	case "run_id":
		t.RunID, err = r.ReadInt()
	case "nbytes":
		t.NBytes, err = readMaybeInt(r)
	case "type":
		t.Type, err = readMaybeBytes(r)
	case "typename":
		t.TypeName, err = readMaybeString(r)
	case "thread":
		t.Thread, err = readMaybeInt(r)
	case "status":
		t.Status, err = readMaybeString(r)
	case "metadata":
		t.Metadata, err = r.ReadRaw()
	case "startstops":
		t.StartStops, t.Start, t.Stop, err = readStartStops(r)
	case "stimulus_id":
		t.StimulusID, err = readMaybeString(r)
	default:
		err = r.Skip()
	}
	return err
}

// readKey reads a task key and keeps the memory that a rewritten one needs.
func readKey(r *msgpack.Reader, scratch *[]byte) ([]byte, error) {
	before := r.Offset()
	k, err := r.ReadKey(*scratch)
	if err == nil && len(k) != r.Offset()-before {
		*scratch = k
	}
	return k, err
}

func readMaybeInt(r *msgpack.Reader) (int64, error) {
	if r.TryNil() {
		return 0, nil
	}
	return r.ReadInt()
}

func readMaybeString(r *msgpack.Reader) ([]byte, error) {
	if r.TryNil() {
		return nil, nil
	}
	return r.ReadStringBytes()
}

func readMaybeBytes(r *msgpack.Reader) ([]byte, error) {
	if r.TryNil() {
		return nil, nil
	}
	return r.ReadBytes()
}

// readStartStops reads the list and finds the computation in it.
func readStartStops(r *msgpack.Reader) (raw []byte, start, stop float64, err error) {
	if r.Kind() != msgpack.Array {
		raw, err = r.ReadRaw()
		return raw, 0, 0, err
	}
	from := r.Offset()
	n, err := r.ReadArrayLen()
	if err != nil {
		return nil, 0, 0, err
	}
	for range n {
		a, b, compute, err := readStartStop(r)
		if err != nil {
			return nil, 0, 0, err
		}
		if compute {
			start, stop = a, b
		}
	}
	return r.Since(from), start, stop, nil
}

func readStartStop(r *msgpack.Reader) (start, stop float64, compute bool, err error) {
	fields, err := r.ReadMapLen()
	if err != nil {
		return 0, 0, false, err
	}
	for range fields {
		k, err := r.ReadName()
		if err != nil {
			return 0, 0, false, err
		}
		switch string(k) {
		case "action":
			var a []byte
			if a, err = readMaybeString(r); string(a) == "compute" {
				compute = true
			}
		case "start":
			start, err = r.ReadFloat()
		case "stop":
			stop, err = r.ReadFloat()
		default:
			err = r.Skip()
		}
		if err != nil {
			return 0, 0, false, err
		}
	}
	return start, stop, compute, nil
}

// ComputeTask is a scheduler's order to a worker. All bytes borrow from the message.
type ComputeTask struct {
	// Key is the task's key in its canonical form.
	Key []byte
	// RunID is echoed in the report.
	RunID int64
	// Priority is a list of numbers, as msgpack: the lowest runs first.
	Priority []byte
	// WhoHas maps dependencies to lists of addresses, NBytes to their sizes, as msgpack.
	WhoHas, NBytes []byte
	// RunSpec is the pickled task.
	RunSpec Ref
	// ResourceRestrictions maps resources to amounts, as msgpack; nil without any.
	ResourceRestrictions []byte
	// Actor tells that the task makes an actor.
	Actor bool
	// Annotations are a map.
	Annotations Ref
	// SpanID and StimulusID name the span and the event.
	SpanID, StimulusID []byte
	// Scratch is as in TaskFinished.
	Scratch []byte
}

// ComputeTask reads the current message, whose op it is, into c, without allocating.
func (o *Ops) ComputeTask(c *ComputeTask) error {
	*c = ComputeTask{Scratch: c.Scratch[:0]}
	r := o.r // on the stack: a function value would put it on the heap
	for range o.fields {
		k, err := r.ReadName()
		if err == nil {
			err = c.field(k, &r)
		}
		if err != nil {
			return o.fail(k, err)
		}
	}
	o.end, o.walked = r, true
	return nil
}

func (c *ComputeTask) field(k []byte, r *msgpack.Reader) (err error) {
	switch string(k) {
	case "key":
		c.Key, err = readKey(r, &c.Scratch)
	case "run_id":
		c.RunID, err = r.ReadInt()
	case "priority":
		c.Priority, err = r.ReadRaw()
	case "who_has":
		c.WhoHas, err = r.ReadRaw()
	case "nbytes":
		c.NBytes, err = r.ReadRaw()
	case "run_spec":
		c.RunSpec, err = readRef(r)
	case "resource_restrictions":
		if !r.TryNil() {
			c.ResourceRestrictions, err = r.ReadRaw()
		}
	case "actor":
		if !r.TryNil() {
			c.Actor, err = r.ReadBool()
		}
	case "annotations":
		c.Annotations, err = readRef(r)
	case "span_id":
		c.SpanID, err = readMaybeString(r)
	case "stimulus_id":
		c.StimulusID, err = readMaybeString(r)
	default:
		err = r.Skip()
	}
	return err
}

// UpdateGraph is a client's order to a scheduler. All bytes borrow from the message.
type UpdateGraph struct {
	// Expr is the pickled expression that makes the graph.
	Expr Ref
	// Keys are the wanted keys, as msgpack: a list, or the marker of a set. See EachKey.
	Keys []byte
	// InternalPriority maps keys to numbers, as msgpack; nil to let the scheduler order.
	InternalPriority []byte
	// SubmittingTask is the canonical key of the task that sent it, nil from outside.
	SubmittingTask []byte
	// FIFOTimeout is a duration as text or number, Actors a bool or a list of keys,
	// UserPriority a number, each as msgpack or nil.
	FIFOTimeout, Actors, UserPriority []byte
	// Code, Annotations and SpanMetadata are pickled, or in the body.
	Code, Annotations, SpanMetadata Ref
	// StimulusID names the event.
	StimulusID []byte
	// Scratch is as in TaskFinished.
	Scratch []byte
}

// UpdateGraph reads the current message, whose op it is, into u, without allocating.
func (o *Ops) UpdateGraph(u *UpdateGraph) error {
	*u = UpdateGraph{Scratch: u.Scratch[:0]}
	r := o.r // on the stack: a function value would put it on the heap
	for range o.fields {
		k, err := r.ReadName()
		if err == nil {
			err = u.field(k, &r)
		}
		if err != nil {
			return o.fail(k, err)
		}
	}
	o.end, o.walked = r, true
	return nil
}

func (u *UpdateGraph) field(k []byte, r *msgpack.Reader) (err error) {
	switch string(k) {
	case "expr_ser":
		u.Expr, err = readRef(r)
	case "keys":
		u.Keys, err = r.ReadRaw()
	case "internal_priority":
		u.InternalPriority, err = rawOrNil(r)
	case "submitting_task":
		if !r.TryNil() {
			u.SubmittingTask, err = readKey(r, &u.Scratch)
		}
	case "fifo_timeout":
		u.FIFOTimeout, err = rawOrNil(r)
	case "actors":
		u.Actors, err = rawOrNil(r)
	case "user_priority":
		u.UserPriority, err = rawOrNil(r)
	case "code":
		u.Code, err = readRef(r)
	case "annotations":
		u.Annotations, err = readRef(r)
	case "span_metadata":
		u.SpanMetadata, err = readRef(r)
	case "stimulus_id":
		u.StimulusID, err = readMaybeString(r)
	default:
		err = r.Skip()
	}
	return err
}

func rawOrNil(r *msgpack.Reader) ([]byte, error) {
	if r.TryNil() {
		return nil, nil
	}
	return r.ReadRaw()
}

// EachKey calls f for each of a list or set of task keys, as msgpack, with the key in its
// canonical form, which is valid until f returns.
func EachKey(raw []byte, f func(key []byte) error) error {
	r := msgpack.NewReader(raw)
	if r.Kind() == msgpack.MapKind { // {"__Set__": true, "as-list": [...]}
		n, err := r.ReadMapLen()
		if err != nil {
			return err
		}
		for range n {
			k, err := r.ReadName()
			if err != nil {
				return err
			}
			if string(k) == "as-list" {
				break
			}
			if err := r.Skip(); err != nil {
				return err
			}
		}
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return err
	}
	var scratch []byte
	for range n {
		k, err := readKey(&r, &scratch)
		if err != nil {
			return err
		}
		if err := f(k); err != nil {
			return err
		}
		scratch = scratch[:0]
	}
	return nil
}
