package mem

import (
	"fmt"
	"slices"
)

// Free memory of a pool is kept in arenas. The common arena has memory that any caller may use immediately. Each stream
// that memory was allocated on has an arena too, with the memory released in its order: later work of the stream may
// use that memory although the device is not done with it, since the device runs it in the same order. This needs no
// event, so the common case costs no driver call. Only when another stream needs the memory, its owner is marked, and
// the other stream waits for the mark on the device. This is RMM's stream-ordered pool, except for the time of marking.
//
// A chunk changes arenas in these ways, cheapest first:
//
//	find         own arena, then the common one     no driver call
//	borrow       one chunk of another stream        mark, wait on the device
//	merge        all of other streams, to join them mark, wait on the device
//	reclaimIdle  streams that are done → common     mark, query
//	evacuate     all streams → quarantine → common  mark, wait on the host
type arena struct {
	stream Stream // nil: the common arena
	free   freeList
	bytes  int64 // in free
	out    int   // allocated chunks that return here
	// mark is an event that completes after all uses of free, or nil if memory was released since.
	mark   Event
	freed  int   // counts releases
	closed bool  // the stream is closed
	last   Event // the end of the work of a closed stream
	// stranded reports that the stream could not be marked, so that it is unknown when its work is done. The memory is
	// returned to upstream with the pool.
	stranded bool
}

// arenaOf returns the arena of a stream, and false if it was just created. The caller holds the lock.
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

// fromStreams finds memory that is free in the order of other streams. It is called with the lock held and releases it
// while it calls the device.
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

// others returns the streams whose memory home could use.
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

// markOf returns an event that completes after all uses of memory that was free in an arena at the time of the call. It
// is called with the lock held and releases it to record an event if there is none.
func (p *Pool) markOf(a *arena) (Event, error) {
	if a.mark != nil {
		return a.mark, nil
	}
	before := a.freed
	p.mu.Unlock()
	e, err := a.stream.Mark()
	p.mu.Lock()
	if a.last != nil { // the stream has been closed
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

// follow makes later work of one stream wait for work enqueued on another. It is called with the lock held and releases
// it.
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
			p.attach(list, a)
			continue
		}
		home.invalidateMark()
		p.attach(list, home)
		if c := p.absorb(size, home); c != nil {
			return c
		}
	}
	return nil
}

// absorb joins the common memory with that of home, if home has any: otherwise there is nothing to join, and a failed
// attempt would be repeated forever.
func (p *Pool) absorb(size int, home *arena) *chunk {
	if home.bytes > 0 && p.common.bytes > 0 {
		home.invalidateMark()
		p.attach(p.detach(&p.common), home)
	}
	return p.find(size, home)
}

// detach removes all free chunks from an arena. Until attach or quarantine has them other callers can see that there is
// memory to wait for.
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

// invalidateMark records that the arena has memory that its mark does not cover.
func (a *arena) invalidateMark() {
	a.mark = nil
	a.freed++
}

// attach adds detached chunks to an arena.
func (p *Pool) attach(list []*chunk, home *arena) {
	p.checking -= len(list)
	for _, c := range list {
		if home.last != nil { // the stream has been closed: its arena is no longer searched
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

// untake returns a chunk that was taken from an arena but cannot be used.
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
			c.home.invalidateMark()
			p.untake(c, c.home)
			return nil, fmt.Errorf("mem: pool: stream cannot wait for the last user of %d bytes: %w", c.size, err)
		}
	}
	c.after = nil
	return c, nil
}

// reclaimIdle moves the memory of idle streams to the common arena. It is called with the lock held and releases it
// while it queries them.
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
			p.attach(list, a)
			continue
		}
		for _, c := range list {
			c.after = nil
		}
		p.attach(list, &p.common)
	}
}

// evacuate moves the memory of all streams into quarantine, from where it becomes common when they are done with it,
// and reports whether there was any. It is called with the lock held and releases it while it marks them.
func (p *Pool) evacuate() (moved bool) {
	for _, a := range p.others(nil) {
		list := p.detach(a)
		mark, err := p.markOf(a)
		if err != nil {
			p.attach(list, a)
			continue
		}
		p.checking -= len(list)
		for _, c := range list {
			p.quarantine(c, append(slices.Clone(c.after), mark))
		}
		moved = moved || len(list) > 0
	}
	if moved {
		p.kick() // waiters for a release have to poll now
	}
	return moved
}

// streamsBusy reports whether streams have memory that they may still use. Stranded memory is not counted: freeing it
// upstream waits for the device.
func (p *Pool) streamsBusy() bool { return len(p.others(nil)) > 0 }

// putInOrder returns an allocation of a stream: later work of the stream may use it immediately.
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
	p.uncount(c)
	if a.closed && a.last != nil {
		p.quarantine(c, append(events, a.last))
		p.forget(a)
	} else {
		c.after = events
		a.invalidateMark()
		p.free(c)
		p.serve()
	}
	p.kick() // waiters on other streams may take it
}

// streamClosed runs when a stream is closed: memory in its order becomes free for any use once its work is done.
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

// forget removes the arena of a closed stream when it is empty.
func (p *Pool) forget(a *arena) {
	if a.closed && a.bytes == 0 && a.out == 0 {
		p.streams = slices.DeleteFunc(p.streams, func(x *arena) bool { return x == a })
	}
}
