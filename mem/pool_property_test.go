package mem_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/mem"
)

// TestPoolProperty drives a pool with random allocations, slices, retains and releases. After
// each step no two allocations overlap, every byte holds what its owner wrote, and the
// statistics agree with the model; in the end all bytes are back.
func TestPoolProperty(t *testing.T) {
	type held struct {
		views  []*mem.Buffer // one entry per reference
		lo, hi uintptr
		fill   byte
	}
	rapid.Check(t, func(t *rapid.T) {
		align := rapid.SampledFrom([]int{1, 16, 256}).Draw(t, "align")
		maxBytes := rapid.SampledFrom([]int64{0, 8192, 20000}).Draw(t, "max")
		p, err := mem.NewPool(mem.Heap, mem.PoolConfig{SlabBytes: 4096, Align: align, MaxBytes: maxBytes})
		if err != nil {
			t.Fatal(err)
		}
		var live []*held
		var fill byte
		pick := func() int { return rapid.IntRange(0, len(live)-1).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.IntRange(0, 6000).Draw(t, "n")
				b, err := p.Alloc(t.Context(), n)
				if errors.Is(err, mem.ErrOutOfMemory) && maxBytes > 0 {
					need := (max(n, 1) + align - 1) &^ (align - 1)
					if s := p.Stats(); s.LargestFree >= need {
						t.Fatalf("refused %d bytes with %d free in one piece", n, s.LargestFree)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				fill++
				for i := range b.Bytes() {
					b.Bytes()[i] = fill
				}
				live = append(live, &held{[]*mem.Buffer{b}, b.Addr(), b.Addr() + uintptr(n), fill})
			},
			"slice": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				h := live[pick()]
				b := h.views[rapid.IntRange(0, len(h.views)-1).Draw(t, "view")]
				off := rapid.IntRange(0, b.Len()).Draw(t, "off")
				h.views = append(h.views, b.Slice(off, rapid.IntRange(0, b.Len()-off).Draw(t, "len")))
			},
			"retain": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				h := live[pick()]
				h.views = append(h.views, h.views[0].Retain())
			},
			"release": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				i := pick()
				h := live[i]
				j := rapid.IntRange(0, len(h.views)-1).Draw(t, "view")
				h.views[j].Release()
				if h.views = slices.Delete(h.views, j, j+1); len(h.views) == 0 {
					live = slices.Delete(live, i, i+1)
				}
			},
			"trim": func(*rapid.T) { p.Trim() },
			"": func(t *rapid.T) {
				sorted := slices.Clone(live)
				slices.SortFunc(sorted, func(a, b *held) int { return int(int64(a.lo) - int64(b.lo)) })
				var inUse int64
				for i, h := range sorted {
					if i > 0 && sorted[i-1].hi > h.lo {
						t.Fatalf("[%#x,%#x) overlaps [%#x,%#x)", sorted[i-1].lo, sorted[i-1].hi, h.lo, h.hi)
					}
					inUse += (max(int64(h.hi-h.lo), 1) + int64(align) - 1) &^ (int64(align) - 1)
					for _, v := range h.views {
						for _, x := range v.Bytes() {
							if x != h.fill {
								t.Fatalf("byte %d where its owner wrote %d", x, h.fill)
							}
						}
					}
				}
				s := p.Stats()
				if s.Outstanding != len(live) || s.InUse != inUse || s.InUse > s.Reserved || maxBytes > 0 &&
					s.Reserved > maxBytes {
					t.Fatalf("%d buffers, %d bytes are out; stats %+v", len(live), inUse, s)
				}
			},
		})
		for _, h := range live {
			for _, v := range h.views {
				v.Release()
			}
		}
		if s := p.Stats(); s.InUse != 0 || s.Outstanding != 0 || s.Allocs != s.Frees {
			t.Fatalf("all released: %+v", s)
		}
		p.Trim()
		if s := p.Stats(); s.Reserved != 0 || s.Slabs != 0 || s.LargestFree != 0 {
			t.Fatalf("free memory was not coalesced: %+v", s)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPoolStress: many goroutines on one full pool; every buffer is exclusively its owner's.
func TestPoolStress(t *testing.T) {
	regions, bytes := mem.Live()
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 32 << 10, MaxBytes: 128 << 10, Wait: true})
	var served atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 300 {
				b, err := p.Alloc(t.Context(), 1+rnd.IntN(20<<10))
				if err != nil {
					t.Error(err)
					return
				}
				mark := byte(g)<<4 | byte(i&15)
				v := b.Bytes()
				for j := 0; j < len(v); j += 64 {
					v[j] = mark
				}
				s := b.Slice(len(v)/2, len(v)-len(v)/2)
				for j := 0; j < len(v); j += 64 {
					if v[j] != mark {
						t.Errorf("goroutine %d: byte %d is %#x, want %#x", g, j, v[j], mark)
						return
					}
				}
				if i%7 == 0 {
					e := new(manualEvent)
					b.SetReady(e)
					time.AfterFunc(time.Millisecond, func() { e.done.Store(true) })
				}
				b.Release()
				s.Release()
				served.Add(1)
			}
		})
	}
	wg.Wait()
	if served.Load() != 16*300 {
		t.Errorf("%d of %d allocations served", served.Load(), 16*300)
	}
	deadline := time.Now().Add(10 * time.Second)
	for p.Close() != nil {
		if time.Now().After(deadline) {
			t.Fatalf("%v: %+v", p.Close(), p.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	if n, b := mem.Live(); n != regions || b != bytes {
		t.Errorf("%d regions, %d bytes left", n-regions, b-bytes)
	}
}

// gated is an upstream whose allocations wait until the gate opens.
type gated struct {
	mem.Resource
	gate chan struct{}
}

func (g *gated) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	<-g.gate
	return g.Resource.Alloc(ctx, n)
}

// TestPoolStartsTogether: callers that find an empty pool at once share its first slab.
func TestPoolStartsTogether(t *testing.T) {
	up := &gated{mem.NewMmap(mem.MmapConfig{}), make(chan struct{})}
	p := newPool(t, up, mem.PoolConfig{SlabBytes: 1 << 20})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			b, err := p.Alloc(t.Context(), 1000)
			if err != nil {
				t.Error(err)
				return
			}
			b.Release()
		})
	}
	// One asks upstream, the others wait for what it gets.
	for deadline := time.Now().Add(10 * time.Second); p.Stats().Waiting != 31; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d callers wait, want 31", p.Stats().Waiting)
			break
		}
	}
	close(up.gate)
	wg.Wait()
	if s := p.Stats(); s.Slabs != 1 || s.Allocs != 32 {
		t.Errorf("%+v", s)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkPoolAllocRelease(b *testing.B) {
	p, err := mem.NewPool(mem.Heap, mem.PoolConfig{SlabBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		x, err := p.Alloc(ctx, 1024)
		if err != nil {
			b.Fatal(err)
		}
		x.Release()
	}
}
