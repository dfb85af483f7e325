package collective

import (
	"fmt"
	"testing"
)

func TestSmoke(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			gs := b.groups(ctx, t, 4)
			t.Log(gs[0].Backend())
			for _, n := range []int{1, 1000, 100_000, 1_000_000} {
				each(t, 4, func(r int) error {
					x := make([]float32, n)
					for i := range x {
						x[i] = float32(r + 1 + i%7)
					}
					if err := gs[r].AllReduce(ctx, View(x), View(x), Float32, Sum); err != nil {
						return err
					}
					for i := range x {
						if want := float32(10 + 4*(i%7)); x[i] != want {
							return fmt.Errorf("n %d at %d: %v, want %v", n, i, x[i], want)
						}
					}
					return nil
				})
			}
		})
	}
}
