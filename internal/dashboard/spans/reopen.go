package spans

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
	s.addBlocks(blocks)
	if err := s.loadState(sealed); err != nil {
		return err
	}
	s.index.first = max(s.index.first, s.index.horizon)
	s.drop() // the limit may be lower than before
	return nil
}

// addBlocks adds the blocks of a history that was opened to the index; the goroutine of Store.repaint paints them.
// Blocks that are damaged are counted as dropped, at once if their totals are, else when they are painted.
func (s *Store) addBlocks(blocks []*block) {
	x := &s.index
	for _, b := range blocks {
		if int(b.maxRow) >= len(s.names.rows) || b.readTotals() != nil {
			s.dropped.Add(int64(b.count))
			continue
		}
		x.blocks = append(x.blocks, b)
		x.extend(b.minStart, b.maxStop, int64(b.count))
		x.stored += b.size()
	}
}

// readTotals reads the totals of the block, which it keeps.
func (b *block) readTotals() error {
	p, err := b.read(totalsSection)
	if err == nil {
		b.totals, err = decodeTotals(p)
	}
	return err
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
