package gpu

import (
	"fmt"
	"testing"

	"go.millstream.dev/ucx"
)

// frameShapes are messages of frames of mixed kinds and sizes.
var frameShapes = map[string][]frameSpec{
	"one large": {{Kind: "device", N: 16 << 20}},
	"one small": {{Kind: "device", N: 3}},
	"small ones": {{Kind: "device", N: 1000}, {Kind: "heap", N: 10}, {Kind: "device", N: 8192},
		{Kind: "device", N: 8193}},
	"mixed": {{Kind: "heap", N: 100}, {Kind: "device", N: 1<<20 + 7}, {Kind: "heap", N: 1 << 20},
		{Kind: "managed", N: 70_001}, {Kind: "pinned", N: 4096}},
	"with empty":  {{Kind: "device", N: 0}, {Kind: "device", N: 500_000}, {Kind: "heap", N: 0}},
	"a long list": many(100),
}

func many(n int) (list []frameSpec) {
	for i := range n {
		list = append(list, frameSpec{Kind: []string{"device", "heap"}[i%2], N: 1 + i*997})
	}
	return list
}

// TestGPUFrames sends messages of frames both ways; the receiver chooses the memory by the kind that
// the sender has them in.
func TestGPUFrames(t *testing.T) {
	requireGPU(t)
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	for name, shape := range frameShapes {
		for _, to := range []struct{ host, device string }{{"", "device"}, {"", ""}, {"pinned", "device"},
			{"device", "managed"}} {
			t.Run(fmt.Sprintf("%s/%s,%s", name, or(to.host, "heap"), or(to.device, "as host")), func(t *testing.T) {
				h.t = t
				ctx := testContext(t)
				frames := append([]frameSpec(nil), shape...)
				for i := range frames {
					frames[i].Seed = seed()
				}
				recv := h.start(order{Do: "recv-frames", Endpoint: number, Host: to.host, Device: to.device,
					Frames: frames})
				views, blocks, err := makeFrames(ctx, frames)
				must(t, err)
				must(t, ep.SendFrames(ctx, views...))
				recv.wait()
				for i, b := range blocks {
					must(t, b.check(ctx, frames[i].Seed))
					b.release()
				}
				send := h.start(order{Do: "send-frames", Endpoint: number, Frames: frames})
				if err := takeFrames(ctx, ep, to.host, to.device, frames); err != nil {
					t.Error(err)
				}
				send.wait()
			})
		}
	}
	h.t = t
	checkTransports(t, ep, "cuda_ipc")
	must(t, ep.Close())
	h.quit()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
