package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/pyspec"
)

// keepBoth is up to which size a value that was sent to the sidecar stays in Go as well: it
// then outlives the sidecar, and peers get it without asking Python.
const keepBoth = 64 << 10

// callPython runs the task in the sidecar and waits for its end. Not the run's context
// counts but the worker's: a thread of Python cannot be stopped, as in Dask.
func (r *run) callPython() error {
	w := r.w
	s := w.sidecar
	if s == nil {
		return w.refusePython()
	}
	r.inSidecar.Store(true)
	r.name = keyPrefix(r.key)
	if w.memory.Limited() && !r.actor {
		if err := r.reserve(); err != nil {
			return err
		}
		defer r.unreserve()
	}
	inc, err := s.get(w.taskCtx)
	if err != nil {
		return r.notRun(err)
	}
	number := s.newHandle()
	body, frames, sent, err := r.order(inc, number)
	defer func() {
		for _, d := range sent {
			d.frames.Release()
		}
	}()
	if err != nil {
		return err
	}
	if err := inc.sendOrders(w.taskCtx); err != nil {
		return r.notRun(err)
	}
	s.enter(number, r)
	r.start = time.Now().UnixNano()
	reply, err := inc.p.Call(w.taskCtx, "run", msgpack.Raw(body), frames)
	s.leave(number, r)
	if err != nil {
		return r.notRun(err)
	}
	for _, d := range sent {
		if d.frames.Size() > keepBoth {
			d.value.DropEncoded()
		}
	}
	if err := r.ran(inc, number, reply); err != nil {
		return err
	}
	s.cleared(r.key)
	if w.memory.Limited() && !r.actor {
		r.unreserve()
		if err := w.memory.Keep(r.ctx, r.key, r.name, r.nbytes); err != nil {
			r.result.Release()
			return err
		}
	}
	return nil
}

// order encodes the run for the sidecar: (number, key, frames of the task, dependencies,
// annotations, actor). A dependency is (key, handle or nil, value, frames): Python has it,
// or it is here in the body, or it comes with the message. It returns what was sent.
func (r *run) order(inc *incarnation, number uint64) (body []byte, frames [][]byte, sent []sentValue, err error) {
	parts, err := pyspec.Split(r.spec)
	if err != nil {
		return nil, nil, nil, err
	}
	frames = parts
	b := msgpack.AppendArrayHeader(make([]byte, 0, 64+len(r.key)+24*len(r.deps)), 6)
	b = msgpack.AppendUint(b, number)
	b = append(b, r.key...)
	b = msgpack.AppendInt(b, int64(len(parts)))
	b = msgpack.AppendArrayHeader(b, len(r.deps))
	for _, e := range r.deps {
		v, err := e.Open() // which may read from disk
		var more *wire.Serialized
		if err == nil {
			b = append(msgpack.AppendArrayHeader(b, 4), e.Key()...)
			b, more, err = r.dep(inc, b, e.Key(), v)
		}
		var cannot *task.EncodeError
		if errors.As(err, &cannot) {
			return nil, nil, sent, fmt.Errorf("worker: %v needs %v: %w", r.key, e.Key(), err)
		}
		if err != nil {
			// Its file is damaged, or it was in a sidecar that has died: it is computed or
			// fetched again, and the task runs elsewhere or later.
			r.lost = e.Key()
			return nil, nil, sent, errors.Join(task.ErrReschedule, fmt.Errorf("worker: %v needs %v: %w", r.key, e.Key(), err))
		}
		if more != nil {
			sent = append(sent, sentValue{v, more})
			frames = append(frames, more.Header)
			for _, f := range more.Frames {
				frames = append(frames, f.Bytes())
			}
		}
	}
	if len(r.annotations) > 0 {
		b = append(b, r.annotations...)
	} else {
		b = msgpack.AppendNil(b)
	}
	return msgpack.AppendBool(b, r.actor), frames, sent, nil
}

// sentValue is a value that goes to the sidecar, with references to its frames.
type sentValue struct {
	value  *task.Value
	frames *wire.Serialized
}

// dep appends (handle, value, frames) of a dependency, and returns its frames if they must
// be sent.
func (r *run) dep(inc *incarnation, b []byte, key task.Key, v *task.Value) ([]byte, *wire.Serialized, error) {
	// A few bytes that Go holds are cheaper sent than remembered.
	at := len(b)
	b = msgpack.AppendNil(b)
	if b, ok := v.AppendBody(b); ok {
		return msgpack.AppendInt(b, 0), nil, nil
	}
	b = b[:at]
	for {
		remote, _ := v.Remote().(*pyValue)
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
				return b, nil, &task.EncodeError{Reason: "it is memory of a GPU, which the Python process cannot read"}
			}
		}
		mine := &pyValue{inc: inc, handle: inc.s.newHandle(), key: key, value: v}
		if !inc.add(mine) {
			s.Release()
			return b, nil, pyproc.ErrExited
		}
		if v.Attach(mine) != nil {
			inc.remove(mine) // another run was faster: look again
			s.Release()
			continue
		}
		b = msgpack.AppendUint(b, mine.handle)
		return msgpack.AppendInt(msgpack.AppendNil(b), int64(1+len(s.Frames))), s, nil
	}
}

// remove takes back an add whose value was never sent.
func (i *incarnation) remove(v *pyValue) {
	i.mu.Lock()
	delete(i.values, v.handle)
	i.mu.Unlock()
}

// Kinds of ends that the sidecar tells of.
const (
	ranOK = iota
	ranErred
	ranReschedule
)

// ran reads what the sidecar answers: (kind, start, stop, thread, …).
func (r *run) ran(inc *incarnation, number uint64, reply *pyproc.Message) error {
	m := msgpack.NewReader(reply.Body)
	n, err := m.ReadArrayLen()
	if err != nil || n < 4 {
		return badReply(err)
	}
	kind, err := m.ReadInt()
	if err != nil {
		return badReply(err)
	}
	var times [2]float64
	for i := range times {
		if times[i], err = m.ReadFloat(); err != nil || !(times[i] > 0 && times[i] < 1e10) {
			return badReply(err)
		}
	}
	r.start, r.stop = int64(times[0]*1e9), int64(max(times[0], times[1])*1e9)
	thread, err := m.ReadUint()
	if err != nil {
		return badReply(err)
	}
	r.thread = int64(thread >> 1) // as a positive number
	switch {
	case kind == ranOK && n == 9:
		return r.made(inc, number, &m)
	case kind == ranErred && n == 8:
		return r.raised(&m, reply.Frames)
	case kind == ranReschedule:
		return task.ErrReschedule
	}
	return badReply(fmt.Errorf("kind %d with %d parts", kind, n))
}

func badReply(err error) error {
	return fmt.Errorf("worker: the Python process answered what cannot be understood (%v): is another release of millstream in the way?", err)
}

// made reads (nbytes, type name, pickled type, plain, value).
func (r *run) made(inc *incarnation, number uint64, m *msgpack.Reader) error {
	nbytes, err := m.ReadInt()
	if err != nil || nbytes < 0 {
		return badReply(err)
	}
	name, err := m.ReadString()
	if err != nil {
		return badReply(err)
	}
	pickled, err := m.ReadBytes()
	if err != nil {
		return badReply(err)
	}
	plain, err := m.ReadBool()
	if err != nil {
		return badReply(err)
	}
	raw, err := m.ReadRaw()
	if err != nil {
		return badReply(err)
	}
	r.nbytes, r.typeName = nbytes, inc.s.w.pyTypes.learn(name, pickled)
	if plain {
		x, err := msgpack.Decode(raw)
		if err != nil {
			return badReply(err)
		}
		r.result = task.NewValue(x)
		return nil
	}
	v := &pyValue{inc: inc, handle: number, key: r.key}
	v.value = task.NewRemote(v, nbytes, name)
	if !inc.add(v) {
		return r.notRun(pyproc.ErrExited)
	}
	r.result = v.value
	return nil
}

// raised reads (text of the exception, of the traceback, frames of each).
func (r *run) raised(m *msgpack.Reader, frames [][]byte) error {
	f := &state.Failure{}
	var err error
	if f.ExceptionText, err = m.ReadString(); err != nil {
		return badReply(err)
	}
	if f.TracebackText, err = m.ReadString(); err != nil {
		return badReply(err)
	}
	for _, to := range []*any{&f.Exception, &f.Traceback} {
		n, err := m.ReadInt()
		if err != nil || n < 0 || n > int64(len(frames)) {
			return badReply(err)
		}
		if n == 0 {
			continue
		}
		s, err := serializedOf(frames[:n])
		if err != nil {
			return err
		}
		*to, frames = s, frames[n:]
	}
	return &pythonError{f}
}

// pythonError is an exception of a task of Python, as the scheduler is told.
type pythonError struct{ failure *state.Failure }

func (e *pythonError) Error() string { return e.failure.ExceptionText }

// enter and leave note which runs are in the sidecar.
func (s *sidecar) enter(number uint64, r *run) {
	s.mu.Lock()
	s.runs[number] = r
	s.mu.Unlock()
}

func (s *sidecar) leave(number uint64, r *run) {
	s.mu.Lock()
	delete(s.runs, number)
	s.mu.Unlock()
	r.seceding.Lock() // one that has begun is over then
	r.over = true
	r.seceding.Unlock()
}

// secede is the sidecar's word that a task is a long one.
func (s *sidecar) secede(ctx context.Context, number uint64) {
	s.mu.Lock()
	r := s.runs[number]
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.seceding.Lock()
	defer r.seceding.Unlock()
	if !r.over {
		_ = r.secede(ctx)
	}
}

// keyPrefix is what Dask calls the prefix of a key, more or less: what is before the token.
func keyPrefix(k task.Key) string {
	var text string
	switch v := k.Value().(type) {
	case string:
		text = v
	case wire.Tuple:
		if len(v) > 0 {
			text, _ = v[0].(string)
		}
	case []any:
		if len(v) > 0 {
			text, _ = v[0].(string)
		}
	}
	if i := strings.LastIndexByte(text, '-'); i > 0 {
		return text[:i]
	}
	return text
}
