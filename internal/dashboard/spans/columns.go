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
}

func (c *columns) len() int { return len(c.row) }

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
	if r.kind == transferRecord {
		count, peer, transport = max(0, r.thread), r.peer+1, r.transport
	}
	c.count = append(c.count, count)
	c.peer = append(c.peer, peer)
	c.transport = append(c.transport, transport)
	c.keys = append(c.keys, key...)
	c.keyEnd = append(c.keyEnd, uint32(len(c.keys)))
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
		if row := c.row[j]; i == 0 || row != o.rows[len(o.rows)-1] {
			o.rows = append(o.rows, row)
			o.ends = append(o.ends, 0)
		}
		o.ends[len(o.ends)-1] = uint32(i + 1)
	}
	return o
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
	if c.peer[i] > 0 || c.category[i] == Transfer && c.count[i] > 0 {
		sp.Peer = n.address(c.peer[i] - 1)
		sp.Transport = n.transportName(c.transport[i])
	}
	return sp
}
