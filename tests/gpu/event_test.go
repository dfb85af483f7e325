package gpu

import (
	"context"
	"fmt"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// lateness is work that keeps a stream busy for many milliseconds, so that what is enqueued behind it
// is surely not done when the enqueuing call returns.
type lateness struct {
	stream *cuda.Stream
	load   *mem.Buffer
}

func newLateness(t testing.TB, ctx context.Context) *lateness {
	t.Helper()
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	load, err := cuda.NewDeviceResource(device).Alloc(ctx, 256<<20)
	must(t, err)
	t.Cleanup(func() {
		must(t, s.Wait(context.Background()))
		load.Release()
		must(t, s.Close())
	})
	return &lateness{s, load}
}

// write enqueues a copy of a pattern to b behind the work. It returns at once.
func (l *lateness) write(t testing.TB, ctx context.Context, b *mem.Buffer, pat uint64) {
	t.Helper()
	// From the device: a copy between two places in host memory makes its caller wait.
	src, err := cuda.NewDeviceResource(device).Alloc(ctx, b.Len())
	must(t, err)
	must(t, cuda.CopyFromHost(ctx, src, pattern(pat, b.Len())))
	for range 300 {
		_, err := l.stream.Fill(l.load, 1)
		must(t, err)
	}
	_, err = l.stream.Copy(b, src)
	must(t, err)
	src.Release() // the copy holds it
	if done, err := b.Ready().Query(); err != nil || done {
		t.Fatalf("the write is done already (%v): the test shows nothing", err)
	}
}

// TestGPUReadyEvent: a send right after an asynchronous write waits for it, whoever makes progress.
func TestGPUReadyEvent(t *testing.T) {
	requireGPU(t)
	for _, mode := range []ucx.ProgressMode{ucx.Adaptive, ucx.Polling, ucx.Thread} {
		for _, kind := range []string{"device", "pinned", "managed"} {
			t.Run(fmt.Sprintf("%v/%s", mode, kind), func(t *testing.T) {
				h, w, ep, number := connected(t, ipc, mode)
				ctx := testContext(t)
				late := newLateness(t, ctx)
				must(t, w.OpenAM(1))
				h.do(order{Do: "open-am", Tag: 1})
				for _, n := range []int{100, 1<<20 + 1, 16 << 20} {
					readyEvent(t, ctx, h, ep, number, late, kind, n)
				}
				must(t, ep.Close())
				h.quit()
			})
		}
	}
}

func readyEvent(t *testing.T, ctx context.Context, h *helper, ep *ucx.Endpoint, number int, late *lateness,
	kind string, n int) {
	t.Helper()
	b := testBlock(t, ctx, kind, n)
	defer b.release()
	// A call that blocks.
	pat, tag := seed(), seed()
	recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat}).begun()
	late.write(t, ctx, b.inner, pat)
	must(t, ep.Send(ctx, b.view(), tag))
	recv.wait()
	// A started one that nobody waits for in the library.
	pat, tag = seed(), seed()
	recv = h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat}).begun()
	late.write(t, ctx, b.inner, pat)
	r := ep.StartSend(b.view(), tag)
	select {
	case <-r.Done():
		must(t, r.Err())
	case <-ctx.Done():
		t.Fatal("a send that waits for the device is never sent")
	}
	recv.wait()
	// Order: a later message of the same tag does not overtake the one that waits.
	pat, tag = seed(), seed()
	second := seed()
	recv = h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat}).begun()
	other := testBlock(t, ctx, kind, n)
	defer other.release()
	must(t, other.fill(ctx, second))
	late.write(t, ctx, b.inner, pat)
	first := ep.StartSend(b.view(), tag)
	next := ep.StartSend(other.view(), tag)
	recv.wait()
	h.do(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: second})
	must(t, first.Wait(ctx))
	must(t, next.Wait(ctx))
	// Active messages, one part late and one in two parts.
	pat = seed()
	recv = h.start(order{Do: "recv-am", Tag: 1, Kind: "device", N: n, Seed: pat})
	late.write(t, ctx, b.inner, pat)
	must(t, ep.SendAM(ctx, 1, []byte("header"), ucx.AMOptions{}, b.view()))
	recv.wait()
	if kind == "device" {
		pat = seed()
		recv = h.start(order{Do: "recv-am", Tag: 1, Kind: "device", N: n, Seed: pat})
		late.write(t, ctx, b.inner, pat)
		left, right := b.inner.Slice(0, n/2), b.inner.Slice(n/2, n-n/2) // each carries the event
		must(t, ep.SendAM(ctx, 1, []byte("header"), ucx.AMOptions{}, ucx.Buffer(left), ucx.Buffer(right)))
		recv.wait()
		left.Release()
		right.Release()
	}
}

// TestGPUReadyEventReceive: a receive into memory that a stream still writes comes after that write.
func TestGPUReadyEventReceive(t *testing.T) {
	requireGPU(t)
	h, w, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	late := newLateness(t, ctx)
	must(t, w.OpenAM(1))
	for _, n := range []int{100, 4<<20 + 5} {
		b := testBlock(t, ctx, "device", n)
		pat, tag := seed(), seed()
		send := h.start(order{Do: "send", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat})
		late.write(t, ctx, b.inner, seed())
		_, err := ep.Recv(ctx, b.view(), tag, ucx.FullMask)
		must(t, err)
		send.wait()
		must(t, b.check(ctx, pat))
		for _, flags := range []amFlags{{Eager: true}, {Rendezvous: true}} {
			pat = seed()
			send := h.start(order{Do: "send-am", Endpoint: number, Tag: 1, Kind: "device", N: n, Seed: pat,
				Flags: flags})
			m, err := w.RecvAM(ctx, 1)
			must(t, err)
			late.write(t, ctx, b.inner, seed())
			must(t, m.Recv(ctx, b.view()))
			send.wait()
			if err := b.check(ctx, pat); err != nil {
				t.Errorf("%+v: %v", flags, err)
			}
		}
		b.release()
	}
	must(t, ep.Close())
	h.quit()
}

// TestGPUReadyEventRemote: a write to the other process waits for the device, and a flush for the write.
func TestGPUReadyEventRemote(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	late := newLateness(t, ctx)
	for _, n := range []int{100, 4<<20 + 5} {
		rk, block := remote(t, h, ep, "device", n)
		b := testBlock(t, ctx, "device", n)
		pat := seed()
		late.write(t, ctx, b.inner, pat)
		put := ep.StartPut(b.view(), rk, 0)
		must(t, ep.Flush(ctx))
		h.do(order{Do: "check", Block: block, Seed: pat})
		must(t, put.Wait(ctx))
		// Closing in peace takes along what waits.
		if n > 100 {
			pat, tag := seed(), seed()
			recv := h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: tag, Seed: pat}).begun()
			late.write(t, ctx, b.inner, pat)
			send := ep.StartSend(b.view(), tag)
			must(t, ep.Shutdown(ctx))
			must(t, send.Wait(ctx))
			recv.wait()
		}
		b.release()
	}
	h.quit()
}

// TestGPUReadyEventCancel: what waits for a device can be canceled, and ends with its endpoint.
func TestGPUReadyEventCancel(t *testing.T) {
	requireGPU(t)
	h, w, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	late := newLateness(t, ctx)
	b := testBlock(t, ctx, "device", 1<<20)
	late.write(t, ctx, b.inner, seed())
	r := ep.StartSend(b.view(), 1)
	r.Cancel()
	if err := r.Wait(ctx); err == nil {
		t.Error("a canceled send succeeded before its device was ready")
	}
	if done, err := b.inner.Ready().Query(); err != nil || done {
		t.Errorf("the cancel waited for the device: %v", err)
	}
	tagThere(t, h, ep, number, "device", "device", 1000, false) // the endpoint lives on
	late.write(t, ctx, b.inner, seed())
	r = ep.StartSend(b.view(), 1)
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := ep.Shutdown(short); err == nil {
		t.Error("a cut-off close reports no loss")
	}
	if err := r.Wait(ctx); err == nil {
		t.Error("a send succeeded on a closed endpoint")
	}
	if n := w.Stats().InFlight; n != 0 {
		t.Errorf("%d operations in flight", n)
	}
	b.release()
	h.quit()
}
