package mem

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// attachment is one cached value of a region. val and err are written before done is closed and, for a value, before ok
// is set: readers load ok, since receiving from a closed channel takes the channel's lock.
type attachment struct {
	key  any
	ok   atomic.Bool
	done chan struct{}
	val  any
	err  error
}

func (r *Region) find(key any) *attachment {
	if list := r.attached.Load(); list != nil {
		for _, a := range *list {
			if a.key == key {
				return a
			}
		}
	}
	return nil
}

// Attach returns the value cached under key and creates it on first use. A transport uses it to register a region once
// and to find the registration again in a few nanoseconds. create runs once per key however many goroutines call
// Attach, and no lock is held while it runs; the other callers wait for it. An error is returned to all waiting callers
// and is not cached. key must be comparable (a pointer is best). The caller holds a reference to the region. create
// must not call Attach with the same key.
//
// The value is dropped, not closed, when the region is freed; use OnFree for that.
func (r *Region) Attach(key any, create func() (any, error)) (any, error) {
	a := r.find(key)
	if a != nil && a.ok.Load() {
		return a.val, nil
	}
	if a == nil {
		var mine bool
		if a, mine = r.claim(key); mine {
			r.fill(a, create)
		}
	}
	<-a.done
	return a.val, a.err
}

// claim returns the attachment, or adds an empty one which the caller must fill.
func (r *Region) claim(key any) (a *attachment, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.find(key); a != nil {
		return a, false
	}
	a = &attachment{key: key, done: make(chan struct{})}
	if r.freed {
		a.err = fmt.Errorf("%w: attach to a freed %v", ErrReleased, r)
		close(a.done)
		return a, false
	}
	var list []*attachment
	if old := r.attached.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, a)
	r.attached.Store(&list)
	return a, true
}

func (r *Region) fill(a *attachment, mk func() (any, error)) {
	finished := false
	defer func() {
		if !finished { // create panicked: release the waiters while the panic propagates
			a.err = errors.New("mem: create function of Attach panicked")
		}
		if a.err != nil {
			r.remove(func(x *attachment) bool { return x == a })
		}
		close(a.done)
	}()
	a.val, a.err = mk()
	finished = true
	a.ok.Store(a.err == nil)
}

// Attached returns the value cached under key, if it exists and is complete.
func (r *Region) Attached(key any) (any, bool) {
	a := r.find(key)
	if a == nil || !a.ok.Load() {
		return nil, false
	}
	return a.val, true
}

// Detach removes the value cached under key, so that a later Attach creates it again. It does nothing if there is none.
func (r *Region) Detach(key any) {
	r.remove(func(x *attachment) bool { return x.key == key })
}

func (r *Region) remove(match func(*attachment) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.attached.Load()
	if old == nil || !slices.ContainsFunc(*old, match) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), match)
	r.attached.Store(&list)
}
