package gpu

import (
	"testing"

	"go.millstream.dev/ucx"
)

// TestGPUNoContextWithoutNeed: a process that moves host memory only makes no CUDA context, though UCX
// has its CUDA transports; with device memory it makes one, on that device.
func TestGPUNoContextWithoutNeed(t *testing.T) {
	requireGPU(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			h, _, ep, number := connected(t, s.options, ucx.Adaptive)
			want := func(n int, when string) {
				t.Helper()
				if a := h.do(order{Do: "state"}); a.Contexts != n {
					t.Errorf("%s: %d CUDA contexts, want %d", when, a.Contexts, n)
				}
			}
			want(0, "after connecting")
			for _, n := range []int{10, 100_000, 8 << 20} {
				tagThere(t, h, ep, number, "heap", "mmap", n, false)
				tagBack(t, h, ep, number, "mmap", "heap", n, false)
			}
			want(0, "after host traffic")
			// Device memory at this side only is no reason for the other one.
			tagThere(t, h, ep, number, "device", "heap", 1000, false)
			tagBack(t, h, ep, number, "heap", "device", 4<<20, false)
			want(0, "after traffic with this side's device memory")
			tagThere(t, h, ep, number, "device", "device", 4<<20, false)
			want(1, "after a receive into device memory")
			must(t, ep.Close())
			h.quit()
		})
	}
}
