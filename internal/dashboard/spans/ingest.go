package spans

import "math/bits"

// blockSpans is the number of spans of a full block.
const blockSpans = 1 << 14

// Spans are kept in blocks by class of their length: class k > 0 has lengths of [2^(13+2k), 2^(15+2k)) µs, class 0 all
// that are shorter. Thus a long span does not make a block of short ones overlap a long time.
const (
	firstLevel = 14 // of the pyramid: buckets of 16 ms
	classes    = 18
)

func classOf(length int64) int {
	return max(0, (bits.Len64(uint64(length))-firstLevel)/2)
}

// index has the spans of a history.
type index struct {
	open        [classes]*columns // that are being filled
	sealed      []*columns
	count       int64
	first, last int64
}

func (x *index) init() {}

// add adds the spans of a batch.
func (s *Store) add(b *Batch) {
	now := s.cfg.Now().Add(futureMargin).UnixMicro() - s.origin
	low, high := int64(maxTime), int64(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	keys := b.keys
	var dropped int64
	for i := range b.records {
		r := &b.records[i]
		key := keys[:r.keyLen]
		keys = keys[r.keyLen:]
		start, stop, ok := s.plausible(r, min(now, maxTime))
		if !ok {
			dropped++
			continue
		}
		row, ok := s.names.rowOf(r)
		if !ok {
			dropped++
			continue
		}
		low, high = min(low, start), max(high, stop)
		s.index.add(r, row, start, stop, key)
	}
	s.dropped.Add(dropped)
	if high > low {
		if s.index.count == 0 {
			s.index.first, s.index.last = low, high
		}
		s.index.first, s.index.last = min(s.index.first, low), max(s.index.last, high)
		s.index.count += int64(len(b.records)) - dropped
		s.cache.invalidate(low, high)
	}
}

// plausible returns the times of a record in µs since the origin, and whether a worker with a tolerable clock can have
// reported them before limit.
func (s *Store) plausible(r *record, limit int64) (start, stop int64, ok bool) {
	if r.start < 0 || r.stop < r.start {
		return 0, 0, false
	}
	start, stop = r.start/1000-s.origin, r.stop/1000-s.origin
	if stop < 0 || stop >= limit {
		return 0, 0, false
	}
	start = max(start, 0)
	return start, max(stop, start+1), true
}

func (x *index) add(r *record, row uint32, start, stop int64, key []byte) {
	k := classOf(stop - start)
	c := x.open[k]
	if c == nil {
		c = new(columns)
		x.open[k] = c
	}
	c.add(r, row, start, stop, key)
	if c.len() >= blockSpans {
		x.sealed = append(x.sealed, c)
		x.open[k] = nil
	}
}

// each calls f for all columns that overlap [from, to), until f returns false.
func (x *index) each(from, to int64, f func(*columns) bool) {
	for _, c := range x.sealed {
		if c.minStart < to && c.maxStop > from && !f(c) {
			return
		}
	}
	for _, c := range x.open {
		if c != nil && c.len() > 0 && c.minStart < to && c.maxStop > from && !f(c) {
			return
		}
	}
}
