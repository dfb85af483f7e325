package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// kill ends a rank as the death of its process does: its connections are gone, without a word.
func kill(g *Group) { transport.Kill(g.hub.t) }

func TestDeadRankIsNamed(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			const n, dead = 4, 2
			gs := b.groups(ctx, t, n)
			began := make(chan struct{}, n)
			errs := results(n, func(r int) error {
				if r == dead {
					for range n - 1 {
						<-began
					}
					kill(gs[r])
					return nil
				}
				x := make([]float32, 50_000)
				req := gs[r].Start(ctx, allReduce(elem.View(x), elem.View(x), Float32, Sum))
				began <- struct{}{}
				return req.Wait(ctx)
			})
			for r, err := range errs {
				if r == dead {
					continue
				}
				var gone *RankError
				if !errors.As(err, &gone) || gone.Rank != dead || gone.Name != "worker-2" {
					t.Errorf("rank %d: %v, want an error that names rank %d", r, err, dead)
				}
				if again := gs[r].Do(ctx, barrier()); again == nil || again.Error() != err.Error() {
					t.Errorf("rank %d: then %v, want the same error", r, again)
				}
				if gs[r].Err() == nil {
					t.Errorf("rank %d: no Err", r)
				}
				<-gs[r].Done()
			}
		})
	}
}

func TestEndedContextAbortsAll(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			impatient, cancel := context.WithCancelCause(ctx)
			why := errors.New("lost patience")
			errs := results(3, func(r int) error {
				switch r {
				case 0: // never calls; learns of it from its next call
					<-gs[0].Done()
					return gs[0].Do(ctx, barrier())
				case 1:
					req := gs[1].Start(impatient, barrier())
					cancel(why)
					return req.Wait(ctx)
				}
				return gs[2].Do(ctx, barrier())
			})
			if !errors.Is(errs[1], why) {
				t.Errorf("rank 1: %v, want its own reason", errs[1])
			}
			for r, err := range errs {
				var gone *RankError
				if !errors.As(err, &gone) || gone.Rank != 1 || !strings.Contains(err.Error(), "lost patience") {
					t.Errorf("rank %d: %v, want rank 1's reason", r, err)
				}
			}
		})
	}
}

func TestAbort(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			errs := results(3, func(r int) error {
				if r == 1 {
					gs[1].Abort(errors.New("disk full"))
				}
				return gs[r].Do(ctx, barrier())
			})
			for r, err := range errs {
				if err == nil || err.Error() != "collective: rank 1 (worker-1): disk full" {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}

func TestRankThatLeftIsNamed(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			errs := results(3, func(r int) error {
				if err := gs[r].Do(ctx, barrier()); err != nil {
					return err
				}
				if r == 2 {
					return gs[2].Close()
				}
				return gs[r].Do(ctx, barrier())
			})
			for r, err := range errs[:2] {
				var gone *RankError
				if !errors.As(err, &gone) || gone.Rank != 2 {
					t.Errorf("rank %d: %v, want rank 2's name", r, err)
				}
			}
			if errs[2] != nil {
				t.Error(errs[2])
			}
			if err := gs[2].Do(ctx, barrier()); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			if err := gs[2].Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLeavingDoesNotDisturb: a rank whose last collective is done may close while the others still finish theirs.
func TestLeavingDoesNotDisturb(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			for range 5 {
				ctx := testContext(t)
				gs := b.groups(ctx, t, 4)
				each(t, 4, func(r int) error {
					x := []int64{int64(r)}
					if err := gs[r].Do(ctx, allReduce(elem.View(x), elem.View(x), Int64, Sum)); err != nil {
						return err
					}
					if x[0] != 6 {
						return fmt.Errorf("sum %d", x[0])
					}
					return gs[r].Close()
				})
			}
		})
	}
}

func TestCloseInTheMiddle(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 2)
			req := gs[0].Start(ctx, barrier())
			if err := gs[0].Close(); err != nil {
				t.Error(err)
			}
			if err := req.Wait(ctx); err == nil {
				t.Error("the barrier succeeded alone")
			}
			_ = gs[1].Do(ctx, barrier()) // rank 0 may have sent its part before the end
			if err := gs[1].Do(ctx, barrier()); err == nil {
				t.Error("rank 1: no error")
			}
		})
	}
}

// mismatches are calls of which rank 1's differs; every rank must say the same of it.
var mismatches = []struct {
	name, want string
	call       func(ctx context.Context, g *Group, odd bool) error
}{
	{"size", "rank 0 has 10 elements, rank 1 has 11", func(ctx context.Context, g *Group, odd bool) error {
		x := make([]int32, 10+b2i(odd))
		return g.Do(ctx, allReduce(elem.View(x), elem.View(x), Int32, Sum))
	}},
	{"large size", "rank 0 has 100000 elements, rank 1 has 10", func(ctx context.Context, g *Group, odd bool) error {
		x := make([]int32, 100_000)
		if odd {
			x = x[:10]
		}
		return g.Do(ctx, allReduce(elem.View(x), elem.View(x), Int32, Sum))
	}},
	{"type", "rank 0 has elements of int32, rank 1 has float32", func(ctx context.Context, g *Group, odd bool) error {
		x := make([]int32, 10)
		return g.Do(ctx, allReduce(elem.View(x), elem.View(x), []Kind{Int32, Float32}[b2i(odd)], Sum))
	}},
	{"op", "rank 0 has operation sum, rank 1 has max", func(ctx context.Context, g *Group, odd bool) error {
		x := make([]int32, 10)
		return g.Do(ctx, allReduce(elem.View(x), elem.View(x), Int32, []Op{Sum, Max}[b2i(odd)]))
	}},
	{"root", "rank 0 has root 0, rank 1 has 2", func(ctx context.Context, g *Group, odd bool) error {
		return g.Do(ctx, broadcast(make([]byte, 100_000), Uint8, 2*b2i(odd)))
	}},
	{"no such root", "invalid call of Broadcast on rank 1: root 7 is not a rank of 3",
		func(ctx context.Context, g *Group, odd bool) error {
			return g.Do(ctx, broadcast(make([]byte, 8), Uint8, 7*b2i(odd)))
		}},
	{"other collective", "rank 0 calls Barrier", func(ctx context.Context, g *Group, odd bool) error {
		if odd {
			return g.Do(ctx, broadcast(nil, Uint8, 0))
		}
		return g.Do(ctx, barrier())
	}},
	{"recv too short", "invalid call of AllGather on rank 1: recv has 29 bytes, want 30",
		func(ctx context.Context, g *Group, odd bool) error {
			return g.Do(ctx, allGather(make([]byte, 10), make([]byte, 30-b2i(odd)), Uint8))
		}},
	{"counts", "rank 0 has counts[2] = 3, rank 1 has 4", func(ctx context.Context, g *Group, odd bool) error {
		counts := []int{1, 2, 3 + b2i(odd)}
		return g.Do(ctx, allGatherV(make([]byte, counts[g.Rank()]), make([]byte, 6+b2i(odd)), counts, Uint8))
	}},
	{"counts of the root", "root 0 has counts[1] = 2, but rank 1 has a buffer of 3 elements",
		func(ctx context.Context, g *Group, odd bool) error {
			counts := []int{1, 2, 3}
			return g.Do(ctx, scatterV(make([]byte, 6), make([]byte, counts[g.Rank()]+b2i(odd)), counts, Uint8, 0))
		}},
	{"matrix", "rank 0 sends 1 elements to rank 1, which expects 2",
		func(ctx context.Context, g *Group, odd bool) error {
			in := []int{1 + b2i(odd), 1, 1}
			return g.Do(ctx, allToAllV(make([]byte, 3), []int{1, 1, 1}, make([]byte, 3+b2i(odd)), in, Uint8))
		}},
	{"half an element", "invalid call of AllReduce on rank 1: 7 bytes are not a multiple of the size of int32",
		func(ctx context.Context, g *Group, odd bool) error {
			x := make([]byte, 8-b2i(odd))
			return g.Do(ctx, allReduce(x, x, Int32, Sum))
		}},
	{"scale of another type", "the scale of PreMulSum is float64, the elements are float32",
		func(ctx context.Context, g *Group, odd bool) error {
			x := make([]float32, 3)
			op := elem.PreMulSum(float32(2))
			if odd {
				op = elem.PreMulSum(2.0)
			}
			return g.Do(ctx, allReduce(elem.View(x), elem.View(x), Float32, op))
		}},
	{"overlap", "invalid call of AllToAll on rank 1: send and recv overlap",
		func(ctx context.Context, g *Group, odd bool) error {
			x := make([]byte, 6)
			y := make([]byte, 6)
			if odd {
				y = x
			}
			return g.Do(ctx, allToAll(x, y, Uint8))
		}},
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestMismatch(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 3)
			for _, m := range mismatches {
				errs := results(3, func(r int) error { return m.call(ctx, gs[r], r == 1) })
				for r, err := range errs {
					var mismatch *MismatchError
					if !errors.As(err, &mismatch) || mismatch.Rank > 1 || !strings.Contains(err.Error(), m.want) ||
						err.Error() != errs[0].Error() {
						t.Errorf("%s: rank %d: %v, want %q", m.name, r, err, m.want)
					}
				}
			}
			each(t, 3, func(r int) error { return gs[r].Do(ctx, barrier()) }) // and it works on
		})
	}
}

func TestConfigurationsMustMatch(t *testing.T) {
	ctx := testContext(t)
	ts := backends[0].transports(ctx, t, 2)
	errs := results(2, func(r int) error {
		g, err := New(ctx, ts[r], Config{Deterministic: r == 1})
		if g != nil {
			_ = g.Close()
		}
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 1 has a different Config") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestBadTransport(t *testing.T) {
	if _, err := transport.NewComm(3, nil); err == nil {
		t.Error("a rank beyond the ranks is accepted")
	}
	ctx := testContext(t)
	comms := connect(ctx, t, "inproc", 3)
	comms[0][2].Abort()
	comms[0][2] = nil
	if _, err := transport.NewComm(0, comms[0]); err == nil {
		t.Error("a missing connection is accepted")
	}
	for _, r := range []int{1, 2} { // their other ends hear of it
		for _, c := range comms[r] {
			if c != nil {
				c.Abort()
			}
		}
	}
}

func TestNewEndsWithItsContext(t *testing.T) {
	ctx := testContext(t)
	ts := backends[0].transports(ctx, t, 2)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := New(short, ts[0], Config{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("rank 0: %v", err)
	}
	if _, err := New(ctx, ts[1], Config{}); err == nil {
		t.Error("rank 1 has a group without rank 0")
	}
}
