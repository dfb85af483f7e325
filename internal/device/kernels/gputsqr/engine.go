package gputsqr

import (
	"context"
	"math"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels/tsqr"
	"go.millstream.dev/mem"
)

var _ tsqr.Engine = (*Table)(nil)

// Columns implements tsqr.Engine.
func (t *Table) Columns() int { return t.d }

// bytesOf returns the memory of numbers.
func bytesOf(v []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v))
}

// sumBlocks bounds the blocks of each column of the kernel of sums.
const sumBlocks = 64

// Sums implements tsqr.Engine.
func (t *Table) Sums(ctx context.Context, out []float64) error {
	for _, p := range t.parts {
		if p.rows == 0 {
			continue
		}
		n := blocks(p.rows, sumBlocks)
		sums := make([]float64, n*t.d)
		b, err := t.cfg.Memory.Alloc(ctx, 8*len(sums))
		if err != nil {
			return err
		}
		err = t.launch("tsqr_sums", cuda.LaunchConfig{Grid: cuda.Dim{X: n, Y: t.d}},
			p.also(cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Out(b))...)
		if err == nil {
			err = cuda.CopyToHost(ctx, bytesOf(sums), b)
		}
		b.Release()
		if err != nil {
			return err
		}
		for i, v := range sums {
			out[i/n] += v
		}
		out[t.d] += float64(p.rows)
	}
	return nil
}

// shape is the memory of the kernel of rows: the rows of a tile, and what of it is in shared memory.
type shape struct {
	rows         int
	tile, inside bool // the tile, and the triangle next to it
}

// sharedDoubles bounds the shared memory of a block.
const sharedDoubles = 48 << 10 / 8

// shapeOf returns the shape for d columns.
func shapeOf(d int) shape {
	inside := d <= 40
	room := sharedDoubles
	if inside {
		room -= d * d
	}
	rows := min(1024, room/d/32*32)
	if rows < 32 { // too many columns: memory of the device
		return shape{rows: 256}
	}
	return shape{rows, true, inside}
}

// shared returns the bytes of shared memory.
func (s shape) shared(d int) (n int) {
	if s.tile {
		n = 8 * s.rows * d
	}
	if s.inside {
		n += 8 * d * d
	}
	return n
}

// triangleBytes bounds the device memory for the triangles and tiles of all blocks.
const triangleBytes = 256 << 20

// grid returns the number of blocks of the kernel of rows: at most most, as many as there are tiles.
func (s shape) grid(d, rows, most int) int {
	each := d * d
	if !s.tile {
		each += s.rows * d
	}
	return max(1, min(most, (rows+s.rows-1)/s.rows, triangleBytes/8/each))
}

// Triangle implements tsqr.Engine.
func (t *Table) Triangle(ctx context.Context, mean []float64) (*tsqr.Triangle, error) {
	d, s, rows := t.d, shapeOf(t.d), 0
	for _, p := range t.parts {
		rows = max(rows, p.rows)
	}
	if rows == 0 {
		return tsqr.NewTriangle(d), nil
	}
	f, err := t.module.Function("tsqr_rows")
	if err != nil {
		return nil, err
	}
	most, err := f.Blocks(threads, s.shared(d))
	if err != nil {
		return nil, err
	}
	n := s.grid(d, rows, most)
	means, err := t.upload(ctx, bytesOf(mean))
	if err != nil {
		return nil, err
	}
	defer means.Release()
	triangles, err := t.zeroed(ctx, 8*n*d*d)
	if err != nil {
		return nil, err
	}
	defer triangles.Release()
	work := cuda.Val(uint64(0))
	if !s.tile {
		b, err := t.cfg.Memory.Alloc(ctx, 8*n*s.rows*d)
		if err != nil {
			return nil, err
		}
		defer b.Release()
		work = cuda.Out(b)
	}
	for _, p := range t.parts {
		if p.rows == 0 {
			continue
		}
		if err := t.launch("tsqr_rows", cuda.LaunchConfig{Grid: cuda.Dim{X: n}, SharedBytes: s.shared(d)},
			p.also(cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Val(int32(d)), cuda.In(means),
				cuda.Val(int32(s.rows)), cuda.Val(flag(s.inside)), cuda.Out(triangles), work)...); err != nil {
			return nil, err
		}
	}
	for step := 1; step < n; step *= 2 {
		pairs := (n - step + 2*step - 1) / (2 * step)
		if err := t.launch("tsqr_merge", cuda.LaunchConfig{Grid: cuda.Dim{X: pairs}}, cuda.Out(triangles),
			cuda.Val(int32(d)), cuda.Val(int32(step))); err != nil {
			return nil, err
		}
	}
	return t.fetch(ctx, triangles)
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// fetch waits for the first triangle.
func (t *Table) fetch(ctx context.Context, triangles *mem.Buffer) (*tsqr.Triangle, error) {
	r := make([]float64, t.d*t.d)
	first := triangles.Slice(0, 8*len(r))
	defer first.Release()
	if err := cuda.CopyToHost(ctx, bytesOf(r), first); err != nil {
		return nil, err
	}
	return tsqr.FromColumns(r, t.d), nil
}

// Bad implements tsqr.Engine.
func (t *Table) Bad(ctx context.Context) (int, error) {
	bad := math.MaxInt
	for _, p := range t.parts {
		if p.rows == 0 {
			continue
		}
		b, err := t.zeroed(ctx, 4*t.d)
		if err != nil {
			return -1, err
		}
		found := make([]byte, 4*t.d)
		err = t.launch("tsqr_bad", cuda.LaunchConfig{Grid: cuda.Dim{X: blocks(p.rows, sumBlocks), Y: t.d}},
			p.also(cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Out(b))...)
		if err == nil {
			err = cuda.CopyToHost(ctx, found, b)
		}
		b.Release()
		if err != nil {
			return -1, err
		}
		for j := range t.d {
			if found[4*j] != 0 {
				bad = min(bad, p.index*t.d+j)
			}
		}
	}
	if bad == math.MaxInt {
		return -1, nil
	}
	return bad, nil
}
