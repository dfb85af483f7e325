package member

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/testkit/leak"
)

// TestNativeErrors: a library that one rank does not have ends the clique, with the reason on every rank. (tests/comms
// runs an algorithm.)
func TestNativeErrors(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "absent.so")
	each(t, formed(t, 2), func(me int, m *Member) error {
		if me == 0 {
			if _, err := m.Native(Algorithm{Library: path, Name: "sums"}); err == nil {
				t.Error("got no error for a library that does not exist")
			}
			return nil
		}
		var failed *clique.RankError
		if _, err := m.Do(Operation{Code: Barrier}); !errors.As(err, &failed) || failed.Rank != 0 ||
			!strings.Contains(err.Error(), "absent.so") {
			t.Errorf("got %v, want an error of rank 0 that names the library", err)
		}
		return nil
	})
}

// TestColumns: columns are checked before an algorithm gets them.
func TestColumns(t *testing.T) {
	leak.Check(t)
	r, err := formed(t, 1)[0].Rank()
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{1, 2}
	right := Column{at(x), 2, clique.KindOf[float64](), Host}
	for _, c := range []struct {
		want   string
		change func(c *Column)
	}{
		{"", func(*Column) {}},
		{"", func(c *Column) { c.Data, c.Count = 0, 0 }},
		{"unknown element type 77", func(c *Column) { c.Kind = 77 }},
		{"unknown memory 3", func(c *Column) { c.Memory = 3 }},
		{"null pointer", func(c *Column) { c.Data = 0 }},
		{"too many", func(c *Column) { c.Count = 1 << 62 }},
		{"is not device memory", func(c *Column) { c.Memory = Device }},
	} {
		column := right
		c.change(&column)
		b, why := column.buffer("column 0", r, 0)
		if (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%+v: got %q, want %q", column, why, c.want)
		}
		if b != nil {
			b.Release()
		}
	}
}
