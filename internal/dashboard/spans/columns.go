package spans

import "slices"

// columns holds spans, one slice per field; all have the same length.
type columns struct {
	row       []uint32
	start     []int64 // µs since the origin
	length    []int64 // µs, at least 1
	category  []uint8
	flags     []uint8
	bytes     []int64
	count     []int64  // keys of a transfer
	peer      []uint32 // worker of the other side of a transfer plus 1, 0 if there is none
	transport []uint32
	keyEnd    []uint32 // end of the key in keys; it begins at the end of the one before
	keys      []byte

	minStart, maxStop int64

	id    uint64 // of the block that they become
	class uint8
}

func (c *columns) len() int { return len(c.row) }

// isTransfer reports whether span i has a peer and a transport.
func (c *columns) isTransfer(i int) bool { return c.peer[i] > 0 || c.count[i] > 0 }

// key returns the key of span i. It is valid until the columns change.
func (c *columns) key(i int) []byte {
	if i == 0 {
		return c.keys[:c.keyEnd[0]]
	}
	return c.keys[c.keyEnd[i-1]:c.keyEnd[i]]
}

// add appends a record with its row, times in µs and key.
func (c *columns) add(r *record, row uint32, start, stop int64, key []byte) {
	if len(c.row) == 0 {
		c.minStart, c.maxStop = start, stop
	}
	c.minStart, c.maxStop = min(c.minStart, start), max(c.maxStop, stop)
	c.row = append(c.row, row)
	c.start = append(c.start, start)
	c.length = append(c.length, stop-start)
	c.category = append(c.category, r.category)
	c.flags = append(c.flags, r.flags)
	c.bytes = append(c.bytes, max(0, r.bytes))
	var count int64
	var peer, transport uint32
	if r.kind == transferRecord || r.kind == placedRecord {
		count, transport = max(0, r.thread), min(r.transport, maxTransports)
		if r.peer < maxWorkers {
			peer = r.peer + 1
		}
	}
	c.count = append(c.count, count)
	c.peer = append(c.peer, peer)
	c.transport = append(c.transport, transport)
	c.keys = append(c.keys, key...)
	c.keyEnd = append(c.keyEnd, uint32(len(c.keys)))
}

// reset empties the columns and keeps their memory.
func (c *columns) reset() {
	c.row, c.start, c.length, c.category = c.row[:0], c.start[:0], c.length[:0], c.category[:0]
	c.flags, c.bytes, c.count, c.peer = c.flags[:0], c.bytes[:0], c.count[:0], c.peer[:0]
	c.transport, c.keyEnd, c.keys = c.transport[:0], c.keyEnd[:0], c.keys[:0]
}

// byRow returns the order of the spans by row; spans of a row stay in their order.
func (c *columns) byRow() []uint32 {
	if len(c.row) == 0 {
		return nil
	}
	order := make([]uint32, len(c.row))
	low, high := slices.Min(c.row), slices.Max(c.row)
	if int(high-low) > 8*len(c.row)+1024 {
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortStableFunc(order, func(a, b uint32) int { return int(c.row[a]) - int(c.row[b]) })
		return order
	}
	next := make([]uint32, high-low+2)
	for _, r := range c.row {
		next[r-low+1]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	for i, r := range c.row {
		order[next[r-low]] = uint32(i)
		next[r-low]++
	}
	return order
}

// outline is what painting needs of the spans of a block, sorted by row.
type outline struct {
	rows     []uint32 // in ascending order, each once
	ends     []uint32 // index after the last span of each row
	start    []int64
	length   []int64
	category []uint8
}

// outline returns the outline of the columns in an order by row.
func (c *columns) outline(order []uint32) *outline {
	o := &outline{
		start:    make([]int64, len(order)),
		length:   make([]int64, len(order)),
		category: make([]uint8, len(order)),
	}
	for i, j := range order {
		o.start[i], o.length[i], o.category[i] = c.start[j], c.length[j], c.category[j]
		o.addRow(i, c.row[j])
	}
	return o
}

// sortedOutline returns the outline of columns that are sorted by row. It shares their memory.
func (c *columns) sortedOutline() *outline {
	o := &outline{start: c.start, length: c.length, category: c.category}
	for i, row := range c.row {
		o.addRow(i, row)
	}
	return o
}

// addRow notes the row of span i.
func (o *outline) addRow(i int, row uint32) {
	if n := len(o.rows); n == 0 || row != o.rows[n-1] {
		o.rows = append(o.rows, row)
		o.ends = append(o.ends, 0)
	}
	o.ends[len(o.ends)-1] = uint32(i + 1)
}

// sorted returns the columns in an order, in the memory of dst.
func (c *columns) sorted(order []uint32, dst *columns) *columns {
	permute(&dst.row, c.row, order)
	permute(&dst.start, c.start, order)
	permute(&dst.length, c.length, order)
	permute(&dst.category, c.category, order)
	permute(&dst.flags, c.flags, order)
	permute(&dst.bytes, c.bytes, order)
	permute(&dst.count, c.count, order)
	permute(&dst.peer, c.peer, order)
	permute(&dst.transport, c.transport, order)
	dst.keys = slices.Grow(dst.keys[:0], len(c.keys))
	dst.keyEnd = dst.keyEnd[:0]
	for _, j := range order {
		dst.keys = append(dst.keys, c.key(int(j))...)
		dst.keyEnd = append(dst.keyEnd, uint32(len(dst.keys)))
	}
	dst.minStart, dst.maxStop = c.minStart, c.maxStop
	return dst
}

func permute[T any](dst *[]T, src []T, order []uint32) {
	*dst = slices.Grow((*dst)[:0], len(order))[:len(order)]
	for i, j := range order {
		(*dst)[i] = src[j]
	}
}

// spansOf returns the indexes of the spans of row k of the outline.
func (o *outline) spansOf(k int) (from, to int) {
	if k > 0 {
		from = int(o.ends[k-1])
	}
	return from, int(o.ends[k])
}

// span returns span i with texts for its ids; names.mu is held.
func (c *columns) span(i int, n *names) Span {
	sp := Span{
		Row: c.row[i], Category: c.category[i], Flags: c.flags[i], Start: c.start[i], Stop: c.start[i] + c.length[i],
		Key: string(c.key(i)), Bytes: c.bytes[i], Keys: c.count[i],
	}
	if c.isTransfer(i) {
		sp.Peer = n.address(c.peer[i] - 1)
		sp.Transport = n.transportName(c.transport[i])
	}
	return sp
}
