package spans

import (
	"cmp"
	"slices"
)

// contains reports whether the range has a row.
func (r Range) contains(row uint32) bool { return row >= r.From && row < r.To }

// Spans returns the spans of a range of rows that overlap [from, to), in order of their start, row and stop. It returns
// those that start first if there are more than limit.
func (s *Store) Spans(from, to int64, rows Range, limit int) []Span {
	if limit <= 0 {
		return nil
	}
	s.mu.RLock()
	from = max(from, s.index.horizon)
	blocks := s.index.overlapping(from, to, -1)
	var found []Span
	s.names.mu.RLock()
	s.index.eachOpen(from, to, func(c *columns) {
		for i, start := range c.start {
			if start < to && start+c.length[i] > from && rows.contains(c.row[i]) {
				found = append(found, c.span(i, &s.names))
			}
		}
	})
	s.names.mu.RUnlock()
	s.mu.RUnlock()
	// Blocks that begin after the spans found so far cannot have earlier ones.
	slices.SortStableFunc(blocks, func(a, b *block) int { return cmp.Compare(a.minStart, b.minStart) })
	found = earliest(found, limit)
	for _, b := range blocks {
		if len(found) == limit && b.minStart > found[limit-1].Start {
			break
		}
		if b.maxRow < rows.From || b.minRow >= rows.To {
			continue
		}
		found = earliest(s.appendSpans(found, b, from, to, rows, limit), limit)
	}
	return found
}

// appendSpans appends the spans of a block that match; those that are later than limit others may be missing.
func (s *Store) appendSpans(list []Span, b *block, from, to int64, rows Range, limit int) []Span {
	o := s.outlines.get(b)
	if o == nil {
		return list
	}
	if len(list) == limit {
		to = min(to, list[limit-1].Start+1)
	}
	var c *columns
	for k, row := range o.rows {
		if !rows.contains(row) {
			continue
		}
		i, end := o.spansOf(k)
		for ; i < end; i++ {
			if o.start[i] >= to || o.start[i]+o.length[i] <= from {
				continue
			}
			if c == nil {
				var err error
				if c, err = b.columns(o); err != nil {
					return list
				}
				s.names.mu.RLock()
				defer s.names.mu.RUnlock()
			}
			list = append(list, c.span(i, &s.names))
		}
	}
	return list
}

// earliest sorts spans and returns the first ones.
func earliest(list []Span, limit int) []Span {
	slices.SortStableFunc(list, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Stop, b.Stop))
	})
	return list[:min(limit, len(list))]
}

// Each calls f for every span, in no order, until f returns an error, and returns that. Spans that are added meanwhile
// may be missing.
func (s *Store) Each(f func(Span) error) error {
	s.mu.RLock()
	horizon := s.index.horizon
	blocks := s.index.blocks
	var open []Span
	s.names.mu.RLock()
	s.index.eachOpen(horizon, maxTime, func(c *columns) {
		for i := range c.row {
			open = append(open, c.span(i, &s.names))
		}
	})
	s.names.mu.RUnlock()
	s.mu.RUnlock()
	call := func(list []Span) error {
		for _, sp := range list {
			if sp.Stop > horizon {
				if err := f(sp); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var list []Span
	for _, b := range blocks {
		list = s.appendSpans(list[:0], b, horizon, maxTime, AllRows, -1)
		if err := call(list); err != nil {
			return err
		}
	}
	return call(open)
}

// Summary adds up a part of a history.
type Summary struct {
	Categories [256]Total // by category
	Transports map[string]Total
}

// Total adds up spans.
type Total struct {
	Count   int64
	Seconds float64 // within the times asked for
	Bytes   int64
}

func (t *Total) add(sum total) {
	t.Count += sum.count
	t.Seconds += float64(sum.time) / 1e6
	t.Bytes = addSizes(t.Bytes, sum.bytes)
}

// Summary returns totals of the spans of a range of rows that overlap [from, to).
func (s *Store) Summary(from, to int64, rows Range) Summary {
	sum := Summary{Transports: make(map[string]Total)}
	transports := make(map[uint32]total)
	s.mu.RLock()
	from = max(from, s.index.horizon)
	blocks := s.index.overlapping(from, to, -1)
	s.index.eachOpen(from, to, func(c *columns) { sum.add(c, from, to, rows, transports) })
	s.mu.RUnlock()
	for _, b := range blocks {
		if b.maxRow < rows.From || b.minRow >= rows.To {
			continue
		}
		if b.minStart >= from && b.maxStop <= to && b.minRow >= rows.From && b.maxRow < rows.To {
			sum.addTotals(b.totals, transports)
			continue
		}
		o := s.outlines.get(b)
		if o == nil {
			continue
		}
		if c, err := b.columns(o); err == nil {
			sum.add(c, from, to, rows, transports)
		}
	}
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	for id, t := range transports {
		name := s.names.transportName(id)
		all := sum.Transports[name]
		all.add(t)
		sum.Transports[name] = all
	}
	return sum
}

// add adds the spans of columns.
func (sum *Summary) add(c *columns, from, to int64, rows Range, transports map[uint32]total) {
	for i, start := range c.start {
		us := min(start+c.length[i], to) - max(start, from)
		if us <= 0 || !rows.contains(c.row[i]) {
			continue
		}
		sum.Categories[c.category[i]].add(total{count: 1, time: us, bytes: c.bytes[i]})
		if c.isTransfer(i) {
			t := transports[c.transport[i]]
			t.add(us, c.bytes[i])
			transports[c.transport[i]] = t
		}
	}
}

// addTotals adds a whole block.
func (sum *Summary) addTotals(t totals, transports map[uint32]total) {
	for _, one := range t.categories {
		sum.Categories[one.id].add(one)
	}
	for _, one := range t.transports {
		all := transports[one.id]
		all.count, all.time, all.bytes = all.count+one.count, all.time+one.time, addSizes(all.bytes, one.bytes)
		transports[one.id] = all
	}
}
