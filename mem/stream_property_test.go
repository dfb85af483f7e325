package mem_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/mem"
)

// rig drives a pool with work on several streams of a fake device, and checks on the device
// itself that nobody's memory is written by another: the order of the work is the device's, so
// that whatever the pool forgets to wait for shows as a wrong mark in memory.
type rig struct {
	fail    func(format string, args ...any)
	gpu     *fakeGPU
	pool    *mem.Pool
	streams []*fakeStream
	live    []*rigBuffer
	owner   map[uintptr]int // of each 256 bytes, as the device sees it
	pending map[uintptr]int // enqueued work on each 256 bytes
	ids     int
}

type rigBuffer struct {
	id int
	b  *mem.Buffer
	s  *fakeStream // nil: allocated for everybody
	// end is the end of a stream that is closed now: who uses the buffer waits for it.
	end mem.Event
}

func newRig(pool *mem.Pool, streams int, fail func(string, ...any)) *rig {
	r := &rig{fail: fail, gpu: &fakeGPU{onQuery: true}, pool: pool, owner: map[uintptr]int{},
		pending: map[uintptr]int{}}
	for range streams {
		r.streams = append(r.streams, r.gpu.stream())
	}
	return r
}

// each calls f with each 256 bytes of a buffer.
func each(addr uintptr, n int, f func(at uintptr)) {
	for off := 0; off < max(n, 1); off += 256 {
		f(addr + uintptr(off))
	}
}

// use enqueues work that writes a buffer (first) or checks that it is still its owner's.
func (r *rig) use(s *fakeStream, addr uintptr, n, id int, first bool) {
	r.gpu.mu.Lock()
	each(addr, n, func(at uintptr) { r.pending[at]++ })
	r.gpu.mu.Unlock()
	s.enqueue(func() {
		each(addr, n, func(at uintptr) {
			r.pending[at]--
			if !first && r.owner[at] != id {
				r.gpu.fail("buffer %d finds the mark of %d in its memory", id, r.owner[at])
			}
			r.owner[at] = id
		})
	})
}

func (r *rig) alloc(ctx context.Context, stream, n int) {
	var s *fakeStream
	var on mem.Stream
	if stream < len(r.streams) {
		s = r.streams[stream]
		on = s
	}
	b, err := mem.AllocOn(ctx, r.pool, n, on)
	if errors.Is(err, mem.ErrOutOfMemory) {
		return
	}
	if err != nil {
		r.fail("alloc: %v", err)
	}
	r.ids++
	x := &rigBuffer{id: r.ids, b: b, s: s}
	r.live = append(r.live, x)
	if s != nil {
		r.use(s, b.Addr(), n, x.id, true)
		return
	}
	// For everybody: the CPU may write at once, so nothing may be on its way.
	r.gpu.mu.Lock()
	defer r.gpu.mu.Unlock()
	each(b.Addr(), n, func(at uintptr) {
		if r.pending[at] != 0 {
			r.gpu.fail("memory for everybody has %d pieces of work on it", r.pending[at])
		}
		r.owner[at] = x.id
	})
}

// again enqueues more work on a buffer's own stream, or on another that waits for it and marks
// the buffer with its own event.
func (r *rig) again(which, stream int) {
	x := r.live[which%len(r.live)]
	s := r.streams[stream%len(r.streams)]
	if x.s != nil && x.s != s {
		must(0, s.WaitEvent(must(x.s.Mark())))
	}
	if x.end != nil {
		must(0, s.WaitEvent(x.end))
	}
	r.use(s, x.b.Addr(), x.b.Len(), x.id, false)
	if x.s == s {
		return
	}
	e := must(s.Mark())
	v := x.b.Slice(0, x.b.Len()) // each use has an event of its own
	v.SetReady(e)
	v.Release()
}

func (r *rig) release(which int) {
	i := which % len(r.live)
	r.live[i].b.Release()
	r.live = slices.Delete(r.live, i, i+1)
}

// replace ends a stream and begins another in its place.
func (r *rig) replace(stream int) {
	i := stream % len(r.streams)
	old := r.streams[i]
	for _, x := range r.live {
		if x.s == old { // no more work of it
			x.s = nil
			x.end = must(old.Mark())
		}
	}
	old.Close()
	r.streams[i] = r.gpu.stream()
}

func (r *rig) check() {
	r.gpu.mu.Lock()
	failed := r.gpu.failed
	r.gpu.mu.Unlock()
	if failed != "" {
		r.fail("%s", failed)
	}
	var inUse int64
	for _, x := range r.live {
		inUse += max(int64(x.b.Len()+255)&^255, 256)
	}
	if s := r.pool.Stats(); s.Outstanding != len(r.live) || s.InUse != inUse || s.InUse+s.Quarantined+
		s.StreamFree > s.Reserved {
		r.fail("%d buffers, %d bytes are out; %+v", len(r.live), inUse, s)
	}
}

// finish releases all, lets the device end, and closes the pool: nothing may be lost.
func (r *rig) finish() {
	for len(r.live) > 0 {
		r.release(0)
	}
	r.gpu.drain()
	r.check()
	for i := 0; ; i++ {
		err := r.pool.Close()
		if err == nil {
			return
		}
		if i > 100 {
			r.fail("%v: %+v", err, r.pool.Stats())
			return
		}
		r.gpu.drain()
	}
}

func rigPool(maxBytes int64) (*mem.Pool, error) {
	return mem.NewPool(mem.Heap, mem.PoolConfig{SlabBytes: 8192, MaxBytes: maxBytes})
}

func TestStreamProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := rigPool(rapid.SampledFrom([]int64{0, 8192, 8192, 24 << 10}).Draw(t, "max"))
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(p, 3, t.Fatalf)
		n := func(name string) int { return rapid.IntRange(0, 1<<10).Draw(t, name) }
		some := func(t *rapid.T) {
			if len(r.live) == 0 {
				t.Skip("nothing is out")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc":   func(t *rapid.T) { r.alloc(t.Context(), rapid.IntRange(0, 3).Draw(t, "stream"), 8*n("bytes")) },
			"again":   func(t *rapid.T) { some(t); r.again(n("which"), n("stream")) },
			"release": func(t *rapid.T) { some(t); r.release(n("which")) },
			"step":    func(*rapid.T) { r.gpu.step() },
			"replace": func(t *rapid.T) { r.replace(n("stream")) },
			"trim":    func(*rapid.T) { p.Trim() },
			"":        func(*rapid.T) { r.check() },
		})
		r.finish()
	})
}

// FuzzStreams is the same with the steps in bytes.
func FuzzStreams(f *testing.F) {
	f.Add([]byte{0, 0, 200, 3, 0, 0, 0, 1, 200, 1, 0, 2, 0, 3, 255})
	f.Add([]byte{0, 1, 255, 0, 2, 255, 3, 0, 3, 0, 0, 0, 255, 5, 1, 6, 0})
	f.Add([]byte{0, 0, 100, 0, 1, 100, 0, 2, 100, 3, 0, 3, 0, 3, 0, 0, 2, 250, 6, 4, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 2000 {
			script = script[:2000]
		}
		p, err := rigPool(24 << 10)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(p, 3, t.Fatalf)
		next := func() int {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return int(b)
		}
		for len(script) > 0 {
			switch next() % 7 {
			case 0, 1:
				r.alloc(t.Context(), next()%4, 32*next())
			case 2:
				if a, b := next(), next(); len(r.live) > 0 {
					r.again(a, b)
				}
			case 3:
				if a := next(); len(r.live) > 0 {
					r.release(a)
				}
			case 4:
				r.gpu.step()
			case 5:
				r.replace(next())
			case 6:
				p.Trim()
			}
			r.check()
		}
		r.finish()
	})
}

// TestStreamStress: goroutines with streams of their own on one small pool, while the device
// works by itself; every buffer is exclusively its owner's.
func TestStreamStress(t *testing.T) {
	p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 16 << 10, MaxBytes: 64 << 10,
		Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	shared := newRig(p, 0, t.Errorf)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			s := shared.gpu.stream()
			for i := range 150 {
				n := 1 + rnd.IntN(12<<10)
				id := g<<16 | i
				var on mem.Stream
				if i%5 != 0 {
					on = s
				}
				b, err := mem.AllocOn(context.Background(), p, n, on)
				if err != nil {
					t.Error(err)
					return
				}
				shared.use(s, b.Addr(), n, id, true)
				shared.use(s, b.Addr(), n, id, false)
				if on == nil {
					b.SetReady(must(s.Mark()))
				}
				b.Release()
				if i%50 == 49 {
					s.Close()
					s = shared.gpu.stream()
				}
			}
			s.Close()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for working := true; working; {
		select {
		case <-done:
			working = false
		default:
			if !shared.gpu.step() {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}
	shared.finish()
}

// Allocating and releasing 1 MiB on one stream: no driver call, no Go memory to speak of.
func BenchmarkPoolStream1MiB(b *testing.B) {
	p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{InitialBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	s := new(fakeGPU).stream()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		x, err := p.AllocOn(ctx, 1<<20, s)
		if err != nil {
			b.Fatal(err)
		}
		x.Release()
	}
	if s.calls() != 0 {
		b.Fatalf("%d driver calls", s.calls())
	}
}

func BenchmarkPool1MiB(b *testing.B) {
	p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{InitialBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		x, err := p.Alloc(ctx, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		x.Release()
	}
}
