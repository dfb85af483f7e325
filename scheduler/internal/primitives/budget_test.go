package primitives

import "testing"

// A change fits up to the last byte of the limit; releases, and a budget without a limit, always fit.
func TestBudgetLimit(t *testing.T) {
	for _, c := range []struct {
		limit, kept, more int64
		fits              bool
	}{
		{100, 0, 100, true}, {100, 0, 101, false}, {100, 60, 40, true}, {100, 60, 41, false}, {100, 100, 0, true},
		{100, 100, 1, false}, {100, 200, -1, true}, {0, 1 << 40, 1 << 40, true}, {-1, 5, 5, true}, {1, 0, 1, true},
	} {
		var b Budget
		b.Add(c.kept)
		b.SetLimit(c.limit)
		if err := b.Reserve("variable", c.more); (err == nil) != c.fits || b.Bytes() != c.kept {
			t.Errorf("%d of %d bytes, %d more: got %v, %d kept, want it to fit: %v", c.kept, c.limit, c.more, err,
				b.Bytes(),
				c.fits)
		}
	}
}
