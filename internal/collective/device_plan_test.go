package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// TestPlansDoNotMeet: whatever the call, no rank writes what another one reads or writes, so that they need not wait
// for each other; also where send and recv are the same memory.
func TestPlansDoNotMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 6).Draw(t, "ranks")
		c := Call{Code: rapid.SampledFrom(testCodes[1:]).Draw(t, "code"),
			Kind: rapid.SampledFrom(elem.Kinds()).Draw(t, "kind"),
			Op:   Sum, Root: rapid.IntRange(0, size-1).Draw(t, "root")}
		inPlace := rapid.Bool().Draw(t, "in place")
		cards := make([]deviceInfo, size)
		for r := range cards {
			cards[r].gpu[0] = byte(rapid.IntRange(0, size).Draw(t, "GPU"))
		}
		acts := actors(cards)
		es := c.Kind.Size()
		n := rapid.IntRange(0, 500).Draw(t, "elements") * es
		words := make([]part, size)
		numbers := func(list []int) []byte {
			var b []byte
			for _, x := range list {
				b = binary.LittleEndian.AppendUint64(b, uint64(x))
			}
			return b
		}
		matrix := make([][]int, size)
		for r := range matrix {
			matrix[r] = rapid.SliceOfN(rapid.IntRange(0, 50), size, size).Draw(t, "counts")
		}
		for r := range words {
			words[r].count = uint64(n)
			switch c.Code {
			case AllGatherV, GatherV, ScatterV:
				words[r].count, words[r].counts = uint64(matrix[0][r]*es), numbers(matrix[0])
			case AllToAllV:
				column := make([]int, size)
				for q := range column {
					column[q] = matrix[q][r]
				}
				words[r].counts = append(numbers(matrix[r]), numbers(column)...)
			}
		}
		// where a place is, with send inside of recv, or the other way round, if they are one
		offset := func(p place) int {
			if !inPlace || p.recv {
				return p.at
			}
			switch c.Code {
			case AllGather, Gather:
				return p.rank*n + p.at
			case AllGatherV, GatherV:
				return countBefore(matrix[0], p.rank)*es + p.at
			}
			return p.at
		}
		target := func(p place) int {
			switch {
			case inPlace && p.recv && c.Code == ReduceScatter:
				return p.rank*n + p.at
			case inPlace && p.recv && c.Code == Scatter && p.rank == c.Root:
				return p.rank*n + p.at
			case inPlace && p.recv && c.Code == ScatterV && p.rank == c.Root:
				return countBefore(matrix[0], p.rank)*es + p.at
			}
			return offset(p)
		}
		if c.Code == AllToAll || c.Code == AllToAllV {
			inPlace = false // not allowed
		}
		type access struct {
			rank int
			p    place
		}
		var reads, writes []access
		for r := range size {
			pl := planOf(&c, words, r, acts)
			if acts[r] != r && len(pl.copies)+len(pl.folds) > 0 {
				t.Fatalf("rank %d works, for which rank %d acts", r, acts[r])
			}
			for _, s := range pl.copies {
				if s.dst.n != s.src.n || acts[s.dst.rank] != r {
					t.Fatalf("%+v", s)
				}
				if inPlace && s.src.rank == s.dst.rank && offset(s.src) == target(s.dst) {
					continue // nothing to do
				}
				// One who acts for several does so in any order: each of them counts as a rank.
				reads, writes = append(reads, access{s.dst.rank, s.src}), append(writes, access{s.dst.rank, s.dst})
			}
			for _, f := range pl.folds {
				who := r
				if c.Code == ReduceScatter {
					who = f.dsts[0].rank
				}
				for _, p := range f.srcs {
					reads = append(reads, access{who, p})
				}
				for _, p := range f.dsts {
					writes = append(writes, access{who, p})
				}
			}
		}
		meet := func(a, b access) bool {
			if a.rank == b.rank || a.p.rank != b.p.rank || !inPlace && a.p.recv != b.p.recv {
				return false
			}
			x, y := target(a.p), target(b.p)
			return x < y+b.p.n && y < x+a.p.n
		}
		for i, w := range writes {
			for _, r := range reads {
				if meet(w, r) {
					t.Fatalf("%v: rank %d writes %+v, rank %d reads %+v", c.Code, w.rank, w.p, r.rank, r.p)
				}
			}
			for _, v := range writes[:i] {
				if meet(w, v) {
					t.Fatalf("%v: rank %d writes %+v, rank %d writes %+v", c.Code, w.rank, w.p, v.rank, v.p)
				}
			}
		}
	})
}

// A mapping is opened once however many ask for it; a failure is not kept; what lies at the place of a new allocation
// is let go of before that is opened.
func TestMappings(t *testing.T) {
	var m mappings
	w := &bufferRef{id: 1, base: 1000, size: 100}
	opened, freed := 0, 0
	open := func() (*mem.Buffer, error) {
		opened++
		return mem.NewRegion(mem.RegionConfig{Addr: 4096, Len: 8, Kind: mem.Device,
			Free: func() { freed++ }}).Buffer(), nil
	}
	bad := errors.New("no")
	if _, err := m.get(mapKey{0, 0, 1}, w, func() (*mem.Buffer, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			b, err := m.get(mapKey{0, 0, 1}, w, open)
			if err != nil {
				t.Error(err)
				return
			}
			b.Release()
		})
	}
	all.Wait()
	if opened != 1 || freed != 0 {
		t.Fatalf("opened %d, freed %d", opened, freed)
	}
	for i, c := range []struct {
		key          mapKey
		w            bufferRef
		opened, gone int
	}{
		{mapKey{0, 0, 2}, bufferRef{id: 2, base: 1100, size: 100}, 2, 0}, // next to it
		{mapKey{1, 0, 3}, bufferRef{id: 3, base: 1050, size: 100}, 3, 0}, // another rank's
		{mapKey{0, 0, 4}, bufferRef{id: 4, base: 1050, size: 100}, 4, 2}, // over both of the first
		{mapKey{0, 0, 4}, bufferRef{id: 4, base: 1050, size: 100}, 4, 2},
	} {
		b, err := m.get(c.key, &c.w, func() (*mem.Buffer, error) {
			if freed != c.gone {
				return nil, fmt.Errorf("%d are gone before it is opened, want %d", freed, c.gone)
			}
			return open()
		})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		b.Release()
		if opened != c.opened || freed != c.gone {
			t.Errorf("%d: opened %d, freed %d", i, opened, freed)
		}
	}
	m.closeRank(1)
	if freed != 3 {
		t.Errorf("freed %d after rank 1 was forgotten", freed)
	}
	for i := range maxMappings + 10 {
		b, err := m.get(mapKey{2, 0, uint64(i + 10)}, &bufferRef{base: uint64(i) << 20, size: 1}, open)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if n := len(m.m); n > maxMappings {
		t.Errorf("%d are kept", n)
	}
	m.close()
	if freed != opened {
		t.Errorf("opened %d, freed %d", opened, freed)
	}
	if _, err := m.get(mapKey{0, 0, 9}, w, open); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
