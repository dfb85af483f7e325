package gpu

import (
	"os"
	"testing"

	"go.millstream.dev/internal/device/cucount"
	"go.millstream.dev/ucx"
)

// TestGPUIPCMap counts how often the driver opens memory of another process, in both processes: for
// memory of a warm pool never, for allocations of their own once each.
func TestGPUIPCMap(t *testing.T) {
	here := counting(t)
	if here == nil {
		return
	}
	h, _, ep, number := connected(t, ipc, ucx.Adaptive)
	checkTransports(t, ep, "cuda_ipc")
	there, err := cucount.OpenPID(os.Getenv(cucount.DirVariable), h.cmd.Process.Pid)
	must(t, err)
	defer there.Close()
	ctx := testContext(t)
	const n = 4 << 20
	// send moves a block to memory of the same kind and returns the calls that it made.
	send := func(b *block, kind string) cucount.Counts {
		pat, tag := seed(), seed()
		must(t, b.fill(ctx, pat))
		mine, theirs := calls(t, here), calls(t, there)
		recv := h.start(order{Do: "recv", Endpoint: number, Kind: kind, N: n, Tag: tag, Seed: pat})
		must(t, ep.Send(ctx, b.view(), tag))
		recv.wait()
		made := calls(t, here).Since(mine)
		for name, c := range calls(t, there).Since(theirs) {
			made[name] += c
		}
		return made
	}
	send(testBlock(t, ctx, "pool", n), "pool") // warms up: the pool of each side is mapped once at most
	for round := range 5 {
		b := testBlock(t, ctx, "pool", n)
		for range 2 {
			if made := send(b, "pool"); made.Mappings() != 0 {
				t.Errorf("round %d: a pooled buffer took %d mappings: %v", round, made.Mappings(), made)
			}
		}
	}
	for _, kind := range []string{"device", "async"} { // live together, so that each has an address of its own
		for round := range 3 {
			b := testBlock(t, ctx, kind, n)
			first, second := send(b, kind).Mappings(), send(b, kind).Mappings()
			t.Logf("%s %d: %d mappings, then %d", kind, round, first, second)
			if kind == "device" && first == 0 {
				t.Errorf("round %d: memory of an allocation of its own was not opened: the counter shows nothing",
					round)
			}
		}
	}
	must(t, ep.Close())
	h.quit()
}
