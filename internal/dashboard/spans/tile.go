package spans

import "encoding/binary"

// Bounds of tiles.
const (
	TileBuckets = 256
	MaxLevel    = 40
	maxGroup    = 20
)

// Tile returns the picture of a stretch of time. Level L has buckets of 2^L µs, a tile has 256 buckets, and a tile
// begins at index*256*2^L. Each 2^group consecutive rows of the range are one line. The picture has, for each line
// that is not empty: the difference of its number to that of the line before (of the first: its number) and the number
// of runs, both as uvarint, then runs of: length as uvarint, the category with the most time, and the share of the time
// of the bucket, of all rows of the line, in which there was any category: 0 to 255, at least 1 if there was. Times of
// spans that overlap in a row are added, up to the whole bucket. The lengths of a line add up to 256.
func (s *Store) Tile(level, index int64, rows Range, group int) []byte {
	n, _ := s.names.counts()
	rows.To = min(rows.To, uint32(n))
	group = min(max(group, 0), maxGroup)
	if level < 0 || level > MaxLevel || index < 0 || index >= maxTime>>(level+8) || rows.From >= rows.To {
		return nil
	}
	return s.cache.get(tileKey{level, index, rows, group}, s.paintTile)
}

// paintTile computes a tile.
func (s *Store) paintTile(k tileKey) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from, to := k.times()
	var sources []source
	s.index.each(from, to, func(c *columns) bool {
		sources = append(sources, source{outline: c.outline(c.byRow())})
		return true
	})
	return paint(k, sources)
}

// source is an outline with the position of the next row.
type source struct {
	*outline
	next int
}

// seek moves to a row, and reports whether the outline has it. Rows are asked for in ascending order.
func (s *source) seek(row uint32) bool {
	for s.next < len(s.rows) && s.rows[s.next] < row {
		s.next++
	}
	return s.next < len(s.rows) && s.rows[s.next] == row
}

// paint encodes the picture of the sources.
func paint(k tileKey, sources []source) []byte {
	p := newPainter(k)
	defer p.release()
	from := k.rows.From
	for line := 0; from < k.rows.To; line++ {
		to := uint32(min(uint64(from)+1<<k.group, uint64(k.rows.To)))
		for row := from; row < to; row++ {
			for i := range sources {
				if sources[i].seek(row) {
					p.addRow(sources[i].outline, sources[i].next)
				}
			}
		}
		p.endLine(line, int(to-from))
		from = to
	}
	return p.out
}

// painter adds up the time of one line after the other.
type painter struct {
	from, to int64
	level    uint
	sums     []float32 // of 256 buckets × 256 categories
	touched  []uint16  // indexes of sums that are not 0
	line     int       // that was encoded last
	out      []byte
}

var painters = newPool(func() *painter {
	return &painter{sums: make([]float32, TileBuckets<<8)}
})

func newPainter(k tileKey) *painter {
	p := painters.get()
	p.from, p.to = k.times()
	p.level = uint(k.level)
	p.line, p.out = 0, nil
	return p
}

func (p *painter) release() { painters.put(p) }

// add adds a time to a bucket.
func (p *painter) add(bucket, category uint8, amount float32) {
	i := uint16(bucket)<<8 | uint16(category)
	if p.sums[i] == 0 {
		p.touched = append(p.touched, i)
	}
	p.sums[i] += amount
}

// addRow adds the spans of a row of an outline.
func (p *painter) addRow(o *outline, k int) {
	i, end := o.spansOf(k)
	for ; i < end; i++ {
		start, stop := max(o.start[i], p.from), min(o.start[i]+o.length[i], p.to)
		if start < stop {
			p.addSpan(start-p.from, stop-p.from, o.category[i])
		}
	}
}

// addSpan adds a span with times since the begin of the tile.
func (p *painter) addSpan(start, stop int64, category uint8) {
	a, b := start>>p.level, (stop-1)>>p.level
	if a == b {
		p.add(uint8(a), category, float32(stop-start))
		return
	}
	p.add(uint8(a), category, float32((a+1)<<p.level-start))
	for i := a + 1; i < b; i++ {
		p.add(uint8(i), category, float32(int64(1)<<p.level))
	}
	p.add(uint8(b), category, float32(stop-b<<p.level))
}

// endLine encodes the line of a number of rows and clears the sums.
func (p *painter) endLine(line, rows int) {
	if len(p.touched) == 0 {
		return
	}
	var total, best [TileBuckets]float32
	var category [TileBuckets]uint8
	for _, i := range p.touched {
		bucket, c, v := uint8(i>>8), uint8(i), p.sums[i]
		p.sums[i] = 0
		total[bucket] += v
		if v > best[bucket] || v == best[bucket] && c < category[bucket] {
			best[bucket], category[bucket] = v, c
		}
	}
	p.touched = p.touched[:0]
	scale := 255 / (float32(int64(1)<<p.level) * float32(rows))
	var cells [TileBuckets]uint16
	runs := uint64(0)
	for i := range cells {
		if total[i] > 0 {
			cells[i] = uint16(category[i])<<8 | uint16(min(255, max(1, total[i]*scale+0.5)))
		}
		if i == 0 || cells[i] != cells[i-1] {
			runs++
		}
	}
	p.out = binary.AppendUvarint(p.out, uint64(line-p.line))
	p.out = binary.AppendUvarint(p.out, runs)
	p.line = line
	for i := 0; i < TileBuckets; {
		j := i + 1
		for j < TileBuckets && cells[j] == cells[i] {
			j++
		}
		p.out = binary.AppendUvarint(p.out, uint64(j-i))
		p.out = append(p.out, uint8(cells[i]>>8), uint8(cells[i]))
		i = j
	}
}
