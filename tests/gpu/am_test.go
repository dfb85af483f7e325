package gpu

import (
	"fmt"
	"testing"

	"go.millstream.dev/ucx"
)

// TestGPUActiveMessages: the receiver chooses where the data goes, for messages that arrive eagerly in
// host memory as well as for those it fetches.
func TestGPUActiveMessages(t *testing.T) {
	requireGPU(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			h, w, ep, number := connected(t, s.options, ucx.Adaptive)
			const id = 7
			must(t, w.OpenAM(id))
			h.do(order{Do: "open-am", Tag: id})
			for _, n := range sizes {
				for _, flags := range []amFlags{{}, {Rendezvous: true}, {Eager: true}} {
					if flags.Eager && n > 1<<20 {
						continue // nobody sends so much through bounce buffers
					}
					for _, k := range [][2]string{{"device", "device"}, {"heap", "device"}, {"device", "heap"}} {
						if n > 8<<20 && (flags.Rendezvous || k[0] != k[1]) {
							continue
						}
						amThere(t, h, ep, id, k[0], k[1], n, flags)
						amBack(t, h, w, number, id, k[0], k[1], n, flags)
					}
				}
			}
			checkTransports(t, ep, s.transport)
			must(t, ep.Close())
			h.quit()
		})
	}
}

func amThere(t testing.TB, h *helper, ep *ucx.Endpoint, id uint64, from, to string, n int, flags amFlags) {
	t.Helper()
	ctx := testContext(t)
	pat := seed()
	b := testBlock(t, ctx, from, n)
	defer b.release()
	must(t, b.fill(ctx, pat))
	recv := h.start(order{Do: "recv-am", Tag: id, Kind: to, N: n, Seed: pat})
	must(t, ep.SendAM(ctx, uint16(id), []byte("header"), ucx.AMOptions{Eager: flags.Eager,
		Rendezvous: flags.Rendezvous}, b.view()))
	if a := recv.wait(); flags.Eager && a.Rendezvous || flags.Rendezvous && !a.Rendezvous {
		t.Errorf("%d bytes with %+v came by rendezvous: %v", n, flags, a.Rendezvous)
	}
	must(t, b.check(ctx, pat))
}

func amBack(t testing.TB, h *helper, w *ucx.Worker, number int, id uint64, from, to string, n int, flags amFlags) {
	t.Helper()
	ctx := testContext(t)
	pat := seed()
	send := h.start(order{Do: "send-am", Endpoint: number, Tag: id, Kind: from, N: n, Seed: pat, Flags: flags})
	m, err := w.RecvAM(ctx, uint16(id))
	must(t, err)
	if err := takeAM(ctx, m, to, n, pat); err != nil {
		t.Errorf("%s to %s, %d bytes, %+v: %v", from, to, n, flags, err)
	}
	send.wait()
}

// TestGPUVector gathers parts of device memory into one message.
func TestGPUVector(t *testing.T) {
	requireGPU(t)
	h, w, ep, _ := connected(t, ipc, ucx.Adaptive)
	ctx := testContext(t)
	const id = 8
	must(t, w.OpenAM(id))
	h.do(order{Do: "open-am", Tag: id})
	for _, n := range []int{30, 3000, 300_000, 3 << 20} {
		for _, rndv := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/rendezvous %v", byteCount(n), rndv), func(t *testing.T) {
				h.t = t
				pat := seed()
				whole := pattern(pat, n)
				var views []ucx.View
				for i := range 3 {
					b := testBlock(t, ctx, "device", n/3)
					defer b.release()
					must(t, b.write(ctx, whole[i*(n/3):(i+1)*(n/3)]))
					views = append(views, b.view())
				}
				recv := h.start(order{Do: "recv-am", Tag: id, Kind: "device", N: n, Seed: pat})
				must(t, ep.SendAM(ctx, id, []byte("header"), ucx.AMOptions{Rendezvous: rndv}, views...))
				recv.wait()
			})
		}
	}
	h.t = t
	must(t, ep.Close())
	h.quit()
}
