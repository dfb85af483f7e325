package spans

import "slices"

// totals adds up the spans of a block, so that a summary of a long time need not read it.
type totals struct {
	categories []total // in ascending order
	transports []total
}

// total adds up the spans of a category or a transport.
type total struct {
	id                 uint32
	count, time, bytes int64 // time in µs
}

// totals returns the totals of the columns.
func (c *columns) totals() totals {
	var categories [256]total
	var t totals
	for i, category := range c.category {
		categories[category].add(c.length[i], c.bytes[i])
		if c.isTransfer(i) {
			j, ok := slices.BinarySearchFunc(t.transports, c.transport[i], compareTotal)
			if !ok {
				t.transports = slices.Insert(t.transports, j, total{id: c.transport[i]})
			}
			t.transports[j].add(c.length[i], c.bytes[i])
		}
	}
	for i, sum := range categories {
		if sum.count > 0 {
			sum.id = uint32(i)
			t.categories = append(t.categories, sum)
		}
	}
	return t
}

func compareTotal(t total, id uint32) int { return int(t.id) - int(id) }

func (t *total) add(time, bytes int64) {
	t.count++
	t.time += time
	t.bytes = addSizes(t.bytes, bytes)
}

// addSizes adds sizes, which workers choose, without overflow.
func addSizes(a, b int64) int64 {
	if a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}

func (t *totals) encode(e *encoder) {
	for _, list := range [][]total{t.categories, t.transports} {
		e.uvarint(uint64(len(list)))
		for _, sum := range list {
			e.uvarint(uint64(sum.id))
			e.uvarint(uint64(sum.count))
			e.uvarint(uint64(sum.time))
			e.uvarint(uint64(sum.bytes))
		}
	}
}

func decodeTotals(p []byte) (totals, error) {
	d := &decoder{in: p}
	var t totals
	for i, list := range []*[]total{&t.categories, &t.transports} {
		limit := uint64([]int{int(Others), maxTransports}[i])
		for range d.uvarint(limit + 1) {
			*list = append(*list, total{uint32(d.uvarint(limit)), int64(d.uvarint(maxSpans)),
				int64(d.uvarint(1<<63 - 1)), int64(d.uvarint(1<<63 - 1))})
			if d.err != nil {
				break
			}
		}
	}
	if d.err != nil || len(d.in) > 0 {
		return totals{}, errCorrupt
	}
	return t, nil
}
