package spans

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/testkit/leak"
)

// cellOf is a bucket of a line of a tile.
type cellOf struct{ category, coverage uint8 }

// decodeTile returns the buckets of the lines of a tile that are not empty.
func decodeTile(t rapid.TB, p []byte) map[int][TileBuckets]cellOf {
	t.Helper()
	lines := make(map[int][TileBuckets]cellOf)
	next := func() int {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			t.Fatal("tile is cut")
		}
		p = p[n:]
		return int(v)
	}
	line := 0
	for first := true; len(p) > 0; first = false {
		d := next()
		if d == 0 && !first {
			t.Fatal("two lines with the same number")
		}
		line += d
		var cells [TileBuckets]cellOf
		at := 0
		for range next() {
			n := next()
			if at+n > TileBuckets || len(p) < 2 {
				t.Fatalf("line %d is too long", line)
			}
			for range n {
				cells[at] = cellOf{p[0], p[1]}
				at++
			}
			p = p[2:]
		}
		if at != TileBuckets {
			t.Fatalf("line %d has %d buckets", line, at)
		}
		lines[line] = cells
	}
	return lines
}

// tileOf returns a tile.
func tileOf(t rapid.TB, s *Store, level, index int64, rows Range, group int) []byte {
	t.Helper()
	p, err := s.Tile(context.Background(), level, index, rows, group)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkTile compares a tile with a rasterization of all spans. The tolerance is 2 of 255 for the coverage. The category
// may have less time than that with the most by 1/1000 of the covered time and 1/8000 of the bucket, or by a fifth of
// the covered time if a bucket has more than four categories or a line more than one row.
func checkTile(t rapid.TB, s *Store, all []Span, level, index int64, rows Range, group int) {
	t.Helper()
	lines := decodeTile(t, tileOf(t, s, level, index, rows, group))
	width := int64(1) << level
	begin := index * TileBuckets * width
	rows.To = min(rows.To, uint32(len(s.Rows())))
	type at struct {
		line, bucket int
	}
	sums := make(map[at]map[uint8]float64)
	for _, sp := range all {
		if !rows.contains(sp.Row) || sp.Stop <= begin || sp.Start >= begin+TileBuckets*width {
			continue
		}
		for b := max(0, (sp.Start-begin)>>level); b < TileBuckets && begin+b*width < sp.Stop; b++ {
			us := min(sp.Stop, begin+(b+1)*width) - max(sp.Start, begin+b*width)
			k := at{int(sp.Row-rows.From) >> group, int(b)}
			if sums[k] == nil {
				sums[k] = make(map[uint8]float64)
			}
			sums[k][sp.Category] += float64(us)
		}
	}
	seen := 0
	for k, sum := range sums {
		total, most := 0.0, 0.0
		for _, v := range sum {
			total += v
			most = max(most, v)
		}
		n := min(int(rows.To-rows.From)-k.line<<group, 1<<group)
		want := min(255, max(1, total/float64(width)/float64(n)*255))
		got, ok := lines[k.line]
		if !ok {
			t.Fatalf("tile %d/%d %v group %d: no line %d", level, index, rows, group, k.line)
		}
		c := got[k.bucket]
		if math.Abs(float64(c.coverage)-want) > 2 {
			t.Fatalf("tile %d/%d %v group %d line %d bucket %d: coverage %d, want %.1f", level, index, rows, group,
				k.line, k.bucket, c.coverage, want)
		}
		short := most - sum[c.category]
		slack := total/1000 + float64(width<<group)/8000
		if len(sum) > maxCold || group > 0 {
			slack += total / 5
		}
		if short > slack {
			t.Fatalf("tile %d/%d %v group %d line %d bucket %d: category %d has %v of %v", level, index, rows, group,
				k.line, k.bucket, c.category, sum[c.category], sum)
		}
		seen++
	}
	for line, cells := range lines {
		for b, c := range cells {
			if c != (cellOf{}) {
				seen--
			}
			if (c.category == 0) != (c.coverage == 0) {
				t.Fatalf("line %d bucket %d: got %v", line, b, c)
			}
		}
	}
	if seen != 0 {
		t.Fatalf("tile %d/%d %v group %d: %d buckets missing", level, index, rows, group, seen)
	}
}

// someSpans fills a store with random spans and returns them as queries should.
func someSpans(rt *rapid.T, s *Store, n int) []Span {
	workers := rapid.IntRange(1, 6).Draw(rt, "workers")
	prefixes := rapid.IntRange(1, 12).Draw(rt, "prefixes")
	scale := rapid.Uint64Range(4, 34).Draw(rt, "scale")
	seed := rapid.Uint64().Draw(rt, "seed")
	next := func(n uint64) int64 { // a fast source of numbers
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		return int64(seed % max(n, 1))
	}
	if seed == 0 {
		seed = 1
	}
	for i := range workers {
		s.Worker(fmt.Sprint("w", i), "")
	}
	for i := range prefixes {
		s.Prefix(fmt.Sprint("p", i))
	}
	// Spans of a row do not overlap. Some runs report them out of order.
	var all []Span
	var free [6 * 3]int64
	for i := range n {
		row := next(uint64(workers * 3))
		start := free[row] + next(1<<uint(next(scale-3)))
		length := 1 + next(1<<uint(next(scale-3)))
		free[row] = start + length
		category := uint32(FirstPrefix) + uint32(next(uint64(prefixes)))
		key := fmt.Sprintf("\xd9\x24name-%032x", next(1<<40))
		switch i % 4 {
		case 1:
			key = fmt.Sprintf("x-%d", i)
		case 2:
			key = fmt.Sprintf("\x93\xd9\x24name-%032x%c%c", next(4), rune(i%128), rune(i/128%128))
		case 3:
			h := fmt.Sprintf("%032x", next(1<<40))
			key = "f-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		}
		all = append(all, Span{Row: uint32(row), Category: uint8(category), Start: start, Stop: start + length,
			Key: key, Bytes: int64(i)})
	}
	if rapid.Bool().Draw(rt, "shuffled") {
		for i := range all {
			j := next(uint64(i + 1))
			all[i], all[j] = all[j], all[i]
		}
	}
	b := new(Batch)
	for i := range all {
		sp := &all[i]
		b.Task(sp.Row/3, int64(sp.Row%3), []byte(sp.Key), uint32(sp.Category), ns(sp.Start), ns(sp.Stop), sp.Bytes, 0)
		if b.Len() == 1000 {
			b = s.Put(b)
			syncStore(rt, s)
		}
	}
	s.Put(b)
	syncStore(rt, s)
	// Rows get ids in order of appearance.
	ids := make(map[uint32]uint32)
	for i := range all {
		id, ok := ids[all[i].Row]
		if !ok {
			id = uint32(len(ids))
			ids[all[i].Row] = id
		}
		all[i].Row = id
	}
	return all
}

func sortSpans(list []Span) []Span {
	list = earliest(slices.Clone(list), len(list))
	slices.SortStableFunc(list, func(a, b Span) int {
		if a.Start == b.Start && a.Row == b.Row && a.Stop == b.Stop {
			return int(a.Bytes - b.Bytes)
		}
		return 0
	})
	return list
}

// checkStore compares queries with all spans: rows × levels × groups.
func checkStore(rt *rapid.T, s *Store, all []Span) {
	m := s.Meta()
	rows := uint32(m.Rows)
	cut := Range{rapid.Uint32Range(0, rows-1).Draw(rt, "from row"), rows}
	mid := rapid.Int64Range(m.First, m.Last-1).Draw(rt, "time")
	for level := rapid.Int64Range(0, 4).Draw(rt, "level"); level <= MaxLevel; level += 5 {
		for _, r := range []Range{AllRows, cut} {
			for _, group := range []int{0, 1, 3} {
				checkTile(rt, s, all, level, mid>>(level+8), r, group)
			}
		}
	}
	width := rapid.Int64Range(1, m.Last-m.First+1).Draw(rt, "width")
	var want []Span
	var sum [256]Total
	for _, sp := range all {
		if sp.Start < mid+width && sp.Stop > mid && cut.contains(sp.Row) {
			want = append(want, sp)
			sum[sp.Category].add(total{count: 1, bytes: sp.Bytes, time: min(sp.Stop, mid+width) - max(sp.Start, mid)})
		}
	}
	got := s.Spans(mid, mid+width, cut, len(all)+1)
	if got, want := sortSpans(got), sortSpans(want); !slices.Equal(got, want) {
		rt.Fatalf("spans of [%d, %d): got %d, want %d", mid, mid+width, len(got), len(want))
	}
	if limit := len(want) / 2; limit > 0 {
		some := s.Spans(mid, mid+width, cut, limit)
		for i := range some {
			if some[i].Start != got[i].Start || some[i].Row != got[i].Row || some[i].Stop != got[i].Stop {
				rt.Fatalf("span %d of %d: got %v, want %v", i, limit, some[i], got[i])
			}
		}
	}
	totals := s.Summary(mid, mid+width, cut).Categories
	for c, want := range sum {
		got := totals[c]
		off := math.Abs(got.Seconds - want.Seconds)
		if got.Count != want.Count || got.Bytes != want.Bytes || off > 1e-6*want.Seconds {
			rt.Fatalf("summary of %d: got %v, want %v", c, got, want)
		}
	}
	var each []Span
	_ = s.Each(func(sp Span) error { each = append(each, sp); return nil })
	if got, want := sortSpans(each), sortSpans(all); !slices.Equal(got, want) {
		rt.Fatalf("each: got %d spans, want %d", len(got), len(want))
	}
}

// TestProperties compares all queries with brute force, before and after the history is reopened, again and again.
func TestProperties(t *testing.T) {
	leak.Check(t)
	dirs := 0
	rapid.Check(t, func(rt *rapid.T) {
		dirs++
		dir := filepath.Join(t.TempDir(), fmt.Sprint(dirs))
		onDisk := rapid.Bool().Draw(rt, "disk")
		cfg := Config{Origin: origin, Now: later, blockSpans: rapid.SampledFrom([]int{64, 256, 1024}).Draw(rt, "block")}
		if onDisk {
			cfg.Dir = dir
		}
		s, err := Open(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.Close() }()
		all := someSpans(rt, s, rapid.SampledFrom([]int{1, 100, 1000, 3000}).Draw(rt, "spans"))
		checkStore(rt, s, all)
		if !onDisk {
			return
		}
		for range 2 {
			meta, rows, names := s.Meta(), s.Rows(), s.Names()
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
			if s, err = Open(cfg); err != nil {
				rt.Fatal(err)
			}
			again := s.Meta()
			again.Disk, meta.Disk = 0, 0
			if again != meta || !slices.Equal(s.Rows(), rows) || !slices.Equal(s.Names(), names) {
				rt.Fatalf("reopened: got %+v, want %+v", again, meta)
			}
			checkStore(rt, s, all)
			b := new(Batch)
			b.Task(0, 1<<40, []byte("more"), uint32(FirstPrefix), ns(meta.Last), ns(meta.Last+100), 0, 0)
			s.Put(b)
			syncStore(rt, s)
			all = append(all, s.Spans(meta.Last, meta.Last+100, AllRows, 1)...)
		}
		if err := os.RemoveAll(dir); err != nil {
			rt.Fatal(err)
		}
	})
}
