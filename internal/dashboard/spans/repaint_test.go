package spans

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// held returns a configuration whose painting waits until release is called, and a channel that is closed when the
// painting has begun.
func held(cfg Config) (Config, func(), <-chan struct{}) {
	begun, free := make(chan struct{}), make(chan struct{})
	var once, twice bool // the goroutine of repaint alone uses once, the test twice
	cfg.beforePaint = func() {
		if !once {
			once = true
			close(begun)
		}
		<-free
	}
	return cfg, func() {
		if !twice {
			twice = true
			close(free)
		}
	}, begun
}

// tilesOf returns tiles of a history at every level, by level.
func tilesOf(t *testing.T, s *Store) [][]byte {
	t.Helper()
	m := s.Meta()
	var list [][]byte
	for level := range int64(MaxLevel + 1) {
		for _, at := range []int64{m.First, (m.First + m.Last) / 2} {
			for _, group := range []int{0, 1} {
				list = append(list, tileOf(t, s, level, at>>(level+8), AllRows, group))
			}
		}
	}
	return list
}

// fillRows fills a store with tasks of 200 threads, whose rows are in several pages.
func fillRows(t *testing.T, s *Store, from, to int64) {
	t.Helper()
	w := s.Worker("w", "")
	b := new(Batch)
	for i := from; i < to; i++ {
		p := s.Prefix(string(rune('a' + i%3)))
		b.Task(w, i*7%200, nil, p, ns(i*1000), ns(i*1000+int64(1)<<(10+i%10)), 0, 0)
		if b.Len() == 100 {
			b = s.Put(b)
			syncStore(t, s)
		}
	}
	s.Put(b)
	syncStore(t, s)
}

// TestRepaint compares the tiles of a history with those after it was opened again, twice, before and after the pyramid
// is painted, and with spans that are added meanwhile.
func TestRepaint(t *testing.T) {
	leak.Check(t)
	plain := Config{Dir: t.TempDir(), Origin: origin, Now: later, blockSpans: 50}
	whole := Config{Origin: origin, Now: later, blockSpans: 50}
	s, twin := open(t, plain), open(t, whole)
	fillRows(t, s, 0, 5000)
	fillRows(t, twin, 0, 5000)
	if got, want := tilesOf(t, s), tilesOf(t, twin); !equalTiles(t, got, want) {
		t.Fatal("histories on disk and in memory have different tiles")
	}
	added := int64(5000)
	for round := range 2 {
		cfg, release, begun := held(plain)
		defer release()
		s = reopen(t, s, cfg)
		<-begun
		m := s.Meta()
		if m.Spans != added || m.Dropped != 0 {
			t.Errorf("round %d, not painted: got %d spans and %d dropped, want %d and 0", round, m.Spans, m.Dropped,
				added)
		}
		if got := s.Summary(0, m.Last, AllRows).Categories[FirstPrefix].Count; got < added/3 {
			t.Errorf("round %d, not painted: summary has %d tasks, want %d", round, got, added/3)
		}
		if got := len(s.Spans(0, m.Last, AllRows, 100_000)); int64(got) != added {
			t.Errorf("round %d, not painted: got %d spans, want %d", round, got, added)
		}
		// A tile of few blocks does not wait. One of many does.
		if got, want := tileOf(t, s, 13, 0, AllRows, 0), tileOf(t, twin, 13, 0, AllRows, 0); !slices.Equal(got, want) {
			t.Errorf("round %d, not painted: fine tile has %d bytes, want %d", round, len(got), len(want))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := s.Tile(ctx, 16, 0, AllRows, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("round %d, not painted: coarse tile: got %v, want a deadline exceeded", round, err)
		}
		cancel()
		// Blocks that are sealed meanwhile are painted after those of the disk.
		fillRows(t, s, added, added+500)
		fillRows(t, twin, added, added+500)
		added += 500
		release()
		if got, want := tilesOf(t, s), tilesOf(t, twin); !equalTiles(t, got, want) {
			t.Errorf("round %d: tiles differ from those of a history that was not opened again", round)
		}
		<-s.painted
		if got, want := s.index.pyramid.size, twin.index.pyramid.size; got < want/4 || got > want*4 {
			t.Errorf("round %d: pyramid has %d bytes, want about %d", round, got, want)
		}
		if got := sizeOf(&s.index.pyramid); got != s.index.pyramid.size {
			t.Errorf("round %d: pyramid has %d bytes, notes %d", round, got, s.index.pyramid.size)
		}
		fillRows(t, s, added, added+500) // by the goroutine of the store again
		fillRows(t, twin, added, added+500)
		added += 500
		if got, want := tilesOf(t, s), tilesOf(t, twin); !equalTiles(t, got, want) {
			t.Errorf("round %d: tiles differ after more spans", round)
		}
	}
}

// equalTiles compares tiles; the coverage of a bucket may differ by 2 of 255.
func equalTiles(t *testing.T, a, b [][]byte) bool {
	t.Helper()
	return slices.EqualFunc(a, b, func(a, b []byte) bool {
		x, y := decodeTile(t, a), decodeTile(t, b)
		if len(x) != len(y) {
			return false
		}
		for line, cells := range x {
			for i, c := range cells {
				d := y[line][i]
				if c.category != d.category || max(c.coverage, d.coverage)-min(c.coverage, d.coverage) > 2 {
					return false
				}
			}
		}
		return true
	})
}

func sizeOf(p *pyramid) (n int64) {
	for _, l := range p.levels {
		for _, c := range l.chunks {
			n += c.size()
		}
	}
	return n
}

// TestCloseWhilePainting ends the painting, and tiles that wait for it.
func TestCloseWhilePainting(t *testing.T) {
	leak.Check(t)
	plain := Config{Dir: t.TempDir(), Origin: origin, Now: later, blockSpans: 50}
	s := open(t, plain)
	fillRows(t, s, 0, 5000)
	cfg, release, begun := held(plain)
	defer release()
	s = reopen(t, s, cfg)
	<-begun
	waited := make(chan error, 1)
	go func() {
		_, err := s.Tile(t.Context(), 16, 0, AllRows, 0)
		waited <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("tile: got %v, want %v", err, ErrClosed)
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned %v before the painting had ended", err)
	default:
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if s.isPainted() {
		t.Error("painted after Close")
	}
	s = open(t, plain)
	if got := s.Meta(); got.Spans != 5000 || got.Dropped != 0 {
		t.Errorf("opened again: got %d spans and %d dropped, want 5000 and 0", got.Spans, got.Dropped)
	}
}

// TestRepaintDamaged opens a history with blocks whose outlines are damaged: they are dropped when they are painted.
func TestRepaintDamaged(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	plain := Config{Dir: dir, Origin: origin, Now: later, blockSpans: 50}
	s := open(t, plain)
	fillTasks(t, s, 0, 5000)
	first, last := s.index.blocks[0].header, s.index.blocks[99].header
	offset := s.index.blocks[99].offset
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := segments(t, dir)[0]
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	from, _ := first.section(outlineSection)
	p[from+3] ^= 1
	from, _ = last.section(outlineSection)
	p[offset+from+3] ^= 1
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cfg, release, begun := held(plain)
		defer release()
		s := open(t, cfg)
		<-begun
		if m := s.Meta(); m.Spans != 5000 || m.Dropped != 0 || m.First != 0 || m.Last != 50_000 {
			t.Errorf("not painted: got %+v, want 5000 spans", m)
		}
		tileOf(t, s, 8, 0, AllRows, 0) // without the damaged block, in the cache
		release()
		lines := decodeTile(t, tileOf(t, s, 14, 0, AllRows, 0))
		if got, want := lines[0][0].coverage, uint8((1<<14-500)*255/(1<<14)); got < want-2 || got > want+2 {
			t.Errorf("coverage of the first bucket: got %d, want about %d", got, want)
		}
		<-s.painted
		if m := s.Meta(); m.Spans != 4900 || m.Dropped != 100 || m.First != 500 || m.Last != 49_500 {
			t.Errorf("painted: got %+v, want 4900 spans from 500 to 49,500 µs and 100 dropped", m)
		}
		if got := s.Spans(0, 500, AllRows, 10); len(got) != 0 {
			t.Errorf("spans of the damaged block: got %v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRepaintDropped fills a history beyond its limit before it is painted: segments that are removed are no damage.
func TestRepaintDropped(t *testing.T) {
	leak.Check(t)
	plain := Config{Dir: t.TempDir(), Limit: 512 << 10, Origin: origin, Now: later, blockSpans: 100}
	s := open(t, plain)
	fillTasks(t, s, 0, 30_000)
	cfg, release, begun := held(plain)
	defer release()
	s = reopen(t, s, cfg)
	<-begun
	before := s.Meta()
	fillTasks(t, s, 30_000, 90_000)
	release()
	<-s.painted
	m := s.Meta()
	if m.Dropped != 0 || m.First <= before.First || m.Last != 900_000 {
		t.Errorf("got %+v, want 0 dropped and times from more than %d to 900,000", m, before.First)
	}
	lines := decodeTile(t, tileOf(t, s, 14, 0, AllRows, 0))
	if got := lines[0][m.First>>14-1].coverage; got != 0 {
		t.Errorf("coverage of dropped spans: got %d, want 0", got)
	}
	if got := lines[0][m.Last>>14-1].coverage; got != 255 {
		t.Errorf("coverage of the last spans: got %d, want 255", got)
	}
	if len(s.index.pyramid.levels) == 0 || s.index.painted > len(s.index.blocks) {
		t.Errorf("got %d levels, %d of %d blocks painted", len(s.index.pyramid.levels), s.index.painted,
			len(s.index.blocks))
	}
}

// TestRepaintLimit paints a history that exceeds the limit of memory: the parts are trimmed, and the whole.
func TestRepaintLimit(t *testing.T) {
	leak.Check(t)
	cfg := Config{Dir: t.TempDir(), MemoryLimit: 400 << 10, Origin: origin, Now: later, blockSpans: 64}
	s := open(t, cfg)
	var all []Span
	w, p := s.Worker("w", ""), s.Prefix("p")
	b := new(Batch)
	for i := range int64(4000) {
		start := i * 1_000_000
		b.Task(w, i%100, nil, p, ns(start), ns(start+9000), 0, 0)
		all = append(all, Span{Row: uint32(i % 100), Category: uint8(p), Start: start, Stop: start + 9000})
		if b.Len() == 64 {
			b = s.Put(b)
			syncStore(t, s)
		}
	}
	s.Put(b)
	syncStore(t, s)
	s = reopen(t, s, cfg)
	<-s.painted
	if got := s.index.pyramid.size; got > 250<<10 || got != sizeOf(&s.index.pyramid) {
		t.Errorf("pyramid notes %d bytes and has %d", got, sizeOf(&s.index.pyramid))
	}
	if s.index.pyramid.levels[0].floor == 0 {
		t.Error("no chunk was evicted")
	}
	for level := int64(10); level <= 26; level++ {
		for _, at := range []int64{0, 2_000_000_000, 3_999_000_000} {
			checkTile(t, s, all, level, at>>(level+8), AllRows, 0)
		}
	}
}
