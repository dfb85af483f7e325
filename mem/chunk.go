package mem

import (
	"math/bits"
	"slices"
)

// The pool uses a two-level segregated fit: free chunks are listed by size class (eight classes per power of two) with
// bitmaps over the lists, so that allocating, freeing and coalescing take constant time however fragmented the pool is.
// All of it is in Go memory: a slab may be device memory, in which the CPU cannot store headers.

const (
	subBits  = 3 // 1<<subBits size classes per power of two
	subCount = 1 << subBits
	topCount = 64
)

// slab is one allocation of the upstream resource.
type slab struct {
	pool *Pool
	buf  *Buffer
	head *chunk // the chunk at the lowest address
}

// chunk is a range of a slab, free or allocated. Neighbors in address order are linked for coalescing, free chunks of
// one size class for finding.
type chunk struct {
	slab      *slab
	off, size int // off from the start of the slab's Region
	free      bool
	// home is the arena of a free chunk, and to which an allocated chunk returns. Only neighbors of one home are
	// joined.
	home *arena
	// after are events that work on the memory must wait for, in addition to the order of home's stream. They belong to
	// the goroutine that has taken the chunk.
	after    []Event
	view     *pooled // for the next owner, set when it is taken
	prev     *chunk
	next     *chunk
	prevFree *chunk
	nextFree *chunk
}

// chunks are unused chunk structs, linked by nextFree: splitting and joining produces no garbage.
type chunks struct{ first *chunk }

func (s *chunks) get() *chunk {
	c := s.first
	if c == nil {
		return new(chunk)
	}
	s.first, c.nextFree = c.nextFree, nil
	return c
}

func (s *chunks) put(c *chunk) {
	*c = chunk{nextFree: s.first}
	s.first = c
}

// freeList is the index of free chunks. The zero value is empty.
type freeList struct {
	top  uint64
	sub  [topCount]uint8
	list [topCount][subCount]*chunk
}

// class returns the list for chunks of the given size (rounded down).
func class(size int) (top, sub int) {
	top = bits.Len(uint(size)) - 1
	if top < subBits {
		return 0, size & (subCount - 1)
	}
	return top, size >> (top - subBits) & (subCount - 1)
}

func (f *freeList) insert(c *chunk) {
	t, s := class(c.size)
	c.free = true
	c.prevFree, c.nextFree = nil, f.list[t][s]
	if c.nextFree != nil {
		c.nextFree.prevFree = c
	}
	f.list[t][s] = c
	f.top |= 1 << t
	f.sub[t] |= 1 << s
}

func (f *freeList) remove(c *chunk) {
	t, s := class(c.size)
	if c.prevFree != nil {
		c.prevFree.nextFree = c.nextFree
	} else {
		f.list[t][s] = c.nextFree
	}
	if c.nextFree != nil {
		c.nextFree.prevFree = c.prevFree
	}
	if f.list[t][s] == nil {
		if f.sub[t] &^= 1 << s; f.sub[t] == 0 {
			f.top &^= 1 << t
		}
	}
	c.free, c.prevFree, c.nextFree = false, nil, nil
}

// find returns a free chunk of at least size bytes, or nil. It searches first the class above size, where every chunk
// fits, and then the class of size itself, so that a request that can be served never fails.
func (f *freeList) find(size int) *chunk {
	t, s := class(size)
	if m := f.sub[t] >> (s + 1) << (s + 1); m != 0 {
		return f.list[t][bits.TrailingZeros8(m)]
	}
	if m := f.top >> (t + 1) << (t + 1); m != 0 {
		t2 := bits.TrailingZeros64(m)
		return f.list[t2][bits.TrailingZeros8(f.sub[t2])]
	}
	for c := f.list[t][s]; c != nil; c = c.nextFree {
		if c.size >= size {
			return c
		}
	}
	return nil
}

// take cuts size bytes out of a free chunk, or returns nil.
func (f *freeList) take(size int, spare *chunks) *chunk {
	c := f.find(size)
	if c == nil {
		return nil
	}
	f.remove(c)
	if c.size > size {
		rest := spare.get()
		rest.slab, rest.home, rest.after = c.slab, c.home, c.after
		rest.off, rest.size, rest.prev, rest.next = c.off+size, c.size-size, c, c.next
		if rest.next != nil {
			rest.next.prev = rest
		}
		c.next, c.size = rest, size
		f.insert(rest)
	}
	return c
}

// give returns a chunk to its home, whose list is f, and joins it with free neighbors there.
func (f *freeList) give(c *chunk, spare *chunks) {
	if n := c.next; n != nil && n.free && n.home == c.home {
		f.remove(n)
		c.size += n.size
		c.also(n.after)
		if c.next = n.next; c.next != nil {
			c.next.prev = c
		}
		spare.put(n)
	}
	if p := c.prev; p != nil && p.free && p.home == c.home {
		f.remove(p)
		p.size += c.size
		p.also(c.after)
		if p.next = c.next; p.next != nil {
			p.next.prev = p
		}
		spare.put(c)
		c = p
	}
	f.insert(c)
}

// also adds events to wait for. Pieces of one chunk share their list, so it is copied.
func (c *chunk) also(events []Event) {
	if len(events) > 0 {
		c.after = slices.Concat(c.after, events)
	}
}

// largest returns the size of the largest free chunk.
func (f *freeList) largest() int {
	if f.top == 0 {
		return 0
	}
	t := bits.Len64(f.top) - 1
	best := 0
	for c := f.list[t][bits.Len8(f.sub[t])-1]; c != nil; c = c.nextFree {
		best = max(best, c.size)
	}
	return best
}
