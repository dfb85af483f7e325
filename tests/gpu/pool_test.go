package gpu

import (
	"slices"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// TestGPUPool: many buffers of a pool are one registration, and memory that comes back serves again.
func TestGPUPool(t *testing.T) {
	requireGPU(t)
	h, w, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	before, _ := mem.Live()
	pool, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{SlabBytes: 64 << 20, MaxBytes: 64 << 20})
	must(t, err)
	for round := range 3 {
		var blocks []*block
		for i := range 20 {
			n := 1 + i*(round+1)*33_331
			b, err := newBlock(ctx, pool, n)
			must(t, err)
			blocks = append(blocks, b)
			pat, tag := seed(), seed()
			must(t, b.fill(ctx, pat))
			recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat})
			must(t, ep.Send(ctx, b.view(), tag))
			recv.wait()
		}
		if n := w.Context().Info().Registrations; n != 1 {
			t.Errorf("round %d: %d registrations, want 1", round, n)
		}
		for _, b := range blocks { // now receive into them
			pat, tag := seed(), seed()
			send := h.start(order{Do: "send", Endpoint: number, Kind: "device", N: b.inner.Len(), Tag: tag, Seed: pat})
			_, err := ep.Recv(ctx, b.view(), tag, ucx.FullMask)
			must(t, err)
			send.wait()
			must(t, b.check(ctx, pat))
			b.release()
		}
	}
	if s := pool.Stats(); s.Slabs != 1 || s.Outstanding != 0 {
		t.Errorf("pool: %+v", s)
	}
	must(t, pool.Close())
	if n := w.Context().Info().Registrations; n != 0 {
		t.Errorf("%d registrations after the pool was closed", n)
	}
	if after, _ := mem.Live(); after != before {
		t.Errorf("%d regions left", after-before)
	}
	must(t, ep.Close())
	h.quit()
}

// TestGPUAlloc sends memory that UCX itself allocated on the device.
func TestGPUAlloc(t *testing.T) {
	requireGPU(t)
	h, w, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	for _, kind := range []mem.Kind{mem.Device, mem.Managed} {
		if !slices.Contains(w.Context().Info().Memory, kind) {
			t.Errorf("UCX does not support %s memory", kind)
			continue
		}
		for _, n := range []int{100, 1<<20 + 1} {
			b, err := newBlock(ctx, w.Context().Resource(kind, device), n)
			must(t, err)
			if b.inner.Kind() != kind || b.inner.Device() != device {
				t.Errorf("%v", b.inner)
			}
			a, err := cuda.Pointer(b.inner.Addr())
			must(t, err)
			if a.Kind != kind {
				t.Errorf("the driver calls it %s memory, UCX %s", a.Kind, kind)
			}
			pat, tag := seed(), seed()
			must(t, b.fill(ctx, pat))
			recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat})
			must(t, ep.Send(ctx, b.view(), tag))
			recv.wait()
			b.release()
		}
	}
	must(t, ep.Close())
	h.quit()
}

// TestGPUReuseOfAddresses: freed memory and new memory at the same address are told apart, although
// the peer keeps mappings of what it has seen.
func TestGPUReuseOfAddresses(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	seen := map[uintptr]int{}
	again := 0
	for i := range 40 {
		ctx := testContext(t)
		b := testBlock(t, ctx, "device", 2<<20+i%3*(1<<20))
		if seen[b.whole.Addr()]++; seen[b.whole.Addr()] > 1 {
			again++
		}
		pat, tag := seed(), seed()
		must(t, b.fill(ctx, pat))
		recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: b.inner.Len(), Tag: tag, Seed: pat})
		must(t, ep.Send(ctx, b.view(), tag))
		recv.wait()
		b.release()
	}
	t.Logf("%d of 40 allocations were at an address used before", again)
	must(t, ep.Close())
	h.quit()
}
