package collective

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.millstream.dev/internal/collective/elem"
)

func TestSplit(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			const n = 5
			gs := b.groups(ctx, t, n)
			each(t, n, func(r int) error {
				color := r % 2
				if r == 4 {
					color = -1
				}
				sub, err := gs[r].Split(ctx, color, -r) // in falling order
				if err != nil {
					return err
				}
				if r == 4 {
					if sub != nil {
						return fmt.Errorf("a group without a color")
					}
					return nil
				}
				defer sub.Close()
				if want := 1 - r/2; sub.Rank() != want || sub.Size() != 2 {
					return fmt.Errorf("rank %d of %d, want %d of 2", sub.Rank(), sub.Size(), want)
				}
				for _, n := range []int{1, 30_000} {
					x := make([]int32, n)
					x[0] = int32(r)
					if err := sub.Do(ctx, allReduce(elem.View(x), elem.View(x), Int32, Sum)); err != nil {
						return err
					}
					if want := int32(2 + 2*(r%2)); x[0] != want {
						return fmt.Errorf("sum %d, want %d", x[0], want)
					}
				}
				inner, err := sub.Split(ctx, sub.Rank(), 0)
				if err != nil {
					return err
				}
				defer inner.Close()
				return inner.Do(ctx, barrier())
			})
			each(t, n, func(r int) error { return gs[r].Do(ctx, barrier()) })
		})
	}
}

// TestDups: each rank takes the duplicates in another order, which would never end on one group.
func TestDups(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			const n = 3
			gs := b.groups(ctx, t, n)
			each(t, n, func(r int) error {
				var dups []*Group
				var reqs []*Request
				var bufs [][]int64
				for i := range n {
					number := uint64((i + r) % n)
					dup, err := gs[r].Dup(number)
					if err != nil {
						return err
					}
					dups = append(dups, dup)
					for _, size := range []int{1, 20_000} {
						x := make([]int64, size)
						x[0] = int64(number)
						bufs = append(bufs, x)
						reqs = append(reqs, dup.Start(ctx, allReduce(elem.View(x), elem.View(x), Int64, Sum)))
					}
				}
				for _, l := range dups {
					_ = l.Backend() // collectives that begin to share memory may be running
				}
				for i, req := range reqs {
					if err := req.Wait(ctx); err != nil {
						return err
					}
					if want := int64(n * ((i/2 + r) % n)); bufs[i][0] != want {
						return fmt.Errorf("dup sum %d, want %d", bufs[i][0], want)
					}
				}
				for _, l := range dups {
					if err := l.Close(); err != nil {
						return err
					}
				}
				return nil
			})
			each(t, n, func(r int) error { return gs[r].Do(ctx, barrier()) })
			if _, err := gs[0].Dup(1 << 32); err == nil {
				t.Error("a duplicate's number of 33 bits is accepted")
			}
		})
	}
}

// TestStartKeepsOrder: requests run in the order of their calls, whatever the order of waiting.
func TestStartKeepsOrder(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			each(t, 3, func(r int) error {
				x := make([][]int32, 20)
				reqs := make([]*Request, len(x))
				for i := range x {
					x[i] = []int32{int32(i)}
					reqs[i] = gs[r].Start(ctx, allReduce(elem.View(x[i]), elem.View(x[i]), Int32, Sum))
				}
				for i := len(x) - 1; i >= 0; i-- {
					if err := reqs[i].Wait(ctx); err != nil {
						return err
					}
					if x[i][0] != int32(3*i) || reqs[i].Err() != nil {
						return fmt.Errorf("call %d: %d", i, x[i][0])
					}
				}
				return nil
			})
		})
	}
}

// TestDeterministicBits: in deterministic mode, and in shared memory always, reductions have the bits of the plain loop
// from rank 0 upwards, on every backend and for every size.
func TestDeterministicBits(t *testing.T) {
	const n = 5
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([][]float32, n)
	for r := range random {
		random[r] = make([]float32, 40_000)
		for i := range random[r] {
			random[r][i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)-6)))
		}
	}
	want := append([]float32(nil), random[0]...)
	for r := 1; r < n; r++ {
		for i, x := range random[r] {
			want[i] += x
		}
	}
	for _, b := range backends {
		b.det = true
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, n)
			each(t, n, func(r int) error {
				for _, size := range []int{10, 5000, 40_000} {
					got := make([]float32, size)
					if err := gs[r].Do(ctx, allReduce(elem.View(random[r][:size]), elem.View(got), Float32,
						Sum)); err != nil {
						return err
					}
					if !bytes.Equal(elem.View(got), elem.View(want[:size])) {
						return fmt.Errorf("AllReduce of %d: other bits", size)
					}
					clear(got)
					if err := gs[r].Do(ctx, reduce(elem.View(random[r][:size]), elem.View(got), Float32, Sum,
						3)); err != nil {
						return err
					}
					if r == 3 && !bytes.Equal(elem.View(got), elem.View(want[:size])) {
						return fmt.Errorf("Reduce of %d: other bits", size)
					}
					part := got[:size/n]
					if err := gs[r].Do(ctx, reduceScatter(elem.View(random[r][:size]), elem.View(part), Float32,
						Sum)); err != nil {
						return err
					}
					if !bytes.Equal(elem.View(part), elem.View(want[r*len(part):(r+1)*len(part)])) {
						return fmt.Errorf("ReduceScatter of %d: other bits", size)
					}
				}
				return nil
			})
		})
	}
}

// TestSameBitsOnEveryRank: without deterministic mode all ranks still get the same bits.
func TestSameBitsOnEveryRank(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			const n = 5
			gs := b.groups(ctx, t, n)
			for _, size := range []int{10, 5000, 40_000} {
				got := make([][]float32, n)
				each(t, n, func(r int) error {
					rng := rand.New(rand.NewPCG(7, uint64(r)))
					got[r] = make([]float32, size)
					for i := range got[r] {
						got[r][i] = float32(rng.NormFloat64())
					}
					return gs[r].Do(ctx, allReduce(elem.View(got[r]), elem.View(got[r]), Float32, Avg))
				})
				for r := range got {
					if !bytes.Equal(elem.View(got[r]), elem.View(got[0])) {
						t.Errorf("size %d: rank %d has other bits than rank 0", size, r)
					}
				}
			}
		})
	}
}

// TestNoAllocation: in shared memory a collective costs no garbage.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		return // its instrumentation allocates
	}
	ctx := testContext(t)
	gs := backends[3].groups(ctx, t, 2)
	const runs = 50
	x, y := make([]float32, 100_000), make([]float32, 100_000)
	call := func(g *Group, x []float32) {
		for _, n := range []int{10, len(x)} {
			if err := g.Do(ctx, allReduce(elem.View(x[:n]), elem.View(x[:n]), Float32, Sum)); err != nil {
				t.Error(err)
			}
		}
	}
	other := make(chan struct{})
	go func() {
		defer close(other)
		for range runs + 1 {
			call(gs[1], y)
		}
	}()
	allocs := testing.AllocsPerRun(runs, func() { call(gs[0], x) })
	<-other
	if allocs > 1 { // of both ranks; the runtime has some of its own
		t.Errorf("%v allocations for two collectives of two ranks", allocs)
	}
}

// TestShareAfter: a duplicate with many small collectives uses shared memory, one with few does not.
func TestShareAfter(t *testing.T) {
	ctx := testContext(t)
	const n = 3
	for _, b := range backends {
		gs := b.groups(ctx, t, n)
		each(t, n, func(r int) error {
			dup, err := gs[r].Dup(1)
			if err != nil {
				return err
			}
			defer dup.Close()
			for i := range 2 * shareAfter {
				x := []int64{int64(r + i)}
				if err := dup.Do(ctx, allReduce(elem.View(x), elem.View(x), Int64, Sum)); err != nil {
					return err
				}
				if want := int64(n*i + 3); x[0] != want {
					return fmt.Errorf("sum %d of call %d, want %d", x[0], i, want)
				}
				shared := strings.HasPrefix(dup.Backend(), "shm+")
				if want := b.name == "shm" && i+1 >= shareAfter; shared != want {
					return fmt.Errorf("%s: backend %q after %d calls", b.name, dup.Backend(), i+1)
				}
			}
			return dup.Do(ctx, barrier())
		})
		closeAll(gs)
	}
}

func TestBackendNames(t *testing.T) {
	for _, b := range backends {
		ctx := testContext(t)
		gs := b.groups(ctx, t, 2)
		want := map[string]string{"deterministic": "inproc", "shm": "shm+inproc"}[b.name]
		if want == "" {
			want = b.name
		}
		if got := gs[0].Backend(); got != want {
			t.Errorf("%s: %q, want %q", b.name, got, want)
		}
		closeAll(gs)
	}
}
