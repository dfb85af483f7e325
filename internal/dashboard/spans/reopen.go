package spans

import (
	"runtime"
	"slices"
)

// openDisk opens the folder of the history and reads what it has.
func (s *Store) openDisk() error {
	d, err := openDisk(s.cfg.Dir, s.cfg.Limit)
	if err != nil {
		return err
	}
	s.disk = d
	if err := s.load(); err != nil {
		d.close()
		return err
	}
	s.size = d.size()
	return nil
}

// load reads a history, or starts a new one.
func (s *Store) load() error {
	exists, err := s.loadNames()
	if err != nil {
		return err
	}
	s.names.logged = true
	if !exists {
		s.newHistory()
		s.names.note(originName, int64(namesVersion), s.origin, s.floor)
		return s.disk.saveNames(&s.names)
	}
	blocks, err := s.disk.readBlocks()
	if err != nil {
		return err
	}
	if n := len(s.disk.segments); n > 0 {
		last := s.disk.segments[n-1]
		if err := last.file.Truncate(last.size); err != nil { // what a crash left of a block
			return err
		}
	}
	sealed := make(map[uint64]bool, len(blocks))
	for _, b := range blocks {
		sealed[b.id] = true
		s.index.nextID = max(s.index.nextID, b.id+1)
	}
	s.paintBlocks(blocks)
	if err := s.loadState(sealed); err != nil {
		return err
	}
	s.index.first = max(s.index.first, s.index.horizon)
	s.drop() // the limit may be lower than before
	return nil
}

// paintBlocks adds blocks to the index and the pyramid. Blocks that are damaged are counted as dropped.
func (s *Store) paintBlocks(blocks []*block) {
	type result struct {
		outline *outline
		err     error
	}
	x := &s.index
	results := make([]chan result, len(blocks))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	workers := runtime.GOMAXPROCS(0)
	// Outlines wait to be painted, in order, but not too many.
	room := make(chan struct{}, 4*workers)
	next := make(chan int)
	for range workers {
		go func() {
			for i := range next {
				o, err := blocks[i].readOutline()
				results[i] <- result{o, err}
			}
		}()
	}
	go func() {
		defer close(next)
		for i := range blocks {
			room <- struct{}{}
			next <- i
		}
	}()
	for i, b := range blocks {
		r := <-results[i]
		<-room
		if r.err != nil || int(b.maxRow) >= len(s.names.rows) {
			s.dropped.Add(int64(b.count))
			blocks[i] = nil
			continue
		}
		x.extend(b.minStart, b.maxStop, int64(b.count))
		x.stored += b.size()
		x.pyramid.paint(int(b.class), r.outline, b.maxStop)
		x.pyramid.trim(s.cfg.MemoryLimit / 2)
	}
	x.blocks = slices.DeleteFunc(blocks, func(b *block) bool { return b == nil })
	x.pyramid.dropBefore(x.horizon)
}

// readOutline reads the totals of the block, which it keeps, and the outline.
func (b *block) readOutline() (*outline, error) {
	from, _ := b.section(totalsSection)
	_, to := b.section(outlineSection)
	p := make([]byte, to-from)
	if _, err := b.segment.file.ReadAt(p, b.offset+from); err != nil {
		return nil, err
	}
	first, second := p[:b.sizes[totalsSection]], p[b.sizes[totalsSection]:]
	if !b.check(totalsSection, first) || !b.check(outlineSection, second) {
		return nil, errCorrupt
	}
	var err error
	if b.totals, err = decodeTotals(first); err != nil {
		return nil, err
	}
	return b.decodeOutline(second)
}

// save writes the state if it has changed.
func (s *Store) save() error {
	s.mu.Lock()
	changed := s.changed
	s.changed = false
	s.mu.Unlock()
	err := s.disk.saveNames(&s.names)
	if err == nil && changed {
		err = s.disk.writeState(s.encodeState())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = s.changed || err != nil
	s.size = s.disk.size()
	return err
}
