package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// No lock is held during a call of the upstream resource or of an Event: both may be driver calls. The pool's counters
// are changed first, then the call is made and its result recorded.

// errMisaligned is returned for a slab whose alignment leaves too little of it.
var errMisaligned = errors.New("upstream alignment is less than that of the pool")

// reserve adds a slab of n bytes to the counters, if MaxBytes allows it.
func (p *Pool) reserve(n int) bool {
	if m := p.cfg.MaxBytes; m > 0 && p.stats.Reserved+int64(n) > m {
		return false
	}
	p.stats.Reserved += int64(n)
	p.growing++
	return true
}

// planGrow decides how large a slab to request, and which empty slabs to return first to stay within MaxBytes. On
// success it has added the new slab to the counters.
func (p *Pool) planGrow(size int) (want int, drop []*slab, ok bool) {
	want = max(p.cfg.SlabBytes, size)
	if p.cfg.Double {
		more := p.stats.Reserved
		if m := p.cfg.MaxBytes; m > 0 {
			more = (m - p.stats.Reserved) / 2
		}
		want = max(want, int(min(more, maxAlloc))&^(p.cfg.Align-1))
	}
	if m := p.cfg.MaxBytes; m > 0 {
		if room := m - p.stats.Reserved; int64(want) > room {
			want = max(size, int(min(room, int64(want))))
			if int64(want) > room {
				// Several empty slabs that are each too small may make room together.
				if p.emptyBytes()+room < int64(want) {
					return 0, nil, false
				}
				drop, _ = p.dropEmpty(func(freed int64) bool { return freed+room < int64(want) })
			}
		}
	}
	return want, drop, p.reserve(want)
}

// empty reports whether the slab is unused, also by devices: memory that is free in the order of a stream may still be
// in use.
func (s *slab) empty() bool {
	return s.head.free && s.head.next == nil && s.head.home == &s.pool.common
}

func (p *Pool) emptyBytes() (n int64) {
	for _, s := range p.slabs {
		if s.empty() {
			n += int64(s.buf.n)
		}
	}
	return n
}

// dropEmpty removes empty slabs from the pool while more returns true. The caller releases them after unlocking.
func (p *Pool) dropEmpty(more func(freed int64) bool) (drop []*slab, n int64) {
	p.slabs = slices.DeleteFunc(p.slabs, func(s *slab) bool {
		if !s.empty() || !more(n) {
			return false
		}
		p.common.free.remove(s.head)
		p.common.bytes -= int64(s.head.size)
		n += int64(s.buf.n)
		drop = append(drop, s)
		return true
	})
	p.stats.Reserved -= n
	return drop, n
}

// growOrLess adds a slab of want bytes, already reserved, with room for need. If upstream is nearly full it tries half
// as much, down to need; if the slab is misaligned it tries a little more.
func (p *Pool) growOrLess(ctx context.Context, want, need int) error {
	for aligned := false; ; {
		err := p.grow(ctx, want, need)
		switch {
		case errors.Is(err, errMisaligned) && !aligned:
			aligned = true
			want += p.cfg.Align
		case errors.Is(err, ErrOutOfMemory) && want > need && !aligned:
			want = max(want/2&^(p.cfg.Align-1), need)
		default:
			return err
		}
		p.mu.Lock()
		ok := p.reserve(want)
		p.mu.Unlock()
		if !ok {
			return err
		}
	}
}

// grow adds a slab of n bytes, which is already reserved, with room for need.
func (p *Pool) grow(ctx context.Context, n, need int) error {
	buf, err := p.upstream.Alloc(ctx, n)
	var unused *Buffer
	defer func() { // runs after the unlock: releasing may be a driver call
		if unused != nil {
			unused.Release()
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.growing--
	defer p.kick()
	if err != nil {
		p.stats.Reserved -= int64(n)
		return fmt.Errorf("mem: pool: slab of %d bytes: %w", n, err)
	}
	// Align addresses, not offsets: upstream's own alignment may be smaller.
	skip := int(-buf.Addr() & uintptr(p.cfg.Align-1))
	size := (n - skip) &^ (p.cfg.Align - 1)
	if size < need {
		p.stats.Reserved -= int64(n)
		unused = buf
		return fmt.Errorf("%w: pool: slab of %d bytes at %#x for alignment %d: %w", ErrOutOfMemory, n, buf.Addr(),
			p.cfg.Align, errMisaligned)
	}
	s := &slab{pool: p, buf: buf}
	s.head = &chunk{slab: s, off: buf.off + skip, size: size, home: &p.common}
	p.slabs = append(p.slabs, s)
	p.free(s.head)
	p.serve()
	return nil
}

// serve gives free memory to waiters, in order of arrival.
func (p *Pool) serve() {
	p.waiters = slices.DeleteFunc(p.waiters, func(w *waiter) bool {
		c := p.find(w.size, w.home)
		if c == nil {
			return false
		}
		w.ch <- c
		return true
	})
}

// kick makes every waiter check the state of the pool again.
func (p *Pool) kick() {
	for _, w := range p.waiters {
		w.ch <- nil
	}
	p.waiters = nil
}

// waitLocked waits for a chunk; nil without an error means: try again. It is called with the lock held and returns
// without it.
func (p *Pool) waitLocked(ctx context.Context, size int, home *arena) (*chunk, error) {
	w := &waiter{size: size, home: home, ch: make(chan *chunk, 1)}
	p.waiters = append(p.waiters, w)
	poll := len(p.quaran)+p.checking > 0
	p.mu.Unlock()

	var tick <-chan time.Time
	if poll { // the device does not notify about completion
		t := time.NewTimer(100 * time.Microsecond)
		defer t.Stop()
		tick = t.C
	}
	select {
	case c := <-w.ch:
		return c, nil
	case <-tick:
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiters, w)
	if i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		if c := <-w.ch; c != nil { // served at the same time
			return c, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mem: pool: waiting for %d bytes: %w", size, err)
	}
	return nil, nil
}

// stillPending returns the events that have not completed. An event that reports an error counts as completed: its
// context is broken, and no work runs in it.
func stillPending(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if done, err := e.Query(); !done && err == nil {
			out = append(out, e)
		}
	}
	return out
}

// sweepLocked returns quarantined memory whose events have completed to the free lists. It unlocks while it queries the
// device.
func (p *Pool) sweepLocked() {
	work := p.quaran
	p.quaran = nil
	p.checking += len(work)
	p.mu.Unlock()
	for i := range work {
		work[i].events = stillPending(work[i].events)
	}
	p.mu.Lock()
	p.checking -= len(work)
	for _, q := range work {
		if len(q.events) > 0 {
			p.quaran = append(p.quaran, q)
			continue
		}
		p.stats.Quarantined -= int64(q.c.size)
		p.free(q.c)
	}
	p.serve()
}
