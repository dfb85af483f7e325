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
	if limit <= 0 || from >= to {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []place
	s.index.each(from, to, func(c *columns) bool {
		for i, start := range c.start {
			if start < to && start+c.length[i] > from && rows.contains(c.row[i]) {
				found = append(found, place{c, i})
			}
		}
		if len(found) > 4*limit+blockSpans {
			found = earliest(found, limit)
		}
		return true
	})
	found = earliest(found, limit)
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	list := make([]Span, len(found))
	for i, p := range found {
		list[i] = p.columns.span(p.i, &s.names)
	}
	return list
}

// place is where a span is.
type place struct {
	columns *columns
	i       int
}

// earliest sorts places and returns the first ones.
func earliest(list []place, limit int) []place {
	slices.SortStableFunc(list, func(a, b place) int {
		x, y := a.columns, b.columns
		return cmp.Or(cmp.Compare(x.start[a.i], y.start[b.i]), cmp.Compare(x.row[a.i], y.row[b.i]),
			cmp.Compare(x.length[a.i], y.length[b.i]))
	})
	return list[:min(limit, len(list))]
}

// Each calls f for every span, in no order, until f returns an error, and returns that. Spans that are added meanwhile
// may be missing.
func (s *Store) Each(f func(Span) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	var err error
	s.index.each(0, maxTime, func(c *columns) bool {
		for i := range c.row {
			if err = f(c.span(i, &s.names)); err != nil {
				return false
			}
		}
		return true
	})
	return err
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

func (t *Total) add(us, bytes int64) {
	t.Count++
	t.Seconds += float64(us) / 1e6
	t.Bytes += bytes
}

// Summary returns totals of the spans of a range of rows that overlap [from, to).
func (s *Store) Summary(from, to int64, rows Range) Summary {
	sum := Summary{Transports: make(map[string]Total)}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	s.index.each(from, to, func(c *columns) bool {
		for i, start := range c.start {
			us := min(start+c.length[i], to) - max(start, from)
			if us <= 0 || !rows.contains(c.row[i]) {
				continue
			}
			sum.Categories[c.category[i]].add(us, c.bytes[i])
			if c.peer[i] > 0 {
				name := s.names.transportName(c.transport[i])
				t := sum.Transports[name]
				t.add(us, c.bytes[i])
				sum.Transports[name] = t
			}
		}
		return true
	})
	return sum
}
