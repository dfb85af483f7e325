package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// keepBoth is the maximum size of a value that stays in Go after it was sent to the process: it then survives the
// process, and is sent to peers without Python.
const keepBoth = 64 << 10

// Call is one run of a task in the process.
type Call struct {
	Key         task.Key
	Spec        [][]byte // the pickle and its buffers
	Annotations []byte   // msgpack, nil for none
	Actor       bool
	Deps        []*store.Entry
	Task        Task

	seceding sync.Mutex // guards over: a task may secede while it ends
	over     bool
}

// Task is the worker's side of a Call.
type Task interface {
	// Begin is called before the task is sent to the process.
	Begin()
	// Secede removes the task from those that count against the threads of the worker.
	Secede(ctx context.Context) error
}

// Result is the result of a Call.
type Result struct {
	Value    *task.Value
	NBytes   int64
	TypeName string
	// Start and Stop of the computation are ns since 1970, 0 if unknown.
	Start, Stop int64
	// Thread is the number of the thread in the process.
	Thread int64
	// Lost is a dependency whose value is lost, "" for none.
	Lost task.Key
}

// Run runs a task in the process and waits for its end. It ends early only with the context of all tasks, not with that
// of the run: as in Dask, a Python thread cannot be stopped.
func (s *Sidecar) Run(c *Call) (r Result, err error) {
	inc, err := s.get(s.w.Tasks)
	if err != nil {
		return r, s.runError(c.Key, err)
	}
	number := s.newHandle()
	body, frames, sent, err := c.encode(inc, number, &r)
	defer func() {
		for _, d := range sent {
			d.frames.Release()
		}
	}()
	if err != nil {
		return r, err
	}
	if err := inc.sendForwarded(s.w.Tasks); err != nil {
		return r, s.runError(c.Key, err)
	}
	s.addRun(number, c)
	c.Task.Begin()
	reply, err := inc.p.Call(s.w.Tasks, "run", msgpack.Raw(body), frames)
	s.removeRun(number, c)
	if err != nil {
		return r, s.runError(c.Key, err)
	}
	for _, d := range sent {
		if d.frames.Size() > keepBoth {
			d.value.DropEncoded()
		}
	}
	if err := r.read(inc, c.Key, number, reply); err != nil {
		return r, err
	}
	s.clearSuspect(c.Key)
	return r, nil
}

// encode encodes a call: (number, key, frames of the task, dependencies, annotations, actor). A dependency is (key,
// handle or nil, value, frames): Python has it, or the body contains it, or the frames of the message do. encode
// returns the values that are sent.
func (c *Call) encode(inc *incarnation, number uint64, r *Result) (body []byte, frames [][]byte, sent []sentValue,
	err error) {
	frames = slices.Clip(c.Spec)
	b := msgpack.AppendArrayHeader(make([]byte, 0, 64+len(c.Key)+24*len(c.Deps)), 6)
	b = msgpack.AppendUint(b, number)
	b = append(b, c.Key...)
	b = msgpack.AppendInt(b, int64(len(c.Spec)))
	b = msgpack.AppendArrayHeader(b, len(c.Deps))
	for _, e := range c.Deps {
		v, err := e.Open() // may read from disk
		var more *wire.Serialized
		if err == nil {
			b = append(msgpack.AppendArrayHeader(b, 4), e.Key()...)
			b, more, err = appendDep(inc, b, e.Key(), v)
		}
		var cannot *task.EncodeError
		if errors.As(err, &cannot) {
			return nil, nil, sent, fmt.Errorf("worker: %v needs %v: %w", c.Key, e.Key(), err)
		}
		if err != nil {
			// The file is damaged, or the value was in a process that died: the value is computed or fetched again, and
			// the task runs elsewhere or later.
			r.Lost = e.Key()
			return nil, nil, sent, errors.Join(task.ErrReschedule, fmt.Errorf("worker: %v needs %v: %w", c.Key, e.Key(),
				err))
		}
		if more != nil {
			sent = append(sent, sentValue{v, more})
			frames = append(frames, more.Header)
			for _, f := range more.Frames {
				frames = append(frames, f.Bytes())
			}
		}
	}
	if len(c.Annotations) > 0 {
		b = append(b, c.Annotations...)
	} else {
		b = msgpack.AppendNil(b)
	}
	return msgpack.AppendBool(b, c.Actor), frames, sent, nil
}

// sentValue is a value that is sent to the sidecar, with references to its frames.
type sentValue struct {
	value  *task.Value
	frames *wire.Serialized
}

// appendDep appends (handle, value, frames) of a dependency, and returns its frames if they must be sent.
func appendDep(inc *incarnation, b []byte, key task.Key, v *task.Value) ([]byte, *wire.Serialized, error) {
	// Sending a few bytes is cheaper than tracking them.
	at := len(b)
	b = msgpack.AppendNil(b)
	if b, ok := v.AppendBody(b); ok {
		return msgpack.AppendInt(b, 0), nil, nil
	}
	b = b[:at]
	for {
		remote, _ := v.Remote().(*value)
		if remote != nil && remote.inc == inc {
			b = msgpack.AppendUint(b, remote.handle)
			return msgpack.AppendInt(msgpack.AppendNil(b), 0), nil, nil
		}
		if remote != nil && !v.Lose(remote) {
			return b, nil, errSidecarLost
		}
		s, err := v.Retained()
		if err != nil {
			return b, nil, err
		}
		for _, f := range s.Frames {
			if f.OnDevice() {
				s.Release()
				return b, nil, &task.EncodeError{Reason: "value in GPU memory, which the Python process cannot read"}
			}
		}
		mine := &value{inc: inc, handle: inc.s.newHandle(), key: key, value: v}
		if !inc.add(mine) {
			s.Release()
			return b, nil, pyproc.ErrExited
		}
		if v.Attach(mine) != nil {
			inc.remove(mine) // another run was faster: retry
			s.Release()
			continue
		}
		b = msgpack.AppendUint(b, mine.handle)
		return msgpack.AppendInt(msgpack.AppendNil(b), int64(1+len(s.Frames))), s, nil
	}
}

// remove reverts an add whose value was never sent.
func (i *incarnation) remove(v *value) {
	i.mu.Lock()
	delete(i.values, v.handle)
	i.mu.Unlock()
}

// addRun adds a call to those that are in the process.
func (s *Sidecar) addRun(number uint64, c *Call) {
	s.mu.Lock()
	s.runs[number] = c
	s.mu.Unlock()
}

// removeRun removes a call that has ended.
func (s *Sidecar) removeRun(number uint64, c *Call) {
	s.mu.Lock()
	delete(s.runs, number)
	s.mu.Unlock()
	c.seceding.Lock() // waits for a Secede in progress
	c.over = true
	c.seceding.Unlock()
}

// secede handles the message that a task secedes.
func (s *Sidecar) secede(ctx context.Context, number uint64) {
	s.mu.Lock()
	c := s.runs[number]
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.seceding.Lock()
	defer c.seceding.Unlock()
	if !c.over {
		_ = c.Task.Secede(ctx)
	}
}
