package mem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

func newPool(t *testing.T, up mem.Resource, cfg mem.PoolConfig) *mem.Pool {
	t.Helper()
	p, err := mem.NewPool(up, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func alloc(t *testing.T, r mem.Resource, n int) *mem.Buffer {
	t.Helper()
	b, err := r.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != n {
		t.Fatalf("Alloc(%d) gave %d bytes", n, b.Len())
	}
	return b
}

func TestPoolSharesOneRegion(t *testing.T) {
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 20})
	a, b := alloc(t, p, 100), alloc(t, p, 1000)
	if a.Region() != b.Region() {
		t.Error("two buffers of one slab have different regions: a transport would register twice")
	}
	if a.Region().Len() != 1<<20 {
		t.Errorf("region of %d bytes", a.Region().Len())
	}
	if a.Addr()%256 != 0 || b.Addr()%256 != 0 {
		t.Errorf("addresses %#x %#x are not aligned", a.Addr(), b.Addr())
	}
	if err := p.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Errorf("Close with two buffers out: %v", err)
	}
	a.Release()
	b.Release()
	if s := p.Stats(); s.InUse != 0 || s.Outstanding != 0 || s.Frees != 2 || s.LargestFree != 1<<20 {
		t.Errorf("%+v", s)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := p.Alloc(t.Context(), 1); !errors.Is(err, mem.ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
}

func TestPoolKeepsMemoryForSlices(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	a := alloc(t, p, 4096)
	s := a.Slice(10, 20)
	a.Release()
	if _, err := p.Alloc(t.Context(), 1); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Fatalf("memory with a live slice was handed out again: %v", err)
	}
	copy(s.Bytes(), "still mine")
	s.Release()
	alloc(t, p, 4096).Release()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPoolWaits(t *testing.T) {
	p := newPool(t, mem.Heap, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096, Wait: true})
	a := alloc(t, p, 4096)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Alloc(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Alloc on a full pool: %v", err)
	}
	got := make(chan *mem.Buffer)
	go func() {
		b, err := p.Alloc(context.Background(), 4096)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	for p.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	a.Release()
	(<-got).Release()
	if _, err := p.Alloc(t.Context(), 4097); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("more than MaxBytes must fail at once, not wait: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPoolConfigErrors(t *testing.T) {
	for _, c := range []struct {
		up   mem.Resource
		cfg  mem.PoolConfig
		want string
	}{
		{nil, mem.PoolConfig{}, "no upstream"},
		{mem.Heap, mem.PoolConfig{Align: 3}, "power of two"},
		{mem.Heap, mem.PoolConfig{Align: -2}, "power of two"},
		{mem.Heap, mem.PoolConfig{SlabBytes: -1}, "negative size"},
		{mem.Heap, mem.PoolConfig{MaxBytes: -1}, "negative size"},
		{mem.Heap, mem.PoolConfig{MaxBytes: 10, InitialBytes: 11}, "InitialBytes 11 is more than MaxBytes 10"},
		{mem.Heap, mem.PoolConfig{InitialBytes: 100}, "alignment 256"},
	} {
		if _, err := mem.NewPool(c.up, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
	p := newPool(t, mem.Heap, mem.PoolConfig{})
	if _, err := p.Alloc(t.Context(), -5); err == nil || !strings.Contains(err.Error(), "negative size -5") {
		t.Error(err)
	}
	if s := p.Stats(); s.Slabs != 0 || s.Reserved != 0 {
		t.Errorf("an unused pool took memory: %+v", s)
	}
}

func TestPoolGrowsAndTrims(t *testing.T) {
	regions, _ := mem.Live()
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 8192, InitialBytes: 4096, MaxBytes: 32768})
	if s := p.Stats(); s.Slabs != 1 || s.Reserved != 4096 {
		t.Errorf("%+v", s)
	}
	a := alloc(t, p, 8192)
	big := alloc(t, p, 12288) // more than a slab
	if s := p.Stats(); s.Slabs != 3 || s.Reserved != 4096+8192+12288 || s.Peak != 8192+12288 {
		t.Errorf("%+v", s)
	}
	last := alloc(t, p, 8192) // the rest below MaxBytes
	if _, err := p.Alloc(t.Context(), 8192); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("beyond MaxBytes: %v", err)
	}
	big.Release()
	if n := p.Trim(); n != 4096+12288 {
		t.Errorf("Trim gave back %d", n)
	}
	a.Release()
	last.Release()
	// Two empty slabs of 8 KiB must make way for one request of 32 KiB.
	whole := alloc(t, p, 32768)
	if s := p.Stats(); s.Slabs != 1 || s.Reserved != 32768 {
		t.Errorf("%+v", s)
	}
	whole.Release()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := mem.Live(); n != regions {
		t.Errorf("%d regions left", n-regions)
	}
}

// scarce is an upstream that has a little memory, badly aligned.
type scarce struct {
	left  int
	shift int
}

func (s *scarce) Kind() mem.Kind { return mem.Host }
func (s *scarce) Device() int    { return -1 }
func (s *scarce) Alloc(_ context.Context, n int) (*mem.Buffer, error) {
	if n > s.left {
		return nil, mem.ErrOutOfMemory
	}
	s.left -= n
	page := mem.FromBytes(make([]byte, n+1<<16))
	off := int(-page.Addr()&(1<<16-1)) + s.shift
	return page.Slice(off, n), nil
}

func TestPoolOnScarceUpstream(t *testing.T) {
	p := newPool(t, &scarce{left: 10000}, mem.PoolConfig{SlabBytes: 1 << 20})
	b := alloc(t, p, 5000) // a whole slab does not fit, what is needed does
	if _, err := p.Alloc(t.Context(), 8000); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("%v", err)
	}
	if s := p.Stats(); s.Reserved != 8192 {
		t.Errorf("a failed slab stays in the books: %+v", s)
	}
	b.Release()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPoolAlignsAddresses(t *testing.T) {
	for _, align := range []int{1, 64, 256, 4096} {
		p := newPool(t, &scarce{left: 1 << 20, shift: 8}, mem.PoolConfig{SlabBytes: 1, Align: align})
		for _, n := range []int{0, 1, 63, 5000} {
			b := alloc(t, p, n)
			if b.Addr()%uintptr(align) != 0 {
				t.Errorf("align %d: %#x", align, b.Addr())
			}
			copy(b.Bytes(), "x")
			defer b.Release()
		}
	}
	// No room for the slack: an error, not an endless loop.
	p := newPool(t, &scarce{left: 1 << 20, shift: 8}, mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096, Align: 4096})
	if _, err := p.Alloc(t.Context(), 4096); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Error(err)
	}
}

func TestPoolOnPool(t *testing.T) {
	outer := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 1 << 16})
	inner := newPool(t, outer, mem.PoolConfig{SlabBytes: 1 << 14, Align: 64})
	a, b := alloc(t, inner, 100), alloc(t, inner, 1<<14)
	if a.Region() != b.Region() {
		t.Error("the inner pool must not hide the outer's one region")
	}
	a.Bytes()[0], b.Bytes()[0] = 1, 2
	if a.Bytes()[0] != 1 {
		t.Error("overlap")
	}
	if err := outer.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Error(err)
	}
	a.Release()
	b.Release()
	if err := inner.Close(); err != nil {
		t.Error(err)
	}
	if err := outer.Close(); err != nil {
		t.Error(err)
	}
}
