package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// value is a value in a sidecar. It is the task.Remote of a value in the store.
type value struct {
	inc    *incarnation
	handle uint64
	key    task.Key
	value  *task.Value // set before the value is shared
}

// errSidecarLost is returned for a value in a sidecar that has died.
var errSidecarLost = errors.New("worker: Python process that held the value has died")

// pyEncodeError is the exception of Python for a value that cannot be serialized. It matches *task.EncodeError with
// errors.As.
type pyEncodeError struct{ text string }

func (e *pyEncodeError) Error() string { return e.text }
func (e *pyEncodeError) Unwrap() error { return &task.EncodeError{Reason: e.text} }

// newHandle returns a new handle for a value or a run.
func (s *Sidecar) newHandle() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle += 2
	return s.handle
}

// add adds a value that is in the sidecar, or will be. It returns false if the sidecar has died.
func (i *incarnation) add(v *value) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return false
	}
	i.values[v.handle] = v
	return true
}

// markDead marks the process as dead and returns the values that have no other copy.
func (i *incarnation) markDead() []*value {
	i.mu.Lock()
	values := i.values
	i.values, i.free, i.dead = nil, nil, true
	i.mu.Unlock()
	var lost []*value
	for _, v := range values {
		if !v.value.Lose(v) {
			lost = append(lost, v)
		}
	}
	return lost
}

// Drop implements task.Remote. The handle is sent to Python with others: in a full batch, or by Sweep.
func (v *value) Drop() {
	i := v.inc
	i.mu.Lock()
	if i.dead {
		i.mu.Unlock()
		return
	}
	delete(i.values, v.handle)
	i.free = append(i.free, v.handle)
	many := len(i.free) == freeBatch
	i.mu.Unlock()
	if many {
		i.s.w.Go(i.flush)
	}
}

// freeBatch is the number of handles to free that are sent as a batch.
const freeBatch = 64

// flush sends the handles of values that are no longer needed.
func (i *incarnation) flush() {
	i.mu.Lock()
	free := i.free
	i.free = nil
	i.mu.Unlock()
	if len(free) == 0 {
		return
	}
	b := msgpack.AppendArrayHeader(make([]byte, 0, 5+9*len(free)), len(free))
	for _, h := range free {
		b = msgpack.AppendUint(b, h)
	}
	if err := i.p.Notify(i.s.w.Context, "free", msgpack.Raw(b), nil); err != nil && !errors.Is(err, pyproc.ErrExited) &&
		i.s.w.Context.Err() == nil {
		i.s.log.Warn("cannot send values to free to Python process", "error", err)
	}
}

// Fetch implements task.Remote: Python serializes the value.
func (v *value) Fetch() (*wire.Serialized, error) {
	body := msgpack.AppendUint(msgpack.AppendArrayHeader(nil, 1), v.handle)
	reply, err := v.inc.p.Call(context.Background(), "get", msgpack.Raw(body), nil)
	var raised *pyproc.Exception
	switch {
	case errors.As(err, &raised):
		return nil, &pyEncodeError{raised.Error()}
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errSidecarLost, err)
	}
	return serializedOf(reply.Frames)
}

// serializedOf returns a value with the given header and frames, which it takes over.
func serializedOf(frames [][]byte) (*wire.Serialized, error) {
	if len(frames) == 0 {
		return nil, errors.New("worker: reply of the Python process without a header")
	}
	r := msgpack.NewReader(frames[0])
	if r.Kind() != msgpack.MapKind {
		return nil, errors.New("worker: reply of the Python process with an invalid header")
	}
	s := &wire.Serialized{Header: frames[0], Frames: make([]wire.Frame, len(frames)-1)}
	for i, f := range frames[1:] {
		s.Frames[i] = wire.HeapFrame(f)
	}
	return s, nil
}

// maxFetches is the maximum number of values that Python serializes concurrently for one peer.
const maxFetches = 4

// Encode makes Python serialize the values that a peer requested, and leaves out those that were lost with a process:
// they are reported and computed again. A nil Sidecar returns held.
func (s *Sidecar) Encode(held []*store.Entry) []*store.Entry {
	if s == nil {
		return held
	}
	var far []*store.Entry
	for _, e := range held {
		if v, err := e.Open(); err == nil && v.Remote() != nil {
			far = append(far, e)
		}
	}
	if len(far) == 0 {
		return held
	}
	var mu sync.Mutex
	lost := map[*store.Entry]bool{}
	var all sync.WaitGroup
	slots := make(chan struct{}, maxFetches)
	for _, e := range far {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			v, err := e.Open()
			if err == nil {
				_, err = v.Encoded()
			}
			if errors.Is(err, errSidecarLost) {
				mu.Lock()
				lost[e] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(lost) == 0 {
		return held
	}
	kept := held[:0]
	for _, e := range held {
		if !lost[e] {
			kept = append(kept, e)
			continue
		}
		s.data.Release(e)
		s.w.Lost([]task.Key{e.Key()}, nil)
	}
	return kept
}
