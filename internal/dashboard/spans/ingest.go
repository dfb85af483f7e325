package spans

import "slices"

// add adds the spans of a batch.
func (s *Store) add(b *Batch) {
	now := s.cfg.Now().Add(futureMargin).UnixMicro() - s.origin
	if s.append(b, min(now, maxTime)) {
		s.seal()
	}
}

// append appends the spans of a batch to open columns, and reports whether some are full.
func (s *Store) append(b *Batch, limit int64) (full bool) {
	x := &s.index
	low, high := int64(maxTime), int64(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	keys := b.keys
	var dropped, skipped int64
	for i := range b.records {
		r := &b.records[i]
		key := keys[:r.keyLen]
		keys = keys[r.keyLen:]
		start, stop, ok := s.plausible(r, limit)
		var row uint32
		if ok {
			row, ok = s.names.rowOf(r)
		}
		if !ok {
			dropped++
			continue
		}
		if r.kind == waitRecord {
			if r.stop-r.start < leastWait {
				skipped++
				continue
			}
			start, _, _ = s.plausible(r, limit) // without the time in which the thread was busy
		}
		low, high = min(low, start), max(high, stop)
		c := x.columns(classOf(stop - start))
		c.add(r, row, start, stop, key)
		if c.len() >= s.cfg.blockSpans || len(c.keys) >= maxBlockKeys {
			x.sealing = append(x.sealing, c)
			x.open[c.class] = nil
			full = true
		}
	}
	s.dropped.Add(dropped)
	if high > low {
		x.extend(low, high, int64(len(b.records))-dropped-skipped)
		s.cache.invalidate(low, high)
		s.changed = true
	}
	return full
}

// leastWait is the time in ns from which the wait of a thread is kept.
const leastWait = 100_000

// plausible returns the times of a record in µs since the origin, and whether a worker with a tolerable clock can have
// reported them before limit.
func (s *Store) plausible(r *record, limit int64) (start, stop int64, ok bool) {
	if r.start < 0 || r.stop < r.start {
		return 0, 0, false
	}
	start, stop = r.start/1000-s.origin, r.stop/1000-s.origin
	if stop < 0 || stop <= s.index.horizon && s.index.horizon > 0 || stop >= limit {
		return 0, 0, false
	}
	start = max(start, 0)
	return start, max(stop, start+1), true
}

// extend notes times and number of new spans.
func (x *index) extend(low, high, count int64) {
	if x.count == 0 {
		x.first, x.last = low, high
	}
	x.first, x.last = min(x.first, low), max(x.last, high)
	x.count += count
}

// columns returns the open columns of a class.
func (x *index) columns(class int) *columns {
	c := x.open[class]
	if c == nil {
		c = x.spare
		if c == nil {
			c = new(columns)
		}
		x.spare = nil
		c.id, c.class = x.nextID, uint8(class)
		x.nextID++
		x.open[class] = c
	}
	return c
}

// seal makes blocks of full columns: encodes and stores them without a lock, then paints them. Only the goroutine of
// the store calls it.
func (s *Store) seal() {
	x := &s.index
	for len(x.sealing) > 0 {
		c := x.sealing[0].sorted(x.sealing[0].byRow(), &s.sorted)
		c.id, c.class = x.sealing[0].id, x.sealing[0].class
		o := c.sortedOutline()
		h, data := s.encoder.encode(c.id, c.class, c, o)
		b := &block{header: h, totals: c.totals()}
		err := s.store(b, data)
		s.mu.Lock()
		if err != nil {
			s.dropped.Add(int64(c.len()))
			x.count -= int64(c.len())
			s.cache.invalidate(c.minStart, c.maxStop)
		} else {
			x.blocks = append(x.blocks, b)
			x.stored += b.size()
			if s.isPainted() { // else repaint does it
				x.pyramid.paint(int(c.class), o, c.maxStop)
				x.pyramid.trim(s.cfg.MemoryLimit / 2)
			}
		}
		x.spare = x.sealing[0]
		x.spare.reset()
		x.sealing = slices.Delete(x.sealing, 0, 1)
		s.drop()
		if s.disk != nil {
			s.size = s.disk.size()
		}
		s.mu.Unlock()
	}
}

// store keeps the data of a block in memory or on disk.
func (s *Store) store(b *block, data []byte) error {
	if s.disk == nil {
		b.data = slices.Clone(data)
		return nil
	}
	err := s.disk.append(b, data, &s.names)
	if err != nil && s.err == nil {
		s.err = err
	}
	return err
}

// drop drops the oldest blocks if there are too many; s.mu is held.
func (s *Store) drop() {
	x := &s.index
	n := 0
	if s.disk != nil {
		n = s.disk.drop(x.blocks)
	} else {
		for left := x.stored; left > s.cfg.MemoryLimit/2 && n < len(x.blocks)-1; n++ {
			left -= x.blocks[n].size()
		}
	}
	if n == 0 {
		return
	}
	for _, b := range x.blocks[:n] {
		x.count -= int64(b.count)
		x.stored -= b.size()
		x.horizon = max(x.horizon, min(b.maxStop, x.last-1))
		s.outlines.forget(b)
	}
	x.blocks = slices.Clone(x.blocks[n:])
	x.painted = max(0, x.painted-n)
	x.first = max(x.first, x.horizon)
	x.pyramid.dropBefore(x.horizon)
	s.cache.invalidate(0, x.horizon+1)
	s.names.setHorizon(x.horizon)
}
