package spans

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
)

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
// spans that overlap in a row are added, up to the whole bucket. The lengths of a line add up to 256. The caller must
// not change the picture.
//
// A tile of a history that was opened a moment ago may have to wait until the pyramid is painted: Tile then returns the
// cause of ctx when it ends, and ErrClosed after Close.
func (s *Store) Tile(ctx context.Context, level, index int64, rows Range, group int) ([]byte, error) {
	n, _ := s.names.counts()
	rows.To = min(rows.To, uint32(n))
	group = min(max(group, 0), maxGroup)
	if level < 0 || level > MaxLevel || index < 0 || index >= maxTime>>(level+8) || rows.From >= rows.To {
		return nil, nil
	}
	k := tileKey{level, index, rows, group}
	if err := s.awaitPyramid(ctx, k); err != nil {
		return nil, err
	}
	return s.cache.get(k, s.paintTile), nil
}

// paintTile computes a tile. It reads blocks before it takes the lock that the spans of new batches wait for.
func (s *Store) paintTile(k tileKey) []byte {
	from, to := k.times()
	s.mu.RLock()
	blocks := s.index.overlapping(from, to, s.index.pyramid.strip(k, s.index.horizon).class)
	s.mu.RUnlock()
	known := make(map[*block]*outline, len(blocks))
	for i, o := range s.loadOutlines(blocks) {
		known[blocks[i]] = o
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if from = max(from, s.index.horizon); from >= to {
		return nil
	}
	strip := s.index.pyramid.strip(k, s.index.horizon)
	var outlines []*outline
	for _, b := range s.index.overlapping(from, to, strip.class) {
		o, ok := known[b]
		if !ok { // sealed meanwhile
			o = s.outlines.get(b)
		}
		if o != nil {
			outlines = append(outlines, o)
		}
	}
	s.index.eachOpen(from, to, func(c *columns) {
		outlines = append(outlines, c.outline(c.byRow()))
	})
	return paint(k, s.index.horizon, &strip, outlines)
}

// loadOutlines returns the outlines of blocks; nil for those that cannot be read.
func (s *Store) loadOutlines(blocks []*block) []*outline {
	list := make([]*outline, len(blocks))
	parallel(len(blocks), func(i int) { list[i] = s.outlines.get(blocks[i]) })
	return list
}

// parallel calls f with 0 to n-1 on a few processors.
func parallel(n int, f func(int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n, 8) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// partLines is the number of lines that one processor paints at a time.
const partLines = 128

// paint encodes the picture of a strip of the pyramid and of outlines, from a horizon on.
func paint(k tileKey, horizon int64, strip *strip, outlines []*outline) []byte {
	rows := uint64(k.rows.To - k.rows.From)
	lines := int((rows + 1<<k.group - 1) >> k.group)
	parts := make([]*painter, (lines+partLines-1)/partLines)
	parallel(len(parts), func(i int) {
		parts[i] = newPainter(k, horizon)
		parts[i].paint(i*partLines, min(lines, (i+1)*partLines), strip, outlines)
	})
	size := 0
	for _, p := range parts {
		size += len(p.out) + binary.MaxVarintLen32
	}
	out := make([]byte, 0, size)
	before := 0
	for _, p := range parts {
		if len(p.out) > 0 {
			out = binary.AppendUvarint(out, uint64(p.first-before))
			out = append(out, p.out...)
			before = p.last
		}
		p.release()
	}
	return out
}
