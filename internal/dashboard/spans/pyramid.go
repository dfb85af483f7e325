package spans

import (
	"cmp"
	"math/bits"
	"slices"
)

// The pyramid has the time of each row by bucket and category at the levels 14, 16, 18, …, so that a tile of these
// levels costs as much as its picture. Class k of the spans is painted at level 14+2k and above: at the levels below a
// tile overlaps at most a few hundred of its spans per row, which are read from their blocks.
const (
	firstLevel = 14 // buckets of 16 ms
	levelStep  = 2
	maxLevels  = (48-firstLevel)/levelStep + 1
	classes    = maxLevels
	// manyChunks is the number of tiles at which a level gets one above it.
	manyChunks = 2
	// coldAfter is the number of blocks after which a chunk that did not change is compacted.
	coldAfter = 16
)

// classOf returns the class of spans with a length: class k > 0 has [2^(13+2k), 2^(15+2k)) µs, class 0 what is shorter.
func classOf(length int64) int {
	return max(0, (bits.Len64(uint64(length))-firstLevel)/levelStep)
}

// pyramid is the levels, finest first.
type pyramid struct {
	levels []*level
	size   int64 // bytes
	round  int64 // blocks that were painted
	latest int64 // end of the last span
	cells  []cellTime
	// If parts is not 0, only every so many pages of rows are painted, from page part on.
	part, parts uint32
}

// level is the chunks of one level by index of the tile.
type level struct {
	shift  uint
	chunks map[int64]*chunk
	floor  int64 // chunks below were evicted: tiles are painted from blocks
}

// chunk is the 256 buckets of a tile. Rows are in pages, so that few rows of many cost little.
type chunk struct {
	pages []*page
	used  int64 // round in which it was painted
	hot   bool
}

const pageRows = 32

type page [pageRows]line

// line is the buckets of a row that are not empty: compact, and exact for the last buckets while they are being filled.
type line struct {
	hot  []entry
	cold []coldEntry
	late bool // got spans after it was compacted: all categories are kept from then on, or some would be lost
}

// entry is the time of a category in a bucket, ordered by both.
type entry struct {
	at   uint16 // bucket<<8 | category
	time float32
}

// coldEntry is at<<16 | share of the bucket in 1/65535, at least 1.
type coldEntry uint32

const (
	entrySize = 8
	coldSize  = 4
	pageSize  = pageRows * 56
	chunkSize = 128
)

// cellTime is the time of a category in a bucket of a level.
type cellTime struct {
	at   int64 // bucket since the origin<<8 | category
	time float32
}

// bucket returns the bucket since the origin.
func (c cellTime) bucket() int64 { return c.at >> 8 }

// paint adds the spans of a block of a class; latest is the end of the last one.
func (p *pyramid) paint(class int, o *outline, latest int64) {
	p.round++
	for len(p.levels) <= class {
		p.grow()
	}
	shift := p.levels[class].shift
	p.latest = max(p.latest, latest)
	for k, row := range o.rows {
		if p.parts > 1 && row/pageRows%p.parts != p.part {
			continue
		}
		from, to := o.spansOf(k)
		cells := p.cells[:0]
		for i := from; i < to; i++ {
			cells = appendCells(cells, o.start[i], o.start[i]+o.length[i], o.category[i], shift)
		}
		for _, l := range p.levels[class:] {
			cells = coalesce(cells)
			p.merge(l, row, cells)
			for i := range cells {
				cells[i].at = cells[i].at>>(8+levelStep)<<8 | cells[i].at&0xff
			}
		}
		p.cells = cells
	}
	for len(p.levels[len(p.levels)-1].chunks) > manyChunks && len(p.levels) < maxLevels {
		p.grow()
	}
	if p.round%coldAfter == 0 {
		p.freeze()
	}
}

// appendCells appends the buckets of a span.
func appendCells(cells []cellTime, start, stop int64, category uint8, shift uint) []cellTime {
	for start < stop {
		bucket := start >> shift
		end := min(stop, (bucket+1)<<shift)
		cells = append(cells, cellTime{bucket<<8 | int64(category), float32(end - start)})
		start = end
	}
	return cells
}

// coalesce sorts cells and adds up equal ones.
func coalesce(cells []cellTime) []cellTime {
	n := 0
	for i := range cells {
		switch c := cells[i]; {
		case n == 0 || c.at > cells[n-1].at:
			cells[n] = c
			n++
		case c.at == cells[n-1].at:
			cells[n-1].time += c.time
		default:
			return sortCells(cells[:n+copy(cells[n:], cells[i:])], n)
		}
	}
	return cells[:n]
}

// sortCells does the same for cells that are nearly in order, of which the first n are.
func sortCells(cells []cellTime, n int) []cellTime {
	if len(cells) > 64 {
		slices.SortStableFunc(cells, func(a, b cellTime) int { return cmp.Compare(a.at, b.at) })
		n = 0
		for _, c := range cells {
			if n > 0 && cells[n-1].at == c.at {
				cells[n-1].time += c.time
				continue
			}
			cells[n] = c
			n++
		}
		return cells[:n]
	}
	for _, c := range cells[n:] {
		j := n
		for j > 0 && cells[j-1].at > c.at {
			j--
		}
		if j > 0 && cells[j-1].at == c.at {
			cells[j-1].time += c.time
			continue
		}
		copy(cells[j+1:n+1], cells[j:n])
		cells[j] = c
		n++
	}
	return cells[:n]
}

// merge adds cells, which are coalesced, to a row.
func (p *pyramid) merge(l *level, row uint32, cells []cellTime) {
	for len(cells) > 0 {
		index := cells[0].at >> 16
		n := 1
		for n < len(cells) && cells[n].at>>16 == index {
			n++
		}
		if index >= l.floor {
			ln := p.line(l, index, row, uint8(cells[0].bucket()))
			before := cap(ln.hot)
			ln.merge(cells[:n])
			p.size += int64(cap(ln.hot)-before) * entrySize
		}
		cells = cells[n:]
	}
}

// line returns the line of a row for changes from a bucket on.
func (p *pyramid) line(l *level, index int64, row uint32, bucket uint8) *line {
	c := l.chunks[index]
	if c == nil {
		c = new(chunk)
		l.chunks[index] = c
		p.size += chunkSize
	}
	c.used, c.hot = p.round, true
	i := int(row / pageRows)
	if i >= len(c.pages) {
		p.size += int64(i+1-len(c.pages)) * 8
		c.pages = append(c.pages, make([]*page, i+1-len(c.pages))...)
	}
	if c.pages[i] == nil {
		c.pages[i] = new(page)
		p.size += pageSize
	}
	ln := &c.pages[i][row%pageRows]
	if n := len(ln.cold); n > 0 && uint8(ln.cold[n-1]>>24) >= bucket {
		p.size -= ln.size()
		ln.thaw(l.shift)
		p.size += ln.size()
	}
	return ln
}

// merge adds cells of one chunk. Most are later than all that the line has.
func (ln *line) merge(cells []cellTime) {
	first := uint16(cells[0].at)
	n := len(ln.hot)
	for n > 0 && ln.hot[n-1].at >= first {
		n--
	}
	if n == len(ln.hot) {
		for i := range cells {
			ln.hot = append(ln.hot, entry{uint16(cells[i].at), cells[i].time})
		}
		return
	}
	var buf [64]entry
	tail := append(buf[:0], ln.hot[n:]...)
	ln.hot = ln.hot[:n]
	for i := range cells {
		c := entry{uint16(cells[i].at), cells[i].time}
		for len(tail) > 0 && tail[0].at < c.at {
			ln.hot = append(ln.hot, tail[0])
			tail = tail[1:]
		}
		if len(tail) > 0 && tail[0].at == c.at {
			c.time += tail[0].time
			tail = tail[1:]
		}
		ln.hot = append(ln.hot, c)
	}
	ln.hot = append(ln.hot, tail...)
}

// size returns the memory of the entries.
func (ln *line) size() int64 { return int64(cap(ln.hot))*entrySize + int64(cap(ln.cold))*coldSize }

// thaw makes a compact line exact again.
func (ln *line) thaw(shift uint) {
	unit := float32(int64(1)<<shift) / 65535
	hot := make([]entry, 0, len(ln.cold)+len(ln.hot)+4)
	for _, c := range ln.cold {
		hot = append(hot, entry{uint16(c >> 16), float32(c&0xffff) * unit})
	}
	ln.hot, ln.cold, ln.late = append(hot, ln.hot...), nil, true
}

// freezeDelay is the time, in µs, after which buckets of chunks that are being painted are compacted.
const freezeDelay = 8_000_000

// freeze compacts what was not painted lately.
func (p *pyramid) freeze() {
	for _, l := range p.levels {
		for index, c := range l.chunks {
			switch done := (p.latest-freezeDelay)>>l.shift - index<<8; {
			case !c.hot:
			case c.used <= p.round-coldAfter:
				c.hot = false
				p.freezeChunk(c, l.shift)
			case done > 0:
				p.freezeBuckets(c, uint16(min(done, TileBuckets-1))<<8, l.shift)
			}
		}
	}
}

// freezeChunk compacts a chunk. Its entries get memory of the right size.
func (p *pyramid) freezeChunk(c *chunk, shift uint) {
	n := 0
	c.each(func(ln *line) { n += len(ln.hot) + len(ln.cold) })
	all := make([]coldEntry, 0, n)
	c.each(func(ln *line) {
		p.size -= ln.size()
		from := len(all)
		all = append(all, ln.cold...)
		all = appendCold(all, ln.hot, shift, ln.late)
		ln.hot, ln.cold = nil, all[from:len(all):len(all)]
		p.size += ln.size()
	})
}

// freezeBuckets compacts entries before a limit, where there are many.
func (p *pyramid) freezeBuckets(c *chunk, limit uint16, shift uint) {
	c.each(func(ln *line) {
		n := 0
		for n < len(ln.hot) && ln.hot[n].at < limit {
			n++
		}
		if n < 32 {
			return
		}
		p.size -= ln.size()
		ln.cold = appendCold(ln.cold, ln.hot[:n], shift, ln.late)
		ln.hot = append(make([]entry, 0, len(ln.hot)-n+16), ln.hot[n:]...)
		p.size += ln.size()
	})
}

// each calls f for the lines that are not empty.
func (c *chunk) each(f func(*line)) {
	for _, pg := range c.pages {
		if pg == nil {
			continue
		}
		for i := range pg {
			if len(pg[i].hot)+len(pg[i].cold) > 0 {
				f(&pg[i])
			}
		}
	}
}

// maxCold is the number of categories that a bucket of a compact line has, besides the rest.
const maxCold = 4

// appendCold appends entries in compact form, with all categories or the largest of each bucket.
func appendCold(all []coldEntry, hot []entry, shift uint, whole bool) []coldEntry {
	scale := 65535 / float32(int64(1)<<shift)
	for len(hot) > 0 {
		n := 1
		for n < len(hot) && hot[n].at>>8 == hot[0].at>>8 {
			n++
		}
		all = appendBucket(all, hot[:n], scale, whole)
		hot = hot[n:]
	}
	return all
}

// appendBucket appends the entries of one bucket. If there are many, the smallest are added up as None, unless all are
// asked for.
func appendBucket(all []coldEntry, hot []entry, scale float32, whole bool) []coldEntry {
	least, equal := float32(0), len(hot) // of the largest; how many that are equal to the least belong to them
	if len(hot) > maxCold+1 && !whole {
		var top [maxCold]float32 // in descending order
		for _, e := range hot {
			v := e.time
			for i := range top {
				if v > top[i] {
					top[i], v = v, top[i]
				}
			}
		}
		least, equal = top[maxCold-1], 0
		for _, v := range top {
			if v == least {
				equal++
			}
		}
	}
	share := func(time float32) coldEntry { return coldEntry(min(65535, max(1, time*scale+0.5))) }
	from, rest := len(all), float32(0)
	for _, e := range hot {
		if e.time == least {
			equal--
		}
		if uint8(e.at) == None || e.time < least || equal < 0 && e.time == least {
			rest += e.time
			continue
		}
		all = append(all, coldEntry(e.at)<<16|share(e.time))
	}
	if rest > 0 {
		all = slices.Insert(all, from, coldEntry(hot[0].at&0xff00)<<16|share(rest))
	}
	return all
}

// grow adds a level above the others.
func (p *pyramid) grow() {
	l := &level{shift: firstLevel + levelStep*uint(len(p.levels)), chunks: make(map[int64]*chunk)}
	p.levels = append(p.levels, l)
	if len(p.levels) == 1 {
		return
	}
	below := p.levels[len(p.levels)-2]
	l.floor = (below.floor + 3) >> levelStep
	indexes := make([]int64, 0, len(below.chunks))
	for index := range below.chunks {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	var cells []cellTime
	for _, index := range indexes {
		c := below.chunks[index]
		for i, pg := range c.pages {
			if pg == nil {
				continue
			}
			for j := range pg {
				cells = cells[:0]
				pg[j].each(below.shift, func(at uint16, time float32) {
					bucket := (index<<8 | int64(at>>8)) >> levelStep
					cells = append(cells, cellTime{bucket<<8 | int64(at&0xff), time})
				})
				if len(cells) > 0 {
					p.merge(l, uint32(i*pageRows+j), coalesce(cells))
				}
			}
		}
	}
}

// each calls f with the times of a line.
func (ln *line) each(shift uint, f func(at uint16, time float32)) {
	for _, e := range ln.hot {
		f(e.at, e.time)
	}
	unit := float32(int64(1)<<shift) / 65535
	for _, c := range ln.cold {
		f(uint16(c>>16), float32(c&0xffff)*unit)
	}
}

// trim evicts the oldest chunks of the finest levels until the pyramid has the size.
func (p *pyramid) trim(size int64) {
	for _, l := range p.levels {
		for p.size > size && len(l.chunks) > 1 {
			oldest := int64(maxTime)
			for index := range l.chunks {
				oldest = min(oldest, index)
			}
			p.remove(l, oldest)
			l.floor = max(l.floor, oldest+1)
		}
	}
}

// dropBefore removes the chunks that end before a time.
func (p *pyramid) dropBefore(horizon int64) {
	for _, l := range p.levels {
		for index := range l.chunks {
			if (index+1)<<(l.shift+8) <= horizon {
				p.remove(l, index)
			}
		}
	}
}

// remove removes a chunk.
func (p *pyramid) remove(l *level, index int64) {
	p.size -= l.chunks[index].size()
	delete(l.chunks, index)
}

// size returns the memory of the chunk.
func (c *chunk) size() int64 {
	n := chunkSize + int64(len(c.pages))*8
	for _, pg := range c.pages {
		if pg != nil {
			n += pageSize
		}
	}
	c.each(func(ln *line) { n += ln.size() })
	return n
}
