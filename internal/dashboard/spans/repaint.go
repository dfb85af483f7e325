package spans

import (
	"context"
	"maps"
	"runtime"
	"slices"
)

// repaintBatch is the number of blocks that are read and painted between two looks at Store.closed.
const repaintBatch = 32

// maxDirect is the number of blocks that a tile is painted from before the pyramid is there.
const maxDirect = 32

// repaint is the goroutine that paints the pyramid of a history that was opened, so that Open need not wait for it. The
// pyramid is its own until all blocks are in it, also those that were sealed meanwhile; then it becomes that of the
// index. Close ends it.
func (s *Store) repaint() {
	defer s.repainting.Done()
	// Each processor paints some of the rows.
	parts := make([]*pyramid, min(runtime.GOMAXPROCS(0), 8))
	for i := range parts {
		parts[i] = &pyramid{part: uint32(i), parts: uint32(len(parts))}
	}
	outlines := make([]*outline, repaintBatch)
	for {
		blocks := s.nextBlocks()
		if len(blocks) == 0 {
			p := join(parts)
			p.trim(s.cfg.MemoryLimit / 2)
			if s.adopt(p) {
				return
			}
			parts = []*pyramid{p}
			continue
		}
		if s.cfg.beforePaint != nil {
			s.cfg.beforePaint()
		}
		select {
		case <-s.closed:
			return
		default:
		}
		parallel(len(blocks), func(i int) {
			var err error
			if outlines[i], err = blocks[i].outline(); err != nil {
				s.removeDamaged(blocks[i])
				outlines[i] = nil
			}
		})
		parallel(len(parts), func(i int) {
			for j, b := range blocks {
				if outlines[j] != nil {
					parts[i].paint(int(b.class), outlines[j], b.maxStop)
				}
			}
			parts[i].trim(s.cfg.MemoryLimit / 2 / int64(len(parts)))
		})
	}
}

// nextBlocks returns the next blocks that the goroutine of repaint has not painted.
func (s *Store) nextBlocks() []*block {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.index
	list := x.blocks[x.painted:min(x.painted+repaintBatch, len(x.blocks))]
	x.painted += len(list)
	return list
}

// adopt makes a pyramid that of the index, and reports whether all blocks are in it.
func (s *Store) adopt(p *pyramid) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.index
	if x.painted < len(x.blocks) {
		return false
	}
	x.pyramid = *p
	x.pyramid.dropBefore(x.horizon)
	close(s.painted)
	return true
}

// isPainted reports whether the index has its pyramid.
func (s *Store) isPainted() bool {
	select {
	case <-s.painted:
		return true
	default:
		return false
	}
}

// awaitPyramid waits for the pyramid if a tile would have to be painted from many blocks without it.
func (s *Store) awaitPyramid(ctx context.Context, k tileKey) error {
	if k.level < firstLevel || s.isPainted() {
		return nil
	}
	from, to := k.times()
	s.mu.RLock()
	n := len(s.index.overlapping(max(from, s.index.horizon), to, -1))
	s.mu.RUnlock()
	if n <= maxDirect {
		return nil
	}
	select {
	case <-s.painted:
		return nil
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// removeDamaged removes a block whose outline cannot be read, unless it was dropped meanwhile.
func (s *Store) removeDamaged(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.index
	i := slices.Index(x.blocks, b)
	if i < 0 {
		return
	}
	x.blocks = slices.Delete(slices.Clone(x.blocks), i, i+1) // readers may have the slice
	x.painted--
	x.stored -= b.size()
	s.dropped.Add(int64(b.count))
	s.cache.invalidate(b.minStart, b.maxStop)
	x.count, x.first, x.last = 0, 0, 0
	for _, b := range x.blocks {
		x.extend(b.minStart, b.maxStop, int64(b.count))
	}
	x.eachOpen(0, maxTime, func(c *columns) { x.extend(c.minStart, c.maxStop, int64(c.len())) })
	x.first = max(x.first, x.horizon)
}

// join returns a pyramid with the rows of all parts, which it takes over.
func join(parts []*pyramid) *pyramid {
	all := parts[0]
	for _, p := range parts[1:] {
		for len(p.levels) < len(all.levels) {
			p.grow()
		}
		for len(all.levels) < len(p.levels) {
			all.grow()
		}
		for i, l := range all.levels {
			l.join(p.levels[i])
		}
	}
	all.parts = 0
	all.size = 0
	for _, l := range all.levels {
		maps.DeleteFunc(l.chunks, func(index int64, _ *chunk) bool { return index < l.floor })
		for _, c := range l.chunks {
			all.size += c.size()
		}
	}
	return all
}

// join adds the chunks of a level of another part, which has other pages.
func (l *level) join(other *level) {
	l.floor = max(l.floor, other.floor)
	for index, from := range other.chunks {
		c := l.chunks[index]
		if c == nil {
			l.chunks[index] = from
			continue
		}
		c.used, c.hot = max(c.used, from.used), c.hot || from.hot
		if n := len(from.pages) - len(c.pages); n > 0 {
			c.pages = append(c.pages, make([]*page, n)...)
		}
		for i, pg := range from.pages {
			if pg != nil {
				c.pages[i] = pg
			}
		}
	}
}
