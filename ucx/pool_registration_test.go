package ucx

import (
	"bytes"
	"sync/atomic"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/obs"
)

// TestPoolRegistersOnce: a thousand buffers of one pool are one registration on either side,
// whatever their sizes and however often their memory changes hands.
func TestPoolRegistersOnce(t *testing.T) {
	var registered, bytesIn atomic.Int64
	ep, owner := rmaPair(t, Config{Events: Events{Registered: func(r obs.Registration) {
		registered.Add(1)
		bytesIn.Add(int64(r.Bytes))
	}}})
	ctx := testContext(t)
	registered.Store(0)
	bytesIn.Store(0)
	const size = 8 << 20
	source, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{InitialBytes: size, MaxBytes: size})
	if err != nil {
		t.Fatal(err)
	}
	target, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{InitialBytes: size, MaxBytes: size})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		n := 1 + i*37%40000
		from, err := source.Alloc(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		to, err := target.Alloc(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		from.Bytes()[0], from.Bytes()[n-1] = byte(i), byte(i>>8)
		m, err := owner.Register(Buffer(to))
		if err != nil {
			t.Fatal(err)
		}
		rk := unpack(t, ep, m.Key())
		if err := ep.Put(ctx, Buffer(from), rk, 0); err != nil {
			t.Fatal(err)
		}
		if err := ep.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(to.Bytes(), from.Bytes()) {
			t.Fatal(firstDifference(to.Bytes(), from.Bytes()))
		}
		rk.Release()
		m.Release()
		from.Release()
		to.Release()
	}
	want := int64(1)
	if owner.lib.AtLeast(1, 16) { // before, UCX takes no handles of the sender's memory
		want = 2
	}
	if n, b := registered.Load(), bytesIn.Load(); n != want || b != want*size {
		t.Errorf("%d registrations of %d bytes, want %d: one of each pool", n, b, want)
	}
	for _, p := range []*mem.Pool{source, target} {
		if s := p.Stats(); s.Slabs != 1 || s.Allocs != 1000 {
			t.Errorf("%+v", s)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
