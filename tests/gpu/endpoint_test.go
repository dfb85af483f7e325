package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// TestGPUSocketEndpoint moves device memory over endpoints of UCX's own connection manager, which is
// how UCXX connects, and loses the peer with a large send pending.
func TestGPUSocketEndpoint(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	w := newWorker(t, ipc, ucx.WorkerConfig{})
	h := openHelper(t, order{Do: "open", Options: ipc, Socket: true})
	accept := h.start(order{Do: "accept", Socket: true})
	ep, err := w.DialSocket(ctx, h.address, nil)
	must(t, err)
	number := accept.wait().Number
	for _, n := range sizes {
		tagThere(t, h, ep, number, "device", "device", n, false)
		tagBack(t, h, ep, number, "device", "device", n, false)
	}
	checkTransports(t, ep, "cuda_ipc")
	b := testBlock(t, ctx, "device", 64<<20)
	r := ep.StartSend(b.view(), 1)
	time.Sleep(20 * time.Millisecond)
	start := time.Now()
	must(t, h.cmd.Process.Kill())
	if err := r.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a send to a killed peer: %v", err)
	}
	t.Logf("the send ended %.1f ms after the kill", float64(time.Since(start).Microseconds())/1000)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("the send ended %v after the kill", d)
	}
	b.release()
	_ = ep.Close()
}

// TestGPUConcurrent has many goroutines move device memory of all sizes over one endpoint, both ways.
func TestGPUConcurrent(t *testing.T) {
	requireGPU(t)
	for _, mode := range []ucx.ProgressMode{ucx.Adaptive, ucx.Thread} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			h, w, ep, number := connected(t, ipc, mode)
			var all sync.WaitGroup
			for g := range 16 {
				all.Go(func() {
					for range 15 {
						n := 1 + rand.IntN(1<<(4+rand.IntN(19)))
						if g%2 == 0 {
							concurrentSend(t, h, ep, number, n)
						} else {
							concurrentRecv(t, h, ep, number, n)
						}
					}
				})
			}
			all.Wait()
			if n := w.Stats().InFlight; n != 0 {
				t.Errorf("%d operations in flight", n)
			}
			must(t, ep.Close())
			h.quit()
		})
	}
}

// concurrentSend is tagThere for a goroutine that must not end the test.
func concurrentSend(t *testing.T, h *helper, ep *ucx.Endpoint, number, n int) {
	ctx := testContext(t)
	pat, tag := seed(), seed()
	b, err := newFilled(ctx, "device", n, pat)
	if err != nil {
		t.Error(err)
		return
	}
	defer b.release()
	recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat})
	if err := ep.Send(ctx, b.view(), tag); err != nil {
		t.Errorf("send of %d bytes: %v", n, err)
	}
	if a := recv.result(); a.Err != "" {
		t.Errorf("%d bytes: %s", n, a.Err)
	}
}

func concurrentRecv(t *testing.T, h *helper, ep *ucx.Endpoint, number, n int) {
	ctx := testContext(t)
	pat, tag := seed(), seed()
	b, err := newFilled(ctx, "device", n, seed())
	if err != nil {
		t.Error(err)
		return
	}
	defer b.release()
	send := h.start(order{Do: "send", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat})
	if _, err := ep.Recv(ctx, b.view(), tag, ucx.FullMask); err != nil {
		t.Errorf("receive of %d bytes: %v", n, err)
	}
	if a := send.result(); a.Err != "" {
		t.Errorf("%d bytes: %s", n, a.Err)
	}
	if err := b.check(ctx, pat); err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// TestGPUStreamOrderedMemory sends and receives memory of cuMemAllocAsync, which other processes cannot
// map by the usual handles.
func TestGPUStreamOrderedMemory(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	for _, n := range []int{1, 5000, 200_001, 8<<20 + 3} {
		for _, k := range [][2]string{{"async", "device"}, {"device", "async"}, {"async", "async"}, {"async", "heap"}} {
			tagThere(t, h, ep, number, k[0], k[1], n, false)
			tagBack(t, h, ep, number, k[0], k[1], n, false)
		}
	}
	must(t, ep.Close())
	h.quit()
}

// foreign gives memory that another library owns, as far as this one knows.
type foreign struct{ mem.Resource }

func (f foreign) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	owner, err := f.Resource.Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	return cuda.FromPointer(owner.Addr(), n, owner.Release)
}

// TestGPUForeignMemory sends and receives memory that somebody else allocated, at addresses within it.
func TestGPUForeignMemory(t *testing.T) {
	requireGPU(t)
	h, w, ep, number := connected(t, ipc, ucx.Adaptive)
	before, _ := mem.Live()
	for _, n := range []int{1, 5000, 200_001, 8<<20 + 3} {
		for _, kind := range []string{"device", "managed", "foreign"} {
			tagThere(t, h, ep, number, "foreign", kind, n, false)
			tagBack(t, h, ep, number, kind, "foreign", n, false)
		}
	}
	if after, _ := mem.Live(); after != before || w.Context().Info().Registrations != 0 {
		t.Errorf("%d regions and %d registrations left", after-before, w.Context().Info().Registrations)
	}
	must(t, ep.Close())
	h.quit()
}
