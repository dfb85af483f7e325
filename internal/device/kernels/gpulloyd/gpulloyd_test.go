package gpulloyd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// What these kernels compute is tested on a GPU, in tests/gpu/clique. Here is what needs none.

// Every kernel that is launched is in the image.
func TestKernels(t *testing.T) {
	for _, narrow := range []bool{true, false} {
		r := &Rows{narrow: narrow}
		image, err := kernels.PTX("kmeans_" + r.suffix())
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"kmeans_inertia", "kmeans_distances", "kmeans_moments", "kmeans_row"}
		for _, r.d = range []int{1, 4, 8, 9, 16, 17, 32, 33, 1000} {
			name, per := r.passKernel()
			if names = append(names, name); per < 1 || per > 2 {
				t.Errorf("%s: %d rows for a thread", name, per)
			}
		}
		for _, kind := range []string{"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32"} {
			if ItemSize(kind) == 0 {
				t.Errorf("%s has no size", kind)
			}
			if !narrow {
				names = append(names, "kmeans_convert_"+kind)
			}
		}
		for _, name := range names {
			if !strings.Contains(string(image), ".entry "+name+"(") {
				t.Errorf("the image kmeans_%s has no kernel %s", r.suffix(), name)
			}
		}
	}
	if ItemSize("f16") != 0 {
		t.Error("there is a type f16")
	}
}

// Centers are prepared as package lloyd does: in the type of the data.
func TestPrepare(t *testing.T) {
	shift, centers := []float64{0.1, 1e8}, []float64{0.30000000000000004, 1e8 + 1, -2, 1e8 + 3}
	r := &Rows{d: 2, k: 2}
	moved, half := r.prepare(shift, centers)
	if moved[0] != centers[0]-shift[0] || moved[3] != 3 || half[0] != (moved[0]*moved[0]+1)/2 {
		t.Errorf("float64: %v, %v", moved, half)
	}
	r.narrow = true
	moved, half = r.prepare(shift, centers)
	want := float64(float32(centers[0]) - float32(shift[0]))
	if moved[0] != want || moved[1] != 0 || half[0] != want*want/2 {
		t.Errorf("float32: %v, %v", moved, half)
	}
}

// Grids have a block for all rows, and no more than they may.
func TestGrids(t *testing.T) {
	r := &Rows{}
	for _, rows := range []int{1, 255, 256, 257, 1 << 18, 1<<18 + 1, 1 << 30} {
		g := limited(rows)
		n, err := r.blocks(nil, g)
		if err != nil || n < 1 || n > sumBlocks || n*threads*g.per < rows {
			t.Errorf("%d rows: %d blocks of %d rows for each thread, %v", rows, n, g.per, err)
		}
	}
	if _, err := r.blocks(nil, grid{}); !errors.Is(err, errNothing) {
		t.Errorf("no rows: %v", err)
	}
	if n := (&part{rows: 257}).blocks(); n != 2 {
		t.Errorf("257 rows are %d blocks", n)
	}
}

// Without a GPU, and with sizes that cannot be, there is an error.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	if _, err := New(ctx, Config{Memory: mem.Heap, Pinned: mem.Heap}, 0, 1, true); err == nil {
		t.Error("no columns")
	}
	r := &Rows{d: 1, k: 1, cfg: Config{Memory: mem.Heap, Pinned: mem.Heap}}
	b := mem.FromBytes(make([]byte, 8))
	for text, c := range map[string][]Column{
		"2 columns":      {{b, "f64"}, {b, "f64"}},
		`type "f16"`:     {{b, "f16"}},
		"8 bytes":        {{b, "i64"}},
		"column 0 is in": {{b, "i32"}},
	} {
		if err := r.Add(ctx, 2, c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := r.Relabel(ctx, []float64{1}, []float64{1, 2}); err == nil {
		t.Error("two coordinates of one center in one column")
	}
	if cuda.Available() == nil {
		return // the rest is what happens without a GPU
	}
	if _, err := New(ctx, Config{Memory: mem.Heap, Pinned: mem.Heap}, 1, 1, true); !errors.Is(err,
		cuda.ErrUnavailable) {
		t.Errorf("New: %v", err)
	}
}
