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

// Ended reports whether nothing more is to come.
func (s Status) Ended() bool { return s == Finished || s == Failed || s == Canceled }

// State is what the client knows about a key that some future holds. The tracker's mutex guards all of it but key,
// which never changes.
type State struct {
	key     task.Key
	refs    int32
	where   int32 // index in Tracker.addresses of a worker that has the result, -1 if not known
	status  Status
	born    int64 // number of cancellations that had been requested when it was submitted
	retried int   // how often the scheduler has reported that it is run again
	err     error
	why     string // why no worker can run the task, see Shortage
	graph   *Graph // what has to be sent again if the scheduler forgets it; nil once it ended
	waiters *waitNode
}

// Key returns the key.
func (s *State) Key() task.Key { return s.key }

// Handle is one future's hold on a key: released once, by the user or by the garbage collector. Its zero value holds
// nothing.
type Handle struct {
	s        *State
	released bool // the tracker's mutex guards it
}

// NewHandle returns a handle of a key whose count includes it already.
func NewHandle(s *State) *Handle { return &Handle{s: s} }

// State returns the state of the handle's key.
func (h *Handle) State() *State { return h.s }

// Status returns the status of a key.
func (t *Tracker) Status(s *State) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.status
}

// KeyErr returns the error of a key's task, nil while it runs and if it has a result.
func (t *Tracker) KeyErr(s *State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.err
}

// Outcomes calls f with the status and error of each key, with a lock held.
func (t *Tracker) Outcomes(keys []*State, f func(i int, status Status, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range keys {
		f(i, s.status, s.err)
	}
}

// end sets the last status of a key and notifies those who wait. The caller holds the tracker's mutex.
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

// hold finds or makes the state of a key and counts a future of it; fresh reports whether the key was not held before.
// The caller holds mu.
func (t *Tracker) hold(key task.Key) (s *State, fresh bool) {
	if s = t.keys[key]; s != nil {
		s.refs++
		return s, false
	}
	s = &State{key: key, refs: 1, where: -1, born: t.cancels}
	t.keys[key] = s
	return s, true
}

// renew makes a key that was canceled one that waits, for a new submission. The caller holds mu.
func (t *Tracker) renew(s *State) {
	s.status, s.err, s.where, s.born = Pending, nil, -1, t.cancels
}

// Share counts one more future of a key that is held.
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

// Release ends a future's hold. Only the first call has an effect.
func (t *Tracker) Release(h *Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(h)
}

// ReleaseSlab ends the holds of a slab of futures at once. Handles that hold nothing are skipped.
func (t *Tracker) ReleaseSlab(hs []Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releasing = slices.Grow(t.releasing, len(hs))
	for i := range hs {
		if hs[i].s != nil { // a call that could not be encoded has none
			t.release(&hs[i])
		}
	}
}

// ReleaseAll ends the holds of many futures at once.
func (t *Tracker) ReleaseAll(hs []*Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releasing = slices.Grow(t.releasing, len(hs))
	for _, h := range hs {
		t.release(h)
	}
}

// release ends a hold. The caller holds mu.
func (t *Tracker) release(h *Handle) {
	if h.released {
		return
	}
	h.released = true
	s := h.s
	if s.refs--; s.refs > 0 {
		return
	}
	if t.keys[s.key] == s {
		delete(t.keys, s.key)
	}
	if s.graph != nil {
		s.graph.done(s)
	}
	if !s.status.Ended() {
		s.end(Canceled, &canceledError{key: s.key, cause: ErrReleased})
	}
	t.releasing = append(t.releasing, s.key)
	t.wakeWriter()
}
