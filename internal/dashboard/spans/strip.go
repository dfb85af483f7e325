package spans

// strip is the chunks of a tile at one level of the pyramid.
type strip struct {
	shift  uint
	chunks []stripChunk
	class  int // spans of this class and below are in the strip
}

type stripChunk struct {
	*chunk
	first int64 // bucket
}

// strip returns the chunks for a tile, of which nothing before horizon matters. class is -1 if there are none: the tile
// is painted from blocks only.
func (p *pyramid) strip(k tileKey, horizon int64) strip {
	j := min(int(k.level-firstLevel)/levelStep, len(p.levels)-1)
	if k.level < firstLevel || j < 0 {
		return strip{class: -1}
	}
	l := p.levels[j]
	from, to := k.times()
	first, last := max(from, horizon)>>(l.shift+8), (to-1)>>(l.shift+8)
	if first < l.floor {
		return strip{class: -1}
	}
	s := strip{shift: l.shift, class: j}
	if last-first <= 4*manyChunks {
		for index := first; index <= last; index++ {
			if c := l.chunks[index]; c != nil {
				s.chunks = append(s.chunks, stripChunk{c, index << 8})
			}
		}
		return s
	}
	for index, c := range l.chunks {
		if index >= first && index <= last {
			s.chunks = append(s.chunks, stripChunk{c, index << 8})
		}
	}
	return s
}

// lineOf returns the line of a row, nil if there is none.
func (c *stripChunk) lineOf(row uint32) *line {
	i := int(row / pageRows)
	if i >= len(c.pages) || c.pages[i] == nil {
		return nil
	}
	return &c.pages[i][row%pageRows]
}

// addRow adds the times of a row to those that the painter has.
func (s *strip) addRow(p *painter, row uint32) {
	down := p.level - s.shift
	first := p.from >> s.shift
	unit := float32(int64(1)<<s.shift) / 65535
	for i := range s.chunks {
		ln := s.chunks[i].lineOf(row)
		if ln == nil {
			continue
		}
		base := s.chunks[i].first - first
		for _, e := range ln.cold {
			bucket := (base + int64(e>>24)) >> down
			p.add(uint8(bucket), uint8(e>>16), float32(e&0xffff)*unit)
		}
		for _, e := range ln.hot {
			bucket := (base + int64(e.at>>8)) >> down
			p.add(uint8(bucket), uint8(e.at), e.time)
		}
	}
}

// paintRow does the same for a painter that has no other times of the line, faster, and reports whether there are any.
func (s *strip) paintRow(p *painter, row uint32) bool {
	down := p.level - s.shift
	if down > 0 {
		s.addRow(p, row)
		return false // the painter sums up
	}
	for i := range s.chunks { // one at most: a tile of this level
		ln := s.chunks[i].lineOf(row)
		if ln == nil || len(ln.cold)+len(ln.hot) == 0 {
			continue
		}
		unit := float32(int64(1)<<s.shift) / 65535
		for _, e := range ln.cold {
			bucket, v := uint8(e>>24), float32(e&0xffff)*unit
			p.total[bucket] += v
			p.elect(bucket, uint8(e>>16), v)
		}
		for _, e := range ln.hot {
			bucket := uint8(e.at >> 8)
			p.total[bucket] += e.time
			p.elect(bucket, uint8(e.at), e.time)
		}
		return true
	}
	return false
}
