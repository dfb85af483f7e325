package mem_test

import (
	"context"
	"errors"
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
