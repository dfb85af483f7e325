package gpu

import (
	"context"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// cudaFiles are what CUDA opens when it likes and keeps.
var cudaFiles = []leak.Option{leak.IgnoreFD("/dev/nvidia"), leak.IgnoreFD("/dev/null"),
	leak.IgnoreFD("anon_inode:[eventfd]"), leak.IgnoreFD("pipe:"), leak.IgnoreFD("/memfd:"), leak.IgnoreFD("socket:")}

// TestGPUPeerKilled: a peer that dies with large transfers pending fails each of them, and nothing stays.
func TestGPUPeerKilled(t *testing.T) {
	requireGPU(t)
	warm := testBlock(t, testContext(t), "device", 1) // CUDA's own threads and files
	warm.release()
	for range 2 {
		leak.Check(t, cudaFiles...)
		before, _ := mem.Live()
		w := newWorker(t, ipc, ucx.WorkerConfig{})
		killWithPending(t, w)
		if n := w.Stats(); n.InFlight != 0 {
			t.Errorf("%d operations in flight", n.InFlight)
		}
		if n := w.Context().Info().Registrations; n != 0 {
			t.Errorf("%d registrations left", n)
		}
		if after, _ := mem.Live(); after != before {
			t.Errorf("%d regions left", after-before)
		}
	}
}

func killWithPending(t *testing.T, w *ucx.Worker) {
	t.Helper()
	ctx := testContext(t)
	h := startHelper(t, ipc, ucx.Adaptive)
	ep, number := h.dial(w)
	tagThere(t, h, ep, number, "device", "device", 8<<20, false) // the mapping of memory is set up
	tagBack(t, h, ep, number, "device", "device", 8<<20, false)

	h.do(order{Do: "open-am", Tag: 3})
	type waiting struct {
		what string
		wait func(context.Context) error
	}
	var all []waiting
	var blocks []*block
	memory := func() *block {
		b := testBlock(t, ctx, "device", 64<<20)
		blocks = append(blocks, b)
		return b
	}
	started := func(what string, r *ucx.Request) { all = append(all, waiting{what, r.Wait}) }
	for range 3 {
		started("send", ep.StartSend(memory().view(), 1))
	}
	started("sync send", ep.StartSendSync(memory().view(), 2))
	started("active message", ep.StartSendAM(3, nil, ucx.AMOptions{Rendezvous: true}, memory().view()))
	started("receive", ep.StartRecv(memory().view(), 4, ucx.FullMask))
	started("stream receive", ep.StartRecvStream(memory().view(), true))
	frames := memory()
	for what, f := range map[string]func(context.Context) error{
		"frames send": func(ctx context.Context) error { return ep.SendFrames(ctx, frames.view()) },
		"frames receive": func(ctx context.Context) error {
			_, err := ep.RecvFrames(ctx, ucx.Allocators{})
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		all = append(all, waiting{what, func(context.Context) error { return <-done }})
	}
	time.Sleep(50 * time.Millisecond) // all of them have reached UCX
	for _, r := range all[:7] {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		if err := r.wait(short); err == nil || short.Err() == nil {
			t.Errorf("%s ended before the peer was killed: %v", r.what, err)
		}
		cancel()
	}
	start := time.Now()
	must(t, h.cmd.Process.Kill())
	for _, r := range all {
		if err := r.wait(ctx); err == nil {
			t.Errorf("%s: no error although the peer was killed", r.what)
		} else if ctx.Err() != nil {
			t.Errorf("%s: the peer's death was not noticed: %v", r.what, err)
		}
		t.Logf("%s ended %.1f ms after the kill", r.what, float64(time.Since(start).Microseconds())/1000)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("the last request ended %v after the kill", d)
	}
	select {
	case <-ep.Done():
	case <-ctx.Done():
		t.Error("the endpoint is not done")
	}
	if err := ep.Send(ctx, blocks[0].view(), 1); err == nil {
		t.Error("the endpoint of a dead peer takes operations")
	}
	_ = ep.Close()
	for _, b := range blocks {
		b.release()
	}
	// The worker serves others.
	h2 := startHelper(t, ipc, ucx.Adaptive)
	ep2, number2 := h2.dial(w)
	tagThere(t, h2, ep2, number2, "device", "device", 4<<20, false)
	must(t, ep2.Close())
	h2.quit()
}
