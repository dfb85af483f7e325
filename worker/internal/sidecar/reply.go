package sidecar

import (
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// Kinds of results that the process reports.
const (
	ranOK = iota
	ranErred
	ranReschedule
)

// read reads the reply of the process: (kind, start, stop, thread, …).
func (r *Result) read(inc *incarnation, key task.Key, number uint64, reply *pyproc.Message) error {
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
	r.Start, r.Stop = int64(times[0]*1e9), int64(max(times[0], times[1])*1e9)
	thread, err := m.ReadUint()
	if err != nil {
		return badReply(err)
	}
	r.Thread = int64(thread >> 1) // as a positive number
	switch {
	case kind == ranOK && n == 9:
		return r.readResult(inc, key, number, &m)
	case kind == ranErred && n == 8:
		return readException(&m, reply.Frames)
	case kind == ranReschedule:
		return task.ErrReschedule
	}
	return badReply(fmt.Errorf("kind %d with %d parts", kind, n))
}

func badReply(err error) error {
	return fmt.Errorf("worker: invalid reply of the Python process (%v); check that no other release of millstream is "+
		"imported", err)
}

// readResult reads (nbytes, type name, pickled type, plain, value).
func (r *Result) readResult(inc *incarnation, key task.Key, number uint64, m *msgpack.Reader) error {
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
	r.NBytes, r.TypeName = nbytes, inc.s.types.intern(name, pickled)
	if plain {
		x, err := msgpack.Decode(raw)
		if err != nil {
			return badReply(err)
		}
		r.Value = task.NewValue(x)
		return nil
	}
	v := &value{inc: inc, handle: number, key: key}
	v.value = task.NewRemote(v, nbytes, name)
	if !inc.add(v) {
		return inc.s.runError(key, pyproc.ErrExited)
	}
	r.Value = v.value
	return nil
}

// readException reads (text of the exception, of the traceback, frames of each).
func readException(m *msgpack.Reader, frames [][]byte) error {
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
	return &Error{f}
}

// Error is the exception of a Python task, in the form of the scheduler's messages.
type Error struct{ Failure *state.Failure }

func (e *Error) Error() string { return e.Failure.ExceptionText }
