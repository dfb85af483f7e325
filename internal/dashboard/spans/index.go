package spans

import (
	"container/list"
	"sync"
)

// index has the spans of a history.
type index struct {
	open    [classes]*columns // that are being filled
	sealing []*columns        // full, on the way to a block
	spare   *columns          // empty; only the goroutine of the store uses it
	// blocks is in order of sealing. A reader may keep the slice: elements do not change.
	blocks      []*block
	painted     int // of an opened history: blocks that repaint has taken
	pyramid     pyramid
	count       int64
	first, last int64
	horizon     int64 // what ended before was dropped
	nextID      uint64
	stored      int64 // bytes of blocks
}

// overlapping returns the blocks that overlap [from, to) and are of a class above painted. Store.mu is held.
func (x *index) overlapping(from, to int64, painted int) []*block {
	var list []*block
	for _, b := range x.blocks {
		if int(b.class) > painted && b.minStart < to && b.maxStop > from {
			list = append(list, b)
		}
	}
	return list
}

// eachOpen calls f for columns that are not in blocks and overlap [from, to).
func (x *index) eachOpen(from, to int64, f func(*columns)) {
	for _, c := range x.sealing {
		if c.minStart < to && c.maxStop > from {
			f(c)
		}
	}
	for _, c := range x.open {
		if c != nil && c.len() > 0 && c.minStart < to && c.maxStop > from {
			f(c)
		}
	}
}

// outlineCache keeps the outlines of blocks that were read last.
type outlineCache struct {
	mu    sync.Mutex
	limit int // spans
	spans int
	known map[*block]*list.Element
	order list.List // of cached, that used last first
}

type cached struct {
	block   *block
	outline *outline
}

// outlineSize is the memory of a span in an outline.
const outlineSize = 17

func (c *outlineCache) init(bytes int64) {
	c.limit = int(bytes / outlineSize)
	c.known = make(map[*block]*list.Element)
}

// get returns the outline of a block; nil if it cannot be read, because it is damaged or was dropped.
func (c *outlineCache) get(b *block) *outline {
	c.mu.Lock()
	if e, ok := c.known[b]; ok {
		c.order.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(cached).outline
	}
	c.mu.Unlock()
	o, err := b.outline()
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[b]; !ok {
		c.known[b] = c.order.PushFront(cached{b, o})
		c.spans += b.count
	}
	for c.spans > c.limit && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
	return o
}

func (c *outlineCache) remove(e *list.Element) {
	old := c.order.Remove(e).(cached)
	delete(c.known, old.block)
	c.spans -= old.block.count
}

// forget drops a block that is no longer kept.
func (c *outlineCache) forget(b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.known[b]; ok {
		c.remove(e)
	}
}
