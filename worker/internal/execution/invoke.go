package execution

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// callSpec runs the encoded call of a Go client.
func (r *Run) callSpec(spec []byte) error {
	c := &r.parsed
	if err := c.Parse(spec); err != nil {
		return err
	}
	return r.invoke(c.Func.Name(), c)
}

// invocation is a function with its arguments.
type invocation interface {
	// arrange opens the dependencies and inserts them into the arguments.
	arrange(r *Run) error
	// call calls the function.
	call(ctx context.Context, r *Run) (any, error)
}

// specCall is the call of a Go client.
type specCall struct{ task.Call }

func (c *specCall) arrange(r *Run) error { return r.arrange(c.Deps) }

func (c *specCall) call(ctx context.Context, r *Run) (any, error) { return c.Run(ctx, r.values) }

// invoke runs a Go function within the limits of memory and time, and stores its result.
func (r *Run) invoke(name string, c invocation) error {
	r.name = name
	r.function.Store(&r.name)
	limited := r.p.memory.Limited() && !r.actor
	if limited {
		if err := r.reserve(); err != nil {
			return err
		}
		defer r.unreserve()
	}
	if err := c.arrange(r); err != nil {
		return err
	}
	ctx := context.Context(r.c)
	if r.annotations != nil {
		limit, err := timeout(r.annotations)
		if err != nil {
			return err
		}
		if limit > 0 {
			var stop context.CancelFunc
			late := timeoutError(name, limit)
			ctx, stop = context.WithTimeoutCause(ctx, limit, late)
			defer stop()
			defer time.AfterFunc(limit+timeoutGrace, func() { r.p.abandon(r, late) }).Stop()
		}
	}
	ctx = r.traceCompute(ctx)
	r.start = time.Now().UnixNano()
	r.began.Store(r.start)
	v, err := c.call(ctx, r)
	r.stop = time.Now().UnixNano()
	r.unreserve()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return err
	}
	task.Handover(v, r.values)
	r.result = task.NewValue(v)
	if err := r.keep(limited); err != nil {
		r.result.Release() // reference-counted memory has no other owner
		r.result = nil
		return err
	}
	return nil
}

// keep makes room for the result.
func (r *Run) keep(limited bool) error {
	r.nbytes, r.typeName = r.result.Size(), r.result.Type()
	if err := r.p.data.MakeRoomFor(r.c, r.result, r.nbytes); err != nil {
		return err
	}
	if limited && !r.p.memory.OnDevice(r.result) {
		return r.p.memory.Keep(r.c, r.key, r.name, r.nbytes)
	}
	return nil
}

// reserve makes room for the expected result.
func (r *Run) reserve() (err error) {
	r.reserved, err = r.p.memory.Reserve(r.c, r.name, r.deps)
	return err
}

func (r *Run) unreserve() {
	r.p.memory.Unreserve(r.reserved)
	r.reserved = 0
}

// arrange opens the dependencies, and puts their values into the order of the call's keys.
func (r *Run) arrange(keys []task.Key) error {
	if len(keys) == 0 {
		return nil
	}
	for _, e := range r.deps {
		v, err := e.Open() // may read from disk
		if err != nil {
			// The file is damaged: the result is computed or fetched again, and the task runs elsewhere or later.
			r.lost = e.Key()
			return errors.Join(task.ErrReschedule, fmt.Errorf("worker: %v needs %v: %w", r.key, e.Key(), err))
		}
		r.opened = append(r.opened, v)
	}
	var index map[task.Key]int
	for i, k := range keys {
		if i < len(r.deps) && r.deps[i].Key() == k { // the usual case
			r.values = append(r.values, r.opened[i])
			continue
		}
		if index == nil {
			index = make(map[task.Key]int, len(r.deps))
			for j, e := range r.deps {
				index[e.Key()] = j
			}
		}
		j, ok := index[k]
		if !ok {
			return fmt.Errorf("worker: %v refers to %v, which is not among the dependencies sent by the scheduler",
				r.key, k)
		}
		r.values = append(r.values, r.opened[j])
	}
	return nil
}

// timeout returns the annotation timeout: the maximum duration of the task; 0 for none.
func timeout(annotations []byte) (time.Duration, error) {
	m := msgpack.NewReader(annotations)
	n, err := m.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = m.ReadName(); err != nil {
			break
		}
		if string(k) != "timeout" {
			err = m.Skip()
			continue
		}
		s, err := m.ReadFloat()
		if err != nil || !(s > 0 && s < 1e9) {
			return 0, errors.New("worker: annotation timeout is not a positive number of seconds")
		}
		return time.Duration(s * float64(time.Second)), nil
	}
	if err != nil {
		return 0, fmt.Errorf("worker: annotations: %w", err)
	}
	return 0, nil
}
