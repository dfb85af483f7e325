package spans

import (
	"encoding/binary"
	"math/bits"
)

// painter adds up the time of one line after the other and encodes it.
type painter struct {
	k       tileKey
	from    int64
	to      int64
	horizon int64
	hidden  int // buckets before the horizon
	level   uint
	scale   float32 // from the time of a row in a bucket to its share in 1/255

	sums    *[TileBuckets << 8]float32 // by bucket and category
	touched [TileBuckets][4]uint64     // categories of each bucket that have a sum
	buckets [4]uint64                  // buckets that have a sum

	// Of the line: all time of each bucket, and the category with the most.
	total, best [TileBuckets]float32
	category    [TileBuckets]uint8

	first, last int    // lines that are not empty
	out         []byte // without the number of the first line
}

var painters = newPool(func() *painter {
	return &painter{sums: new([TileBuckets << 8]float32)}
})

func newPainter(k tileKey, horizon int64) *painter {
	p := painters.get()
	p.k = k
	p.from, p.to = k.times()
	p.horizon = horizon
	p.level = uint(k.level)
	p.hidden = int(max(0, horizon-p.from) >> p.level)
	p.scale = 255 / float32(int64(1)<<p.level)
	p.out = p.out[:0]
	return p
}

func (p *painter) release() { painters.put(p) }

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

// paint encodes lines.
func (p *painter) paint(from, to int, strip *strip, outlines []*outline) {
	sources := make([]source, len(outlines))
	for i, o := range outlines {
		sources[i].outline = o
	}
	for line := from; line < to; line++ {
		first := uint64(p.k.rows.From) + uint64(line)<<p.k.group
		last := min(first+1<<p.k.group, uint64(p.k.rows.To))
		painted := false
		for row := uint32(first); row < uint32(last); row++ {
			for i := range sources {
				if sources[i].seek(row) {
					p.addRow(sources[i].outline, sources[i].next)
				}
			}
			if p.k.group == 0 && p.empty() {
				painted = strip.paintRow(p, row)
			} else {
				strip.addRow(p, row)
			}
		}
		if !p.empty() {
			p.sumUp()
			painted = true
		}
		if painted {
			p.endLine(line, int(last-first))
		}
	}
}

// add adds a time to a bucket.
func (p *painter) add(bucket, category uint8, amount float32) {
	p.sums[uint16(bucket)<<8|uint16(category)] += amount
	p.touched[bucket][category>>6] |= 1 << (category & 63)
	p.buckets[bucket>>6] |= 1 << (bucket & 63)
}

// empty reports whether the line has no sum.
func (p *painter) empty() bool { return p.buckets == [4]uint64{} }

// addRow adds the spans of a row of an outline.
func (p *painter) addRow(o *outline, k int) {
	i, end := o.spansOf(k)
	low := max(p.from, p.horizon)
	for ; i < end; i++ {
		start, stop := max(o.start[i], low), min(o.start[i]+o.length[i], p.to)
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

// sumUp sums up each bucket and clears the sums.
func (p *painter) sumUp() {
	for w := range p.buckets {
		for set := p.buckets[w]; set != 0; set &= set - 1 {
			p.sumBucket(uint8(w<<6 + bits.TrailingZeros64(set)))
		}
	}
	p.buckets = [4]uint64{}
}

func (p *painter) sumBucket(bucket uint8) {
	touched := &p.touched[bucket]
	for w, set := range touched {
		for ; set != 0; set &= set - 1 {
			c := uint8(w<<6 + bits.TrailingZeros64(set))
			v := &p.sums[uint16(bucket)<<8|uint16(c)]
			p.total[bucket] += *v
			p.elect(bucket, c, *v)
			*v = 0
		}
	}
	*touched = [4]uint64{}
}

// elect makes a category that of its bucket if it has the most time; None, the rest of compact lines, only if there is
// no other.
func (p *painter) elect(bucket, category uint8, time float32) {
	if category == None {
		time = 0
	}
	if b := p.best[bucket]; time > b || time == b && (category < p.category[bucket] || p.category[bucket] == None) {
		p.best[bucket], p.category[bucket] = time, category
	}
}

// endLine encodes the line of a number of rows and clears it.
func (p *painter) endLine(line, rows int) {
	scale := p.scale / float32(rows)
	for i := range p.hidden {
		p.total[i] = 0
	}
	var cells [TileBuckets]uint16
	runs, filled := uint64(1), uint16(0)
	for i, total := range p.total {
		if total > 0 {
			cells[i] = uint16(p.category[i])<<8 | uint16(min(255, max(1, total*scale+0.5)))
		}
		filled |= cells[i]
		if i > 0 && cells[i] != cells[i-1] {
			runs++
		}
	}
	clear(p.total[:])
	clear(p.best[:])
	clear(p.category[:])
	if filled == 0 {
		return
	}
	if len(p.out) == 0 {
		p.first = line
	} else {
		p.out = binary.AppendUvarint(p.out, uint64(line-p.last))
	}
	p.last = line
	p.out = binary.AppendUvarint(p.out, runs)
	for i := 0; i < TileBuckets; {
		j := i + 1
		for j < TileBuckets && cells[j] == cells[i] {
			j++
		}
		if n := j - i; n < 128 {
			p.out = append(p.out, uint8(n), uint8(cells[i]>>8), uint8(cells[i]))
		} else {
			p.out = append(binary.AppendUvarint(p.out, uint64(n)), uint8(cells[i]>>8), uint8(cells[i]))
		}
		i = j
	}
}
