package tracker

import (
	"slices"

	"go.millstream.dev/internal/task"
)

// Status is the state of a key's task.
type Status uint8

// The states of a task; package client documents them.
const (
	Pending Status = iota
	Finished
	Failed
	Canceled
	Lost
)

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s == Finished || s == Failed || s == Canceled }

// State is the state of a key that is held by a future. The tracker's mutex guards all fields except key, which never
// changes.
type State struct {
	key     task.Key
	refs    int32
	where   int32 // index in Tracker.addresses of a worker that has the result, -1 if not known
	status  Status
	born    int64 // cancellations requested before it was submitted
	retried int   // reported retries
	err     error
	why     string // why no worker can run the task, see Shortage
	value   string // the encoded result of a finished key, if the scheduler sent it
	graph   *Graph // sent again if the scheduler loses it; nil once the task ended
	waiters *waitNode
}

// Key returns the key.
func (s *State) Key() task.Key { return s.key }

// Handle is the reference of one future to a key. The user or the garbage collector releases it once. Its zero value
// refers to no key.
type Handle struct {
	s        *State
	released bool // guarded by the tracker's mutex
}

// NewHandle returns a handle to a key whose count already includes it.
func NewHandle(s *State) *Handle { return &Handle{s: s} }

// State returns the state of the handle's key.
func (h *Handle) State() *State { return h.s }

// Status returns the status of a key.
func (t *Tracker) Status(s *State) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.status
}

// KeyErr returns the error of a key's task, or nil while it runs and if it has a result.
func (t *Tracker) KeyErr(s *State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.err
}

// Outcomes calls f with the status and the error of each key, with the mutex held.
func (t *Tracker) Outcomes(keys []*State, f func(i int, status Status, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range keys {
		f(i, s.status, s.err)
	}
}

// end sets the final status of a key and notifies its waiters. The caller holds the tracker's mutex.
func (s *State) end(status Status, err error) {
	s.status, s.err, s.why = status, err, ""
	if s.graph != nil {
		s.graph.done(s)
	}
	for n := s.waiters; n != nil; n = n.next {
		n.w.notify(s, n.index)
	}
	s.waiters = nil
}

// hold returns the state of a key, creates it if needed, and counts a future of it; fresh reports whether the key was
// not held before. The caller holds mu.
func (t *Tracker) hold(key task.Key) (s *State, fresh bool) {
	hash := t.keys.Hash(key)
	if s = t.keys.Find(key, hash); s != nil {
		s.refs++
		return s, false
	}
	s = &State{key: key, refs: 1, where: -1, born: t.cancels}
	t.keys.Put(s, hash)
	return s, true
}

// renew makes a canceled key pending for a new submission. The caller holds mu.
func (t *Tracker) renew(s *State) {
	s.status, s.err, s.where, s.born = Pending, nil, -1, t.cancels
}

// Share counts another future of a held key.
func (t *Tracker) Share(s *State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.refs++
}

// Released reports whether a handle has been released.
func (t *Tracker) Released(h *Handle) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return h.released
}

// Release releases the reference of a future. Only the first call has an effect.
func (t *Tracker) Release(h *Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(h)
}

// ReleaseSlab releases a slab of handles at once. Handles without a key are skipped.
func (t *Tracker) ReleaseSlab(hs []Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releasing = slices.Grow(t.releasing, len(hs))
	for i := range hs {
		if hs[i].s != nil { // nil for a call that could not be encoded
			t.release(&hs[i])
		}
	}
}

// ReleaseAll releases many handles at once.
func (t *Tracker) ReleaseAll(hs []*Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releasing = slices.Grow(t.releasing, len(hs))
	for _, h := range hs {
		t.release(h)
	}
}

// release releases a handle. The caller holds mu.
func (t *Tracker) release(h *Handle) {
	if h.released {
		return
	}
	h.released = true
	s := h.s
	if s.refs--; s.refs > 0 {
		return
	}
	t.keys.Remove(s)
	if s.graph != nil {
		s.graph.done(s)
	}
	if !s.status.Ended() {
		s.end(Canceled, &canceledError{key: s.key, cause: ErrReleased})
	}
	t.releasing = append(t.releasing, s.key)
	t.wakeWriter()
}
