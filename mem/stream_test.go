package mem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

func allocOn(t *testing.T, r mem.Resource, n int, s mem.Stream) *mem.Buffer {
	t.Helper()
	b, err := mem.AllocOn(t.Context(), r, n, s)
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != n {
		t.Fatalf("%d bytes, want %d", b.Len(), n)
	}
	return b
}

// Work of one stream uses memory again while the device has not even begun with the last
// user, and nobody calls the driver for it.
func TestSameStreamReuse(t *testing.T) {
	gpu := new(fakeGPU)
	s := gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	var at uintptr
	for i := range 100 {
		b := allocOn(t, p, 4096, s)
		if i > 0 && b.Addr() != at {
			t.Fatalf("memory at %#x, then at %#x", at, b.Addr())
		}
		at = b.Addr()
		s.enqueue(func() {})
		b.Release()
	}
	if s.calls() != 0 {
		t.Errorf("%d driver calls, want none", s.calls())
	}
	if st := p.Stats(); st.Slabs != 1 || st.StreamFree != 4096 || st.Streams != 1 || st.Outstanding != 0 ||
		st.Quarantined != 0 {
		t.Errorf("%+v", st)
	}
	if err := p.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Errorf("closed while the device works on its memory: %v", err)
	}
	gpu.drain()
	for p.Close() != nil { // each try marks the stream anew
		gpu.drain()
	}
}

// An event of the stream itself needs no wait; one of another is waited for on the device,
// when the memory is used again.
func TestReleaseWithEvents(t *testing.T) {
	gpu := new(fakeGPU)
	s, other := gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	own := must(s.Mark())
	b := allocOn(t, p, 4096, s)
	b.SetReady(own)
	b.Release()
	b = allocOn(t, p, 1024, s)
	if s.waits != 0 {
		t.Error("the stream waits for itself")
	}
	b.SetReady(must(other.Mark()))
	b.Release()
	c, d := allocOn(t, p, 1024, s), allocOn(t, p, 1024, s)
	if s.waits != 2 { // both pieces come of a chunk that was joined with the other's
		t.Errorf("%d waits, want 2", s.waits)
	}
	c.Release()
	d.Release()
	gpu.drain()
	e := allocOn(t, p, 4096, s)
	if s.waits != 2 {
		t.Error("waits for what is done")
	}
	e.Release()
	// One that is done at the release is not even kept.
	b = allocOn(t, p, 1024, s)
	mark := must(other.Mark())
	gpu.drain()
	b.SetReady(mark)
	b.Release()
	waits := s.waits
	allocOn(t, p, 4096, s).Release()
	if s.waits != waits {
		t.Errorf("waits for a finished event")
	}
}

// What another stream has released is taken over behind a mark of it, before more is taken
// from upstream.
func TestBorrow(t *testing.T) {
	gpu := new(fakeGPU)
	a, b := gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096})
	x := allocOn(t, p, 4096, a)
	at := x.Addr()
	var order []string
	a.enqueue(func() { order = append(order, "a") })
	x.Release()
	y := allocOn(t, p, 2048, b)
	b.enqueue(func() { order = append(order, "b") })
	if y.Addr() != at || a.marks != 1 || b.waits != 1 || p.Stats().Slabs != 1 {
		t.Errorf("at %#x, want %#x; %d marks, %d waits, %+v", y.Addr(), at, a.marks, b.waits, p.Stats())
	}
	gpu.drain()
	if strings.Join(order, "") != "ab" {
		t.Errorf("order %v", order)
	}
	// The rest is still a's, without a wait.
	z := allocOn(t, p, 2048, a)
	if a.waits != 0 || p.Stats().Slabs != 1 {
		t.Errorf("%d waits, %+v", a.waits, p.Stats())
	}
	y.Release()
	z.Release()
}

// Pieces of several streams are joined when only together they are large enough.
func TestMerge(t *testing.T) {
	gpu := new(fakeGPU)
	a, b, c := gpu.stream(), gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	x, y, z := allocOn(t, p, 1024, a), allocOn(t, p, 1024, b), allocOn(t, p, 1024, c)
	for _, s := range []*fakeStream{a, b, c} {
		s.enqueue(func() {})
	}
	x.Release()
	y.Release()
	z.Release()
	all := allocOn(t, p, 4096, c)
	if a.marks != 1 || b.marks != 1 || c.marks != 0 || c.waits != 2 {
		t.Errorf("marks %d %d %d, %d waits", a.marks, b.marks, c.marks, c.waits)
	}
	all.Release()
	// Too little in all: nobody is marked in vain.
	if _, err := mem.AllocOn(t.Context(), p, 8192, a); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Error(err)
	}
	if a.marks != 1 {
		t.Errorf("%d marks", a.marks)
	}
	gpu.drain()
}

// Memory for everybody is what no stream works on: idle ones give theirs at once, others are
// waited for when the pool may not grow.
func TestAllocTakesFromStreams(t *testing.T) {
	gpu := new(fakeGPU)
	s := gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	allocOn(t, p, 4096, s).Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Alloc(ctx, 4096); !errors.Is(err, context.DeadlineExceeded) { // its mark is not done
		t.Fatalf("memory of a busy stream was handed out: %v", err)
	}
	gpu.drain()
	gpu.onQuery = true
	b := alloc(t, p, 4096)
	if st := p.Stats(); st.StreamFree != 0 || st.Quarantined != 0 {
		t.Errorf("%+v", st)
	}
	// And back: a full pool has nothing for the stream until it is released.
	if _, err := p.AllocOn(t.Context(), 1, s); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("%v", err)
	}
	b.Release()
	allocOn(t, p, 1, s).Release()
	gpu.drain()
	if n := p.Trim(); n != 4096 {
		gpu.drain()
		if n = p.Trim(); n != 4096 {
			t.Errorf("Trim gave back %d: %+v", n, p.Stats())
		}
	}
}

// A stream that ends leaves its memory to all, after its last work; also what is released later.
func TestStreamEnds(t *testing.T) {
	gpu := new(fakeGPU)
	s, other := gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	early, late := allocOn(t, p, 2048, s), allocOn(t, p, 2048, s)
	s.enqueue(func() {})
	early.Release()
	s.Close()
	if st := p.Stats(); st.Quarantined != 2048 || st.Streams != 0 {
		t.Errorf("closed: %+v", st)
	}
	late.Release()
	if st := p.Stats(); st.Quarantined != 4096 {
		t.Errorf("released later: %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.AllocOn(ctx, 1, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("memory of a closed stream that still works: %v", err)
	}
	gpu.drain()
	b := allocOn(t, p, 4096, other)
	if other.waits != 0 {
		t.Errorf("%d waits for what is done", other.waits)
	}
	b.Release()
	other.Close()
	gpu.drain()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Memory of a stream that cannot be marked is nobody's: it is not handed out, and goes with the pool.
func TestStranded(t *testing.T) {
	gpu := new(fakeGPU)
	s, other := gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 8192})
	b := allocOn(t, p, 4096, s)
	at := b.Addr()
	b.Release()
	s.markErr = errors.New("broken")
	c := allocOn(t, p, 4096, other)
	if c.Addr() == at {
		t.Fatal("handed out without an order")
	}
	if _, err := p.Alloc(t.Context(), 4096); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("%v", err)
	}
	// A stream that cannot wait gets nothing of others, and nothing is lost by it.
	c.Release()
	gpu.onQuery = true
	third := gpu.stream()
	third.waitErr = errors.New("no waiting")
	d := allocOn(t, p, 4096, third) // when the others are done
	if third.waits == 0 || d.Addr() == at {
		t.Errorf("%d waits tried, at %#x", third.waits, d.Addr())
	}
	d.Release()
	s.Close()
	gpu.drain()
	for range 10 {
		if err := p.Close(); err == nil {
			return
		}
	}
	t.Errorf("%v: %+v", p.Close(), p.Stats())
}

// A waiter on a full pool is served by what another stream releases.
func TestStreamWaiter(t *testing.T) {
	gpu := &fakeGPU{onQuery: true}
	a, b := gpu.stream(), gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096, Wait: true})
	held := allocOn(t, p, 4096, a)
	got := make(chan error)
	go func() {
		c, err := p.AllocOn(context.Background(), 100, b)
		if err == nil {
			c.Release()
		}
		got <- err
	}()
	for p.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	held.Release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// With Double a pool has few regions however large it gets, and the last ones fit below MaxBytes.
func TestPoolDoubles(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, Double: true})
	var held []*mem.Buffer
	for range 256 {
		held = append(held, alloc(t, p, 4096))
	}
	if s := p.Stats(); s.Slabs != 9 || s.Reserved != 256*4096 {
		t.Errorf("%+v", s)
	}
	for _, b := range held {
		b.Release()
	}
	p = newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, InitialBytes: 8192, MaxBytes: 64 << 10, Double: true})
	a, b := alloc(t, p, 8192), alloc(t, p, 256)
	if s := p.Stats(); s.Slabs != 2 || s.Reserved != 8192+(64<<10-8192)/2 {
		t.Errorf("half of what is left: %+v", s)
	}
	a.Release()
	b.Release()
}

// The adaptors hand streams on and write down which it was.
func TestAdaptorsOnStreams(t *testing.T) {
	gpu := new(fakeGPU)
	s := gpu.stream()
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	var text strings.Builder
	log := must(mem.NewAllocLog(p, &text, mem.AllocLogConfig{Flush: true}))
	track := must(mem.NewTracking(log, mem.TrackingConfig{Stacks: true}))
	stats := must(mem.NewStatistics(track))
	limit := must(mem.NewLimit(stats, 1<<20))
	top := must(mem.NewOnFailure(limit, func(context.Context, int, error) bool { return false }))
	b := allocOn(t, top, 1000, s)
	list := track.Outstanding()
	if len(list) != 1 || list[0].Stream != s.Handle() || !strings.Contains(list[0].Stack, "TestAdaptorsOnStreams") ||
		strings.Contains(list[0].Stack, "Tracking).AllocOn\n\t\tx") {
		t.Errorf("%+v", list)
	}
	if st := p.Stats(); st.Streams != 1 {
		t.Errorf("the pool saw no stream: %+v", st)
	}
	b.Release()
	if _, err := mem.AllocOn(t.Context(), top, 5000, s); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Error(err)
	}
	for _, want := range []string{",allocate,0x", ",1000,0x100\n", ",free,0x", ",allocate failure,0x0,5000,0x100\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Count(text.String(), ",1000,0x100\n") != 2 {
		t.Errorf("the stream of a release:\n%s", text.String())
	}
	// A resource without streams serves them too.
	allocOn(t, mem.Heap, 10, s).Release()
	gpu.drain()
}
