package tracker

import "context"

// waiter waits for many keys at once. The tracker's mutex guards all fields except ch.
type waiter struct {
	left     int
	failFast bool   // the first failure ends the wait
	failed   *State // the first failure
	collect  bool   // ended keys are listed in order, and each sends a token
	order    []int32
	closed   bool
	ch       chan struct{} // closed at the end; with collect, a token for news
}

type waitNode struct {
	w     *waiter
	index int32
	next  *waitNode
}

// notify records that a key has ended.
func (w *waiter) notify(s *State, index int32) {
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
	if w.failFast && s.status != Finished && w.failed == nil {
		w.failed = s
		w.left = 0
	}
	if w.left <= 0 {
		w.closed = true
		close(w.ch)
	}
}

// register adds a waiter to keys. The caller holds mu.
func (w *waiter) register(keys []*State) {
	w.left = len(keys)
	w.ch = make(chan struct{}, 1)
	pending := 0
	for _, s := range keys {
		if !s.status.Ended() {
			pending++
		}
	}
	nodes := make([]waitNode, pending)
	for i, s := range keys {
		if s.status.Ended() {
			w.notify(s, int32(i))
			continue
		}
		pending--
		n := &nodes[pending]
		*n = waitNode{w: w, index: int32(i), next: s.waiters}
		s.waiters = n
	}
	if len(keys) == 0 && !w.collect {
		w.closed = true
		close(w.ch)
	}
}

// unregister removes a waiter from the keys that have not ended, so that abandoned waits do not accumulate. The caller
// holds mu.
func (w *waiter) unregister(keys []*State) {
	w.closed = true
	for _, s := range keys {
		for p := &s.waiters; *p != nil; {
			if (*p).w == w {
				*p = (*p).next
			} else {
				p = &(*p).next
			}
		}
	}
}

// Wait waits until all keys have ended, or ctx has. With failFast it returns the error of the first key without a
// result.
func (t *Tracker) Wait(ctx context.Context, keys []*State, failFast bool) error {
	w := &waiter{failFast: failFast}
	t.mu.Lock()
	w.register(keys)
	t.mu.Unlock()
	select {
	case <-w.ch:
		t.mu.Lock()
		defer t.mu.Unlock()
		if w.failed != nil {
			return w.failed.err
		}
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		w.unregister(keys)
		t.mu.Unlock()
		return ctx.Err()
	}
}

// Watch lists keys in the order in which they end.
type Watch struct {
	t    *Tracker
	w    waiter
	keys []*State
}

// Watch starts to watch keys. The caller must call Stop.
func (t *Tracker) Watch(keys []*State) *Watch {
	w := &Watch{t: t, w: waiter{collect: true}, keys: keys}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.w.register(keys)
	return w
}

// News returns a channel that has a token when a key has ended.
func (w *Watch) News() <-chan struct{} { return w.w.ch }

// Ended returns the indices of the keys that have ended, in that order, without the first seen ones.
func (w *Watch) Ended(seen int) []int32 {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	return w.w.order[seen:]
}

// Count returns the number of keys in Ended, and how many of them failed or were canceled.
func (w *Watch) Count(seen int) (n, failed, canceled int) {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	for _, i := range w.w.order[seen:] {
		n++
		switch w.keys[i].status {
		case Failed:
			failed++
		case Canceled:
			canceled++
		}
	}
	return n, failed, canceled
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.w.unregister(w.keys)
}
