//go:build cgo

package ucxcomm

import (
	"slices"
	"testing"
)

// A comm names what moves its data, on both ends and in both of its forms.
func TestTransports(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, z := pair(t, b)
			if err := a.Write(ctx, msg([]byte("x"))); err != nil {
				t.Fatal(err)
			}
			m, err := z.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
			for _, c := range []interface{ Transports() []string }{a.(*conn), z.(*conn)} {
				got := c.Transports()
				if len(got) == 0 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
					t.Errorf("%q", got)
				}
			}
			a.Abort()
			if got := a.(*conn).Transports(); got != nil {
				t.Errorf("after its end: %q", got)
			}
		})
	}
}
