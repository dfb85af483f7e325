package spans

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// fillTasks puts tasks of one row, each of 10 µs, one after the other.
func fillTasks(t testing.TB, s *Store, from, to int) {
	t.Helper()
	w, p := s.Worker("w", "name"), s.Prefix("p")
	b := new(Batch)
	for i := from; i < to; i++ {
		key := fmt.Sprintf("\xd9\x22p-%032x", uint64(i)*0x9e3779b97f4a7c15)
		b.Task(w, 1, []byte(key), p, ns(int64(i)*10), ns(int64(i)*10+10), 1, 0)
		if b.Len() == 512 {
			b = s.Put(b)
			syncStore(t, s)
		}
	}
	s.Put(b)
	syncStore(t, s)
}

func reopen(t testing.TB, s *Store, cfg Config) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, cfg)
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, segmentPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestInUse(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	_, err := Open(Config{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: got %v, want %v with the folder", err, ErrInUse)
	}
	s = reopen(t, s, Config{Dir: dir})
	s.Close()
}

func TestReopenKeepsAll(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	cfg := Config{Dir: dir, blockSpans: 100}
	s := open(t, cfg)
	fillTasks(t, s, 0, 250)
	s.Transport("tcp")
	s.Event(origin.Add(time.Second), "death", []byte(`{"worker":"w"}`))
	for i := range 5000 {
		s.Sample(origin.Add(time.Duration(i)*time.Second), "cpu", float64(i))
	}
	before := s.Series(0, 5000e6, 100)
	rows := s.Rows()
	// A later origin does not matter: that of the history stays.
	cfg.Origin = origin.Add(time.Hour)
	s = reopen(t, s, cfg)
	if got, want := s.Meta().Origin, origin.UnixMicro(); got != want {
		t.Errorf("origin: got %d, want %d", got, want)
	}
	if got := s.Events(0); len(got) != 1 || got[0].T != 1e6 || got[0].Kind != "death" {
		t.Errorf("events: got %v", got)
	}
	after := s.Series(0, 5000e6, 100)
	if !slices.Equal(after["cpu"], before["cpu"]) {
		t.Errorf("series: got %v, want %v", after, before)
	}
	if got := s.Meta().Spans; got != 250 {
		t.Errorf("got %d spans, want 250", got)
	}
	fillTasks(t, s, 250, 300)
	if got := s.Rows(); !slices.Equal(got, rows) {
		t.Errorf("rows: got %v, want %v", got, rows)
	}
	if got := s.Transport("tcp"); got != 0 {
		t.Errorf("transport: got %d, want 0", got)
	}
}

// TestCrash copies the folder of a running store, as a crash leaves it.
func TestCrash(t *testing.T) {
	leak.Check(t)
	dir, copied := t.TempDir(), t.TempDir()
	cfg := Config{Dir: dir, blockSpans: 100}
	s := open(t, cfg)
	fillTasks(t, s, 0, 150)
	if err := s.save(); err != nil { // what the goroutine does now and then
		t.Fatal(err)
	}
	fillTasks(t, s, 150, 460)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = copied
	c := open(t, cfg)
	// Spans 100 to 149 are in the state and, with their block, on disk: once.
	if got := c.Meta().Spans; got != 400 {
		t.Errorf("after a crash: got %d spans, want the 400 of whole blocks", got)
	}
	c.Close()
	list := segments(t, copied)
	last := list[len(list)-1]
	info, err := os.Stat(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(last, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	c = open(t, cfg)
	if got := c.Meta().Spans; got != 300 {
		t.Errorf("after a torn write: got %d spans, want 300", got)
	}
	fillTasks(t, c, 300, 500)
	c = reopen(t, c, cfg)
	if m := c.Meta(); m.Spans != 500 || m.Dropped != 0 {
		t.Errorf("after more spans: got %d and %d dropped, want 500", m.Spans, m.Dropped)
	}
	list = segments(t, copied)
	p, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	p[headerSize+2] ^= 1 // totals of the first block
	if err := os.WriteFile(list[0], p, 0o600); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c, cfg)
	if m := c.Meta(); m.Spans != 400 || m.Dropped != 100 {
		t.Errorf("after damage of a block: got %d spans and %d dropped, want 400 and 100", m.Spans, m.Dropped)
	}
	if got := c.Spans(0, 1000, AllRows, 10); len(got) != 0 {
		t.Errorf("spans of the damaged block: got %v", got)
	}
}

func TestDamagedNames(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	cfg := Config{Dir: dir, blockSpans: 10}
	s := open(t, cfg)
	fillTasks(t, s, 0, 20)
	s.Close()
	name := filepath.Join(dir, namesFile)
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Without its rows, a block cannot be shown.
	if err := os.WriteFile(name, p[:len(p)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, cfg)
	if m := s.Meta(); m.Spans != 0 || m.Dropped != 20 || m.Rows != 0 {
		t.Errorf("without the row: got %+v", m)
	}
	s.Close()
	p[7] ^= 1
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("damaged origin: got %v", err)
	}
	// A state that is damaged is ignored.
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("garbage garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	p[7] ^= 1
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, cfg)
	if got := s.Meta().Spans; got != 20 {
		t.Errorf("with a damaged state: got %d spans, want 20", got)
	}
}

// TestLimit drops the oldest spans, on disk and in memory.
func TestLimit(t *testing.T) {
	leak.Check(t)
	for _, cfg := range []Config{
		{Dir: t.TempDir(), Limit: 512 << 10, blockSpans: 500},
		{MemoryLimit: 512 << 10, blockSpans: 500},
	} {
		s := open(t, cfg)
		const n = 60_000
		fillTasks(t, s, 0, n)
		m := s.Meta()
		if m.Spans < 5000 || m.Spans > n*2/3 || m.Disk > cfg.Limit {
			t.Errorf("%+v: got %d spans of %d and %d bytes", cfg, m.Spans, n, m.Disk)
		}
		if m.First < 10*(n-m.Spans-1000) || m.Last != 10*n {
			t.Errorf("%+v: got times %d to %d with %d spans", cfg, m.First, m.Last, m.Spans)
		}
		var all []Span
		_ = s.Each(func(sp Span) error { all = append(all, sp); return nil })
		if int64(len(all)) > m.Spans || int64(len(all)) < m.Spans-2000 {
			t.Errorf("%+v: each has %d spans, want about %d", cfg, len(all), m.Spans)
		}
		if got := s.Spans(0, m.First, AllRows, 10); len(got) != 0 {
			t.Errorf("%+v: spans before the first: got %v", cfg, got)
		}
		if got := tileOf(t, s, 8, 0, AllRows, 0); got != nil {
			t.Errorf("%+v: tile of dropped spans: got %d bytes", cfg, len(got))
		}
		lines := decodeTile(t, tileOf(t, s, 14, 0, AllRows, 0))
		cells := lines[0]
		if got := cells[0].coverage; got != 0 {
			t.Errorf("%+v: overview of dropped spans: got coverage %d", cfg, got)
		}
		if got := cells[10*n>>14-1].coverage; got != 255 {
			t.Errorf("%+v: overview of the last spans: got coverage %d", cfg, got)
		}
		if cfg.Dir != "" {
			s = reopen(t, s, cfg)
			again := s.Meta()
			if again.Spans != m.Spans || again.First != m.First || again.Last != m.Last {
				t.Errorf("reopened: got %+v, want %+v", again, m)
			}
		}
		s.Close()
	}
}

// TestPyramidLimit evicts fine levels; tiles are painted from blocks then.
func TestPyramidLimit(t *testing.T) {
	leak.Check(t)
	s := open(t, Config{Dir: t.TempDir(), MemoryLimit: 400 << 10, blockSpans: 64})
	var all []Span
	w, p := s.Worker("w", ""), s.Prefix("p")
	b := new(Batch)
	for i := range int64(4000) {
		start := i * 1_000_000
		b.Task(w, i%40, nil, p, ns(start), ns(start+9000), 0, 0)
		all = append(all, Span{Row: uint32(i % 40), Category: uint8(p), Start: start, Stop: start + 9000})
		if b.Len() == 64 {
			b = s.Put(b)
			syncStore(t, s)
		}
	}
	s.Put(b)
	syncStore(t, s)
	if floor := s.index.pyramid.levels[0].floor; floor == 0 {
		t.Error("no chunk was evicted")
	}
	if got := s.index.pyramid.size; got > 250<<10 {
		t.Errorf("pyramid has %d bytes", got)
	}
	for level := int64(10); level <= 26; level++ {
		for _, at := range []int64{0, 2_000_000_000, 3_999_000_000} {
			checkTile(t, s, all, level, at>>(level+8), AllRows, 0)
		}
	}
}

func FuzzBlock(f *testing.F) {
	c := new(columns)
	for i := range 100 {
		r := record{kind: taskRecord, category: uint8(8 + i%3), bytes: int64(i), thread: 3}
		if i%5 == 0 {
			r.kind, r.peer, r.transport = transferRecord, 3, 1
		}
		key := fmt.Sprintf("name-%032x", i/7)
		c.add(&r, uint32(i%7), int64(i*100), int64(i*100+50), []byte(key[:i%len(key)]))
	}
	var e blockEncoder
	sorted := c.sorted(c.byRow(), new(columns))
	_, p := e.encode(7, 0, sorted, sorted.sortedOutline())
	f.Add(p[:headerSize], p[headerSize:])
	f.Fuzz(func(t *testing.T, head, body []byte) {
		if h, ok := parseHeader(head); ok {
			h.count = min(h.count, 1<<12)
			if o, err := h.decodeOutline(body); err == nil {
				_, _ = h.decodeDetail(body, o)
				new(pyramid).paint(int(h.class), o, h.maxStop)
			}
		}
		h := header{count: 100, maxRow: 1000, maxStop: 1 << 30}
		if o, err := h.decodeOutline(body); err == nil {
			_, _ = h.decodeDetail(body, o)
		}
		o := &outline{rows: []uint32{0}, ends: []uint32{100}, start: make([]int64, 100), length: make([]int64, 100),
			category: make([]uint8, 100)}
		if c, err := h.decodeDetail(body, o); err == nil {
			for i := range c.row {
				_ = c.key(i)
			}
		}
		_, _ = decodeTotals(body)
		if c, err := decodeBlock(append(head, body...)); err == nil && c.len() == 0 {
			t.Error("block without spans")
		}
	})
}

func FuzzNames(f *testing.F) {
	n := names{logged: true}
	n.init()
	n.note(originName, int64(namesVersion), int64(5), int64(6))
	n.worker("a", "b")
	n.prefix("p")
	n.transport("t")
	n.rowOf(&record{kind: transferRecord})
	n.setHorizon(9)
	f.Add(n.unsaved)
	f.Fuzz(func(t *testing.T, p []byte) {
		s := &Store{}
		s.names.init()
		for {
			d, rest := nextName(p)
			if d == nil || !s.loadName(d.byte(), d) {
				break
			}
			p = rest
		}
		s.Rows()
		s.Names()
		set := new(seriesSet)
		set.init()
		set.decode(p)
		new(eventLog).decode(p)
	})
}
