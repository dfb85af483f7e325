package mem

import (
	"fmt"
	"slices"
)

// Free memory of a pool stands in arenas. The common one has what any caller may use at once.
// Each stream that memory was allocated on has one too, with what was released in its order:
// its own later work may use that memory although the device is not done with it, since the
// device gets to it in the same order. Nothing is recorded for that, so the common case costs
// no driver call. Only when another stream needs the memory, its owner is marked, and the other
// made to wait for the mark on the device. This is RMM's stream-ordered pool, but for the
// moment of marking.
//
// A chunk changes hands in these ways, cheapest first:
//
//	find         own arena, then the common one     no driver call
//	borrow       one chunk of another stream        mark, wait on the device
//	merge        all of other streams, to join them mark, wait on the device
//	reclaimIdle  streams that are done → common     mark, query
//	evacuate     all streams → quarantine → common  mark, wait on the host
type arena struct {
	stream Stream // nil: the common one
	free   freeList
	bytes  int64 // in free
	out    int   // chunks handed out that return here
	// mark is an event behind which all of free is, or nil if something was released since.
	mark   Event
	freed  int   // counts releases
	closed bool  // the stream is
	last   Event // then: the end of its work
	// stranded memory is that of a stream that could not be marked: it is not known when it is
	// done. It goes back to upstream with the pool.
	stranded bool
}

// arenaOf returns the arena of a stream, and false if it was made for that. The caller holds
// the lock.
func (p *Pool) arenaOf(s Stream) (a *arena, known bool) {
	if s == nil {
		return &p.common, true
	}
	for _, a := range p.streams {
		if a.stream == s {
			return a, true
		}
	}
	a = &arena{stream: s}
	p.streams = append(p.streams, a)
	return a, false
}

// fromStreams finds memory that is free in the order of other streams. It is called with the
// lock held, which it gives up while it talks to the device.
func (p *Pool) fromStreams(size int, home *arena) *chunk {
	if home == &p.common {
		p.reclaimIdle()
		return p.find(size, home)
	}
	if c := p.borrow(size, home); c != nil {
		return c
	}
	return p.merge(size, home)
}

// others are the streams whose memory home could have.
func (p *Pool) others(home *arena) []*arena {
	return slices.DeleteFunc(slices.Clone(p.streams), func(a *arena) bool {
		return a == home || a.stranded || a.bytes == 0
	})
}

func (p *Pool) borrow(size int, home *arena) *chunk {
	for _, a := range p.others(home) {
		c := p.take(size, a, home)
		if c == nil {
			continue
		}
		err := p.follow(home, a)
		if err == nil {
			return c
		}
		p.untake(c, a)
	}
	return nil
}

// markOf returns an event behind which all is that was free in an arena when it was called. It
// is called with the lock held, which it gives up to record one if there is none.
func (p *Pool) markOf(a *arena) (Event, error) {
	if a.mark != nil {
		return a.mark, nil
	}
	before := a.freed
	p.mu.Unlock()
	e, err := a.stream.Mark()
	p.mu.Lock()
	if a.last != nil { // it was closed meanwhile, or before
		return a.last, nil
	}
	if err != nil {
		a.stranded = true
		return nil, err
	}
	if a.freed == before {
		a.mark = e
	}
	return e, nil
}

// follow makes later work of one stream wait for what is enqueued on another. It is called with
// the lock held, which it gives up.
func (p *Pool) follow(a, before *arena) error {
	e, err := p.markOf(before)
	if err != nil {
		return err
	}
	p.mu.Unlock()
	err = a.stream.WaitEvent(e)
	p.mu.Lock()
	return err
}

// merge joins the free memory of others with that of home until a chunk is large enough.
func (p *Pool) merge(size int, home *arena) *chunk {
	total := home.bytes + p.common.bytes
	others := p.others(home)
	for _, a := range others {
		total += a.bytes
	}
	if total < int64(size) {
		return nil
	}
	if c := p.absorb(size, home); c != nil {
		return c
	}
	for _, a := range others {
		list := p.detach(a)
		if err := p.follow(home, a); err != nil {
			p.settle(list, a)
			continue
		}
		home.released()
		p.settle(list, home)
		if c := p.absorb(size, home); c != nil {
			return c
		}
	}
	return nil
}

// absorb joins the common memory with that of home, if home has any: else there is nothing to
// join, and what was tried in vain would be tried again for ever.
func (p *Pool) absorb(size int, home *arena) *chunk {
	if home.bytes > 0 && p.common.bytes > 0 {
		home.released()
		p.settle(p.detach(&p.common), home)
	}
	return p.find(size, home)
}

// detach takes all free chunks out of an arena. Until settle or quarantine has them others
// know that there is something to wait for.
func (p *Pool) detach(a *arena) (list []*chunk) {
	for t := range a.free.list {
		for s := range a.free.list[t] {
			for c := a.free.list[t][s]; c != nil; c = a.free.list[t][s] {
				a.free.remove(c)
				list = append(list, c)
			}
		}
	}
	a.bytes = 0
	p.checking += len(list)
	return list
}

// released notes that the arena has memory that its mark does not cover.
func (a *arena) released() {
	a.mark = nil
	a.freed++
}

// settle enters detached chunks into an arena.
func (p *Pool) settle(list []*chunk, home *arena) {
	p.checking -= len(list)
	for _, c := range list {
		if home.last != nil { // the stream was closed meanwhile: it is no longer looked at
			p.quarantine(c, append(slices.Clone(c.after), home.last))
			continue
		}
		c.home = home
		p.free(c)
	}
	if home.last != nil {
		p.kick()
	}
	p.serve()
}

// untake gives a chunk back that was taken out of an arena but cannot be used.
func (p *Pool) untake(c *chunk, from *arena) {
	c.home.out--
	p.stats.InUse -= int64(c.size)
	p.stats.Outstanding--
	p.stats.Allocs--
	c.home, c.view = from, nil
	p.free(c)
	p.kick()
}

// inOrder makes the stream that has taken c wait for the other users of its memory.
func (p *Pool) inOrder(c *chunk, s Stream) (*chunk, error) {
	if len(c.after) == 0 {
		return c, nil
	}
	c.after = stillPending(c.after)
	for i, e := range c.after {
		if err := s.WaitEvent(e); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			c.after = c.after[i:]
			c.home.released()
			p.untake(c, c.home)
			return nil, fmt.Errorf("mem: pool: the stream cannot wait for the last user of %d bytes: %w", c.size, err)
		}
	}
	c.after = nil
	return c, nil
}

// reclaimIdle makes the memory of streams that have nothing to do common. It is called with the
// lock held, which it gives up while it asks them.
func (p *Pool) reclaimIdle() {
	for _, a := range p.others(nil) {
		list := p.detach(a)
		mark, err := p.markOf(a)
		p.mu.Unlock()
		idle := err == nil && len(stillPending([]Event{mark})) == 0
		for i := 0; idle && i < len(list); i++ {
			idle = len(stillPending(list[i].after)) == 0
		}
		p.mu.Lock()
		if !idle {
			p.settle(list, a)
			continue
		}
		for _, c := range list {
			c.after = nil
		}
		p.settle(list, &p.common)
	}
}

// evacuate puts the memory of all streams into quarantine, from where it becomes common when
// they are done with it, and reports whether there was any. It is called with the lock held,
// which it gives up while it marks them.
func (p *Pool) evacuate() (moved bool) {
	for _, a := range p.others(nil) {
		list := p.detach(a)
		mark, err := p.markOf(a)
		if err != nil {
			p.settle(list, a)
			continue
		}
		p.checking -= len(list)
		for _, c := range list {
			p.quarantine(c, append(slices.Clone(c.after), mark))
		}
		moved = moved || len(list) > 0
	}
	if moved {
		p.kick() // who waited for a release has to poll now
	}
	return moved
}

// streamsBusy reports whether streams have memory that they may still work on. Stranded memory
// never ends: freeing it upstream waits for the device.
func (p *Pool) streamsBusy() bool { return len(p.others(nil)) > 0 }

// putInOrder takes back an allocation of a stream: its later work may have it at once.
func (p *Pool) putInOrder(c *chunk, uses []Event) {
	a := c.home
	var events []Event
	for _, e := range uses {
		if !recordedOn(e, a.stream) {
			events = append(events, stillPending([]Event{e})...)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back(c)
	if a.closed && a.last != nil {
		p.quarantine(c, append(events, a.last))
		p.forget(a)
	} else {
		c.after = events
		a.released()
		p.free(c)
		p.serve()
	}
	p.kick() // those of other streams may take it over
}

// streamClosed runs when a stream ends: the memory in its order becomes free for any use once its
// work is done.
func (p *Pool) streamClosed(s Stream) {
	mark, err := s.Mark()
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.streams, func(a *arena) bool { return a.stream == s })
	if i < 0 {
		return
	}
	a := p.streams[i]
	a.closed = true
	if err != nil {
		a.stranded = true
		return
	}
	a.last = mark
	list := p.detach(a)
	p.checking -= len(list)
	for _, c := range list {
		p.quarantine(c, append(slices.Clone(c.after), mark))
	}
	p.forget(a)
	p.kick()
}

// forget drops the arena of a closed stream when nothing is left of it.
func (p *Pool) forget(a *arena) {
	if a.closed && a.bytes == 0 && a.out == 0 {
		p.streams = slices.DeleteFunc(p.streams, func(x *arena) bool { return x == a })
	}
}
