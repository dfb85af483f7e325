package client

import (
	"slices"

	"go.millstream.dev/internal/task"
)

// Status is where a future's task stands.
type Status uint8

// The states of a future.
const (
	// Pending tasks have not ended, or their result was lost and is being computed again.
	Pending Status = iota
	// Finished tasks have a result on some worker.
	Finished
	// Failed tasks have an error.
	Failed
	// Canceled tasks will not be run.
	Canceled
	// Lost results were lost; the task is run again if it can be.
	Lost
)

var statusNames = [...]string{"pending", "finished", "error", "cancelled", "lost"}

// String is Dask's name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// ended tells whether nothing more is to come.
func (s Status) ended() bool { return s == Finished || s == Failed || s == Canceled }

// keyState is what the client knows about a key that some future of it holds. The client's
// mu owns all of it but key, which never changes.
type keyState struct {
	key     task.Key
	refs    int32
	where   int32 // index of a worker that has the result in Client.addresses, -1 if not known
	status  Status
	born    int64 // how many cancellations had been asked for when it was submitted
	retried int   // how often the scheduler has said that it is run again
	err     error
	why     string    // why no worker can run the task, see Shortage
	graph   *graphOut // what has to be sent again if the scheduler forgets it; nil once it ended
	waiters *waitNode
}

// handle is one future's hold on a key: released once, by the user or by the collector.
type handle struct {
	ks       *keyState
	released bool // the client's mu owns it
}

// waiter waits for many keys at once. The client's mu owns it, but for ch.
type waiter struct {
	left     int
	failFast bool      // the first failure ends the wait
	failed   *keyState // that failure
	collect  bool      // ended keys are listed in order, and each sends a token
	order    []int32
	closed   bool
	ch       chan struct{} // closed at the end; with collect, a token for news
}

type waitNode struct {
	w     *waiter
	index int32
	next  *waitNode
}

// tell notes that a key has ended.
func (w *waiter) tell(ks *keyState, index int32) {
	if w.closed {
		return
	}
	w.left--
	if w.collect {
		w.order = append(w.order, index)
		select {
		case w.ch <- struct{}{}:
		default:
		}
		return
	}
	if w.failFast && ks.status != Finished && w.failed == nil {
		w.failed = ks
		w.left = 0
	}
	if w.left <= 0 {
		w.closed = true
		close(w.ch)
	}
}

// wait registers a waiter on keys. The caller holds mu.
func (c *Client) wait(w *waiter, keys []*keyState) {
	w.left = len(keys)
	w.ch = make(chan struct{}, 1)
	pending := 0
	for _, ks := range keys {
		if !ks.status.ended() {
			pending++
		}
	}
	nodes := make([]waitNode, pending)
	for i, ks := range keys {
		if ks.status.ended() {
			w.tell(ks, int32(i))
			continue
		}
		pending--
		n := &nodes[pending]
		*n = waitNode{w: w, index: int32(i), next: ks.waiters}
		ks.waiters = n
	}
	if len(keys) == 0 && !w.collect {
		w.closed = true
		close(w.ch)
	}
}

// unwait takes a waiter off the keys that have not ended, so that waits which were given up
// do not pile up.
func (c *Client) unwait(w *waiter, keys []*keyState) {
	w.closed = true
	for _, ks := range keys {
		for p := &ks.waiters; *p != nil; {
			if (*p).w == w {
				*p = (*p).next
			} else {
				p = &(*p).next
			}
		}
	}
}

// settle ends a key and tells who waits. The caller holds mu.
func (c *Client) settle(ks *keyState, s Status, err error) {
	ks.status, ks.err = s, err
	if s.ended() {
		ks.why = ""
	}
	if s.ended() && ks.graph != nil {
		ks.graph.done(ks)
	}
	if !s.ended() {
		return
	}
	for n := ks.waiters; n != nil; n = n.next {
		n.w.tell(ks, n.index)
	}
	ks.waiters = nil
}

// hold finds or makes the state of a key and counts a future of it. The caller holds mu.
// fresh tells that the key was not held before.
func (c *Client) hold(key task.Key) (ks *keyState, fresh bool) {
	if ks = c.keys[key]; ks != nil {
		ks.refs++
		return ks, false
	}
	ks = &keyState{key: key, refs: 1, where: -1, born: c.cancels}
	c.keys[key] = ks
	return ks, true
}

// again makes a key that was cancelled one that waits, for a new submission. The caller
// holds mu.
func (c *Client) again(ks *keyState) {
	ks.status, ks.err, ks.where, ks.born = Pending, nil, -1, c.cancels
}

// release gives up a future's hold. The caller holds mu.
func (c *Client) release(h *handle) {
	if h.released {
		return
	}
	h.released = true
	ks := h.ks
	if ks.refs--; ks.refs > 0 {
		return
	}
	if c.keys[ks.key] == ks {
		delete(c.keys, ks.key)
	}
	if ks.graph != nil {
		ks.graph.done(ks)
	}
	if !ks.status.ended() {
		c.settle(ks, Canceled, &cancelledError{key: ks.key, cause: ErrReleased})
	}
	c.releasing = append(c.releasing, ks.key)
	c.poke()
}

// releaseAll is the end of many futures at once: the cleanup of a slab of them.
func (c *Client) releaseAll(hs []handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releasing = slices.Grow(c.releasing, len(hs))
	for i := range hs {
		if hs[i].ks != nil { // of a call that could not be encoded there is none
			c.release(&hs[i])
		}
	}
}
