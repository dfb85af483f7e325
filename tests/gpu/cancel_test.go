package gpu

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// TestGPUPeerStopped: with the peer stopped, every operation on device memory returns at its deadline,
// nothing is written to its memory afterwards, and other endpoints go on.
func TestGPUPeerStopped(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	before, _ := mem.Live()
	w := newWorker(t, ipc, ucx.WorkerConfig{})
	h := startHelper(t, ipc, ucx.Adaptive)
	awake := startHelper(t, ipc, ucx.Adaptive)
	other, otherNumber := awake.dial(w)
	h.do(order{Do: "open-am", Tag: 5})

	const n = 64 << 20
	type attempt struct {
		what   string
		run    func(ctx context.Context, ep *ucx.Endpoint, b *block) error
		before func(number int) *pending // what the peer does before it is stopped
		ep     *ucx.Endpoint
		number int
		b      *block
		there  *pending
	}
	attempts := []*attempt{
		{what: "send, unmatched", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			return ep.Send(ctx, b.view(), 10)
		}},
		{what: "send, matched",
			before: func(number int) *pending {
				return h.start(order{Do: "recv", Endpoint: number, Kind: "device", N: n, Tag: 11, Canary: true}).begun()
			},
			run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error { return ep.Send(ctx, b.view(), 11) }},
		{what: "sync send", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			return ep.SendSync(ctx, b.view(), 12)
		}},
		{what: "active message", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			return ep.SendAM(ctx, 5, nil, ucx.AMOptions{Rendezvous: true}, b.view())
		}},
		{what: "frames", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			return ep.SendFrames(ctx, b.view())
		}},
		{what: "receive", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			_, err := ep.Recv(ctx, b.view(), 13, ucx.FullMask)
			return err
		}},
		{what: "stream receive", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			_, err := ep.RecvStream(ctx, b.view(), true)
			return err
		}},
		{what: "frames receive", run: func(ctx context.Context, ep *ucx.Endpoint, b *block) error {
			f, err := ep.RecvFrames(ctx, ucx.Allocators{})
			f.Release()
			return err
		}},
	}
	for _, a := range attempts {
		a.ep, a.number = h.dial(w)
		a.b = testBlock(t, ctx, "device", n)
		tagThere(t, h, a.ep, a.number, "device", "device", 2<<20, false)
		if a.before != nil {
			a.there = a.before(a.number)
		}
	}
	h.signal(syscall.SIGSTOP)
	marks := make([]uint64, len(attempts))
	for i, a := range attempts {
		short, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
		start := time.Now()
		err := a.run(short, a.ep, a.b)
		took := time.Since(start)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the deadline's error", a.what, err)
		}
		t.Logf("%s returned after %.1f ms", a.what, float64(took.Microseconds())/1000)
		if took > 5*time.Second {
			t.Errorf("%s returned %v after a deadline of 150 ms", a.what, took)
		}
		marks[i] = seed()
		must(t, a.b.fill(ctx, marks[i])) // the memory is ours again
		tagThere(t, awake, other, otherNumber, "device", "device", 3<<20, false)
	}
	sends := attempts[5] // its peer sends now what the receive has waited for
	must(t, h.cmd.Process.Signal(syscall.SIGCONT))
	late := h.start(order{Do: "send", Endpoint: sends.number, Kind: "device", N: n, Tag: 13, Seed: seed()})
	for _, a := range attempts {
		if a.there != nil {
			a.there.wait()
		}
	}
	time.Sleep(500 * time.Millisecond)
	for i, a := range attempts {
		if err := a.b.check(ctx, marks[i]); err != nil {
			t.Errorf("%s: written after the call has returned: %v", a.what, err)
		}
	}
	for _, a := range attempts {
		a.b.release()
		_ = a.ep.Close() // most are closed by force already
	}
	late.result() // whether it arrived or not, it has ended
	tagThere(t, awake, other, otherNumber, "device", "device", 3<<20, false)
	must(t, other.Close())
	awake.quit()
	h.quit()
	if n := w.Stats().InFlight; n != 0 {
		t.Errorf("%d operations in flight", n)
	}
	if after, _ := mem.Live(); after != before {
		t.Errorf("%d regions left", after-before)
	}
}

// TestGPUCancelUnmatched: an unmatched receive into device memory ends at once and alone.
func TestGPUCancelUnmatched(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	b := testBlock(t, ctx, "device", 1<<20)
	r := ep.StartRecv(b.view(), 77, ucx.FullMask)
	r.Cancel()
	if err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled receive: %v", err)
	}
	mark := seed()
	must(t, b.fill(ctx, mark))
	pat := seed()
	send := h.start(order{Do: "send", Endpoint: number, Kind: "device", N: b.inner.Len(), Tag: 77, Seed: pat}).begun()
	tagBack(t, h, ep, number, "device", "device", 1<<20, false)
	must(t, b.check(ctx, mark))
	_, err := ep.Recv(ctx, b.view(), 77, ucx.FullMask) // the message itself is not lost
	must(t, err)
	must(t, b.check(ctx, pat))
	send.wait()
	b.release()
	must(t, ep.Close())
	h.quit()
}
