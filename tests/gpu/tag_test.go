package gpu

import (
	"errors"
	"fmt"
	"testing"

	"go.millstream.dev/ucx"
)

// TestGPUTag sends device memory both ways in all sizes, with a new pattern each round.
func TestGPUTag(t *testing.T) {
	requireGPU(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			h, _, ep, number := connected(t, s.options, ucx.Adaptive)
			for _, n := range sizes {
				for round := range 2 {
					tagThere(t, h, ep, number, "device", "device", n, round == 1)
					tagBack(t, h, ep, number, "device", "device", n, round == 1)
				}
			}
			checkTransports(t, ep, s.transport)
			must(t, ep.Close())
			h.quit()
		})
	}
}

// tagThere sends from this process; the other one receives and checks.
func tagThere(t testing.TB, h *helper, ep *ucx.Endpoint, number int, from, to string, n int, sync bool) {
	t.Helper()
	ctx := testContext(t)
	pat, tag := seed(), seed()
	b := testBlock(t, ctx, from, n)
	defer b.release()
	must(t, b.fill(ctx, pat))
	recv := h.start(order{Do: "recv", Endpoint: number, Kind: to, N: n, Tag: tag, Seed: pat})
	if sync {
		must(t, ep.SendSync(ctx, b.view(), tag))
	} else {
		must(t, ep.Send(ctx, b.view(), tag))
	}
	recv.wait()
	must(t, b.check(ctx, pat))
}

// tagBack receives here what the other process sends.
func tagBack(t testing.TB, h *helper, ep *ucx.Endpoint, number int, from, to string, n int, sync bool) {
	t.Helper()
	ctx := testContext(t)
	pat, tag := seed(), seed()
	b := testBlock(t, ctx, to, n)
	defer b.release()
	o := order{Do: "send", Endpoint: number, Kind: from, N: n, Tag: tag, Seed: pat}
	if sync {
		o.Do = "send-sync"
	}
	send := h.start(o)
	info, err := ep.Recv(ctx, b.view(), tag, ucx.FullMask)
	must(t, err)
	if info.Len != n || info.Tag != tag {
		t.Errorf("received %+v, want tag %d and %d bytes", info, tag, n)
	}
	send.wait()
	if err := b.check(ctx, pat); err != nil {
		t.Errorf("%s to %s, %d bytes: %v", from, to, n, err)
	}
}

// TestGPUKinds sends from each kind of memory to each.
func TestGPUKinds(t *testing.T) {
	requireGPU(t)
	kinds := []string{"device", "managed", "pinned", "heap", "mmap"}
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	for _, from := range kinds {
		for _, to := range kinds {
			for _, n := range []int{33, 5001, 3<<20 + 1} {
				t.Run(fmt.Sprintf("%s to %s/%s", from, to, byteCount(n)), func(t *testing.T) {
					h.t = t
					tagThere(t, h, ep, number, from, to, n, false)
					tagBack(t, h, ep, number, from, to, n, false)
				})
			}
		}
	}
	h.t = t
	must(t, ep.Close())
	h.quit()
}

// TestGPUStream moves device memory over UCX's byte streams.
func TestGPUStream(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	for _, n := range []int{1, 1000, 65537, 4<<20 + 3} {
		pat := seed()
		b := testBlock(t, ctx, "device", n)
		must(t, b.fill(ctx, pat))
		recv := h.start(order{Do: "recv-stream", Endpoint: number, Kind: "device", N: n, Seed: pat})
		must(t, ep.SendStream(ctx, b.view()))
		recv.wait()
		pat = seed()
		send := h.start(order{Do: "send-stream", Endpoint: number, Kind: "device", N: n, Seed: pat})
		got, err := ep.RecvStream(ctx, b.view(), true)
		must(t, err)
		send.wait()
		if err := b.check(ctx, pat); err != nil || got != n {
			t.Errorf("%d of %d bytes: %v", got, n, err)
		}
		b.release()
	}
	must(t, ep.Close())
	h.quit()
}

// TestGPUTruncated: a message that is too long for its device buffer writes nothing beyond it.
func TestGPUTruncated(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	for _, n := range []int{100, 2 << 20} {
		tag := seed()
		b := testBlock(t, ctx, "device", n-1)
		send := h.start(order{Do: "send", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: seed()})
		_, err := ep.Recv(ctx, b.view(), tag, ucx.FullMask)
		if !errors.Is(err, ucx.ErrTruncated) {
			t.Errorf("%d bytes into %d: %v", n, n-1, err)
		}
		send.wait()
		if err := b.compareGuards(ctx); err != nil {
			t.Error(err)
		}
		b.release()
	}
	tagBack(t, h, ep, number, "device", "device", 1000, false) // the endpoint lives on
	must(t, ep.Close())
	h.quit()
}
