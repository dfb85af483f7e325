package ucx

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/obs"
)

// newContext makes a context that ends with the test.
func newContext(t testing.TB, cfg Config) *Context {
	t.Helper()
	c, err := NewContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestMemAlloc: UCX's memory is plain memory of the asked length, and goes with its
// last reference.
func TestMemAlloc(t *testing.T) {
	c := newContext(t, Config{})
	for _, n := range []int{0, 1, 4095, 4096, 1<<20 + 1} {
		regions, bytesBefore := mem.Live()
		b, err := c.Alloc(n, mem.Host)
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() != n || b.Kind() != mem.Host || b.Device() != -1 {
			t.Errorf("%d bytes: %v", n, b)
		}
		fill(b.Bytes())
		part := b.Slice(n/2, n-n/2)
		b.Release()
		fill(part.Bytes()) // the slice keeps it
		want := 0
		if n > 0 {
			want = 1
		}
		if got := c.Info().Registrations; got != want {
			t.Errorf("%d bytes: %d registrations, want %d", n, got, want)
		}
		part.Release()
		if got := c.Info().Registrations; got != 0 {
			t.Errorf("%d bytes: %d registrations after the release", n, got)
		}
		if r, b := mem.Live(); r != regions || b != bytesBefore {
			t.Errorf("%d bytes: %d regions of %d bytes live, %d of %d before", n, r, b, regions, bytesBefore)
		}
	}
}

func TestMemAllocRefuses(t *testing.T) {
	c := newContext(t, Config{})
	for _, n := range []int{-1, maxAlloc + 1} {
		if _, err := c.Alloc(n, mem.Host); !errors.Is(err, ErrInvalidParam) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := c.Alloc(64, mem.Pinned); !errors.Is(err, errUnsupported) ||
		!strings.Contains(err.Error(), "mem.NewMmap") {
		t.Errorf("pinned memory: %v", err)
	}
	if !c.supports(mem.Device) {
		if _, err := c.Alloc(64, mem.Device); !errors.Is(err, errUnsupported) ||
			!strings.Contains(err.Error(), "cuda") {
			t.Errorf("device memory: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Resource(mem.Host, 0).Alloc(ctx, 64); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestMemPool: a pool on UCX's memory registers its slab once, whatever is taken from it.
func TestMemPool(t *testing.T) {
	var registered atomic.Int32
	cfg := Config{Events: Events{Registered: func(obs.Registration) { registered.Add(1) }}}
	ep, owner := rmaPair(t, cfg)
	registered.Store(0)
	ctx := testContext(t)
	pool, err := mem.NewPool(owner.Resource(mem.Host, 0), mem.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b, err := pool.Alloc(ctx, 5000)
		if err != nil {
			t.Fatal(err)
		}
		m, err := owner.Register(Buffer(b))
		if err != nil {
			t.Fatal(err)
		}
		rk := unpack(t, ep, m.Key())
		src := make([]byte, 5000)
		fill(src)
		if err := ep.Put(ctx, Bytes(src), rk, 0); err != nil {
			t.Fatal(err)
		}
		if err := ep.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), src) {
			t.Fatal(firstDifference(b.Bytes(), src))
		}
		rk.Release()
		m.Release()
		b.Release()
	}
	if n := registered.Load(); n != 1 {
		t.Errorf("%d registrations for one slab", n)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// TestMemoryHandle: what Register returns describes the memory, and keeps it.
func TestMemoryHandle(t *testing.T) {
	c := newContext(t, Config{})
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 8192)
	if err != nil {
		t.Fatal(err)
	}
	addr := buf.Addr()
	m, err := c.Register(Buffer(buf).Slice(100, 1000))
	if err != nil {
		t.Fatal(err)
	}
	buf.Release()
	fill(m.Buffer().Bytes())
	k := m.Key()
	if k.Len() != 1000 || k.addr != uint64(addr)+100 || k.Kind() != mem.Host || k.readOnly {
		t.Errorf("got %v, want a key to 1000 bytes of host memory", k)
	}
	if got := c.Info().Registrations; got != 1 {
		t.Errorf("%d registrations", got)
	}
	m.Release()
	m.Release()
	if got := c.Info().Registrations; got != 0 {
		t.Errorf("%d registrations after the release", got)
	}
	if m.Key().Len() != 1000 {
		t.Error("the key is gone")
	}
}

func TestRegisterRefuses(t *testing.T) {
	c := newContext(t, Config{})
	ro := mem.NewRegion(mem.RegionConfig{Heap: make([]byte, 10)}).Buffer()
	for name, x := range map[string]struct {
		v    View
		text string
	}{
		"a slice":         {Bytes(make([]byte, 8)), "mem.NewMmap"},
		"numbers":         {Of([]float64{1, 2}), "mem.Pool"},
		"a heap buffer":   {Buffer(mem.FromBytes(make([]byte, 8))), "Go memory"},
		"a heap region":   {Buffer(ro), "Context.Alloc"},
		"nothing":         {Bytes(nil), "cannot register an empty view"},
		"no buffer":       {Buffer(nil), "nil *mem.Buffer"},
		"a part too long": {Bytes(make([]byte, 8)).Slice(4, 5), "slice"},
	} {
		if _, err := c.Register(x.v); err == nil || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := c.Info().Registrations; got != 0 {
		t.Errorf("%d registrations are left", got)
	}
	tag := newContext(t, Config{Features: Tag})
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	if _, err := tag.Register(Buffer(buf)); err == nil || !strings.Contains(err.Error(), "Config.Features") {
		t.Errorf("without the features: %v", err)
	}
}

// TestMemoryContextClose: a context does not take allocated memory away from those who
// use it; registrations of others' memory end with it.
func TestMemoryContextClose(t *testing.T) {
	c, err := NewContext(Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Alloc(100, mem.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "1 buffers") {
		t.Errorf("close with memory in use: %v", err)
	}
	fill(b.Bytes())
	b.Release()
	buf, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 64)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Register(Buffer(buf))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Alloc(100, mem.Host); !errors.Is(err, ErrClosed) {
		t.Errorf("alloc after close: %v", err)
	}
	if _, err := c.Register(Buffer(buf)); !errors.Is(err, ErrClosed) {
		t.Errorf("register after close: %v", err)
	}
	m.Release()
	buf.Release()
}

// A context does not close under an allocation that is being made: the allocation, or the
// close, is refused.
func TestAllocWhileClosing(t *testing.T) {
	for round := range 200 {
		c, err := NewContext(Config{})
		if err != nil {
			t.Fatal(err)
		}
		begun, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(begun)
			b, err := c.Alloc(100, mem.Host)
			if err == nil {
				b.Bytes()[0] = 1
				b.Release()
			} else if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}()
		<-begun
		time.Sleep(time.Duration(round) * time.Microsecond)
		for c.Close() != nil { // refused while the allocation is alive
		}
		<-done
	}
}

// TestMemoryConcurrent registers, allocates and releases from many goroutines while
// the context is closed under them: each call works or says closed.
func TestMemoryConcurrent(t *testing.T) {
	for range 10 {
		c, err := NewContext(Config{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					b, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 4096)
					if err != nil {
						t.Error(err)
						return
					}
					m, err := c.Register(Buffer(b))
					b.Release()
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					m.Release()
					if b, err = c.Alloc(100, mem.Host); err == nil {
						b.Release()
					} else if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		for c.Close() != nil { // refused while an allocation is alive
		}
		all.Wait()
	}
}
