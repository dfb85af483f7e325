package gputsqr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/internal/device/kernels/tsqr"
	"go.millstream.dev/mem"
)

// What these kernels compute is tested on a GPU, in tests/gpu/clique. Here is what needs none.

// TestKernels: every kernel that is launched is in the image, and every type has a size.
func TestKernels(t *testing.T) {
	image, err := kernels.PTX("tsqr")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tsqr_sums", "tsqr_rows", "tsqr_merge", "tsqr_bad", "tsqr_apply"} {
		if !strings.Contains(string(image), ".entry "+name+"(") {
			t.Errorf("the image has no kernel %s", name)
		}
	}
	for i, name := range kinds {
		if kind, size := kindOf(name); kind != i || size == 0 {
			t.Errorf("%s: got kind %d of %d bytes, want %d", name, kind, size, i)
		}
	}
	if _, size := kindOf("f16"); size != 0 {
		t.Error("there is a type f16")
	}
}

// TestShapes: tiles fit into shared memory, and the memory of all blocks is bounded.
func TestShapes(t *testing.T) {
	for d := 1; d <= tsqr.MaxColumns; d++ {
		s := shapeOf(d)
		if n := s.shared(d); n > 48<<10 || s.rows < 32 || s.tile != (n > 0) || s.inside && !s.tile {
			t.Fatalf("%d columns: got %+v with %d bytes of shared memory", d, s, n)
		}
		for _, rows := range []int{1, 31, 100_000, 1 << 40} {
			n := s.grid(d, rows, 1000)
			if n < 1 || n > 1000 || n > 1 && (n-1)*s.rows >= rows || n > 1 && n*d*d*8 > triangleBytes {
				t.Fatalf("%d columns, %d rows: got %d blocks", d, rows, n)
			}
		}
	}
	for rows, want := range map[int]int{0: 1, 1: 1, 256: 1, 257: 2, 1 << 30: 64} {
		if got := blocks(rows, 64); got != want {
			t.Errorf("%d rows: got %d blocks, want %d", rows, got, want)
		}
	}
}

// TestErrors: columns and sizes that do not fit, and a machine without a GPU.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	if _, err := New(Config{Memory: mem.Heap}, 0); err == nil {
		t.Error("no columns: got no error")
	}
	table := &Table{d: 1, cfg: Config{Memory: mem.Heap}, parts: []*part{{rows: 1}}}
	b := mem.FromBytes(make([]byte, 8))
	for text, c := range map[string][]Column{
		"2 columns":      {{b, "f64"}, {b, "f64"}},
		`type "f16"`:     {{b, "f16"}},
		"8 bytes":        {{b, "i64"}},
		"column 0 is in": {{b, "i32"}},
	} {
		if err := table.Add(ctx, 0, 2, c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	if _, err := table.Apply(ctx, 0, []float64{1}, []float64{1, 2}, []float64{0}, true); err == nil {
		t.Error("two weights for one column: got no error")
	}
	// A rank without rows needs no kernel.
	empty := &Table{d: 3, cfg: Config{Memory: mem.Heap}, parts: []*part{{index: 4}}}
	sums := make([]float64, 4)
	if err := empty.Sums(ctx, sums); err != nil || sums[3] != 0 {
		t.Errorf("sums of no rows: got %v, %v", sums, err)
	}
	if r, err := empty.Triangle(ctx, make([]float64, 3)); err != nil || r.Columns() != 3 || r.At(2, 2) != 0 {
		t.Errorf("triangle of no rows: got %v, %v", r, err)
	}
	if at, err := empty.Bad(ctx); err != nil || at != -1 {
		t.Errorf("bad values of no rows: got %d, %v", at, err)
	}
	if cuda.Available() == nil {
		return // the rest is what happens without a GPU
	}
	if _, err := New(Config{Memory: mem.Heap}, 1); !errors.Is(err, cuda.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, cuda.ErrUnavailable)
	}
}
