package gpu

import (
	"bytes"
	"fmt"
	"testing"

	"go.millstream.dev/ucx"
)

// TestGPURemoteMemory writes and reads device memory that the other process registered; its program
// takes no part.
func TestGPURemoteMemory(t *testing.T) {
	requireGPU(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			h, _, ep, _ := connected(t, s.options, ucx.Adaptive)
			for _, n := range sizes {
				rk, block := remote(t, h, ep, "device", n)
				for _, local := range []string{"device", "heap", "pinned"} {
					if n > 8<<20 && local != "device" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s", local, byteCount(n)), func(t *testing.T) {
						h.t = t
						putGet(t, h, ep, rk, block, local, n)
					})
				}
				h.t = t
				rk.Release()
			}
			checkTransports(t, ep, s.transport)
			must(t, ep.Close())
			h.quit()
		})
	}
}

// remote has the other process register memory and opens its key.
func remote(t testing.TB, h *helper, ep *ucx.Endpoint, kind string, n int) (*ucx.RemoteKey, int) {
	t.Helper()
	a := h.do(order{Do: "register", Kind: kind, N: n, Seed: seed()})
	var key ucx.MemoryKey
	must(t, key.UnmarshalBinary(a.Key))
	rk, err := ep.Unpack(key)
	must(t, err)
	if rk.Len() != int64(n) || rk.Kind().String() != kind {
		t.Errorf("remote key of %d bytes of %s memory, want %d of %s", rk.Len(), rk.Kind(), n, kind)
	}
	return rk, a.Number
}

func putGet(t testing.TB, h *helper, ep *ucx.Endpoint, rk *ucx.RemoteKey, number int, local string, n int) {
	t.Helper()
	ctx := testContext(t)
	b := testBlock(t, ctx, local, n)
	defer b.release()
	for range 2 {
		pat := seed()
		must(t, b.fill(ctx, pat))
		must(t, ep.Put(ctx, b.view(), rk, 0))
		must(t, ep.Flush(ctx))
		h.do(order{Do: "check", Block: number, Seed: pat})
		must(t, b.check(ctx, pat))

		pat = seed()
		h.do(order{Do: "fill", Block: number, Seed: pat})
		must(t, ep.Get(ctx, b.view(), rk, 0))
		must(t, b.check(ctx, pat))
	}
	if n < 3 {
		return
	}
	// A part in the middle, at an odd place: the rest stays.
	pat := seed()
	h.do(order{Do: "fill", Block: number, Seed: pat})
	must(t, b.fill(ctx, seed()))
	must(t, ep.Get(ctx, b.view().Slice(1, n-2), rk, 1))
	host := pattern(pat, n)
	edge := b.read(t, ctx)
	host[0], host[n-1] = edge[0], edge[n-1] // not part of the transfer
	must(t, b.compare(ctx, host))
	must(t, b.fill(ctx, pat))
	must(t, ep.Put(ctx, b.view().Slice(1, n-2), rk, 1)) // what is there already
	must(t, ep.Flush(ctx))
	h.do(order{Do: "check", Block: number, Seed: pat})
}

// TestGPURemoteManaged does the same with managed memory, which cannot be mapped by another process.
func TestGPURemoteManaged(t *testing.T) {
	requireGPU(t)
	h, _, ep, _ := connected(t, ipc, ucx.Adaptive)
	for _, n := range []int{100, 1<<20 + 1} {
		rk, block := remote(t, h, ep, "managed", n)
		putGet(t, h, ep, rk, block, "device", n)
		putGet(t, h, ep, rk, block, "managed", n)
	}
	must(t, ep.Close())
	h.quit()
}

// TestGPURemoteFile reads and writes device memory of the other process as a file.
func TestGPURemoteFile(t *testing.T) {
	requireGPU(t)
	h, _, ep, _ := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	const n = 300_001
	rk, block := remote(t, h, ep, "device", n)
	f := ucx.NewRemoteFile(ctx, ep, rk)
	pat := seed()
	h.do(order{Do: "fill", Block: block, Seed: pat})
	got := make([]byte, n)
	if k, err := f.ReadAt(got, 0); err != nil || k != n || !bytes.Equal(got, pattern(pat, n)) {
		t.Errorf("read %d bytes, %v", k, err)
	}
	pat = seed()
	want := pattern(pat, n)
	for off := 0; off < n; off += 99_991 {
		end := min(off+99_991, n)
		if k, err := f.WriteAt(want[off:end], int64(off)); err != nil || k != end-off {
			t.Fatalf("write at %d: %d bytes, %v", off, k, err)
		}
	}
	h.do(order{Do: "check", Block: block, Seed: pat})
	must(t, ep.Close())
	h.quit()
}

// TestGPUManyPuts has many writes in flight on one key before a flush.
func TestGPUManyPuts(t *testing.T) {
	requireGPU(t)
	h, _, ep, _ := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	const part, parts = 1<<20 + 1, 32
	rk, block := remote(t, h, ep, "device", part*parts)
	b := testBlock(t, ctx, "device", part*parts)
	defer b.release()
	for range 3 {
		pat := seed()
		must(t, b.fill(ctx, pat))
		var open []*ucx.Request
		for i := range parts {
			open = append(open, ep.StartPut(b.view().Slice(i*part, part), rk, int64(i*part)))
		}
		must(t, ep.Flush(ctx))
		for _, r := range open {
			must(t, r.Wait(ctx))
		}
		h.do(order{Do: "check", Block: block, Seed: pat})
	}
	must(t, ep.Close())
	h.quit()
}
