package gpulloyd

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/mem"
)

// passKernel returns the kernel for a number of columns, and the number of rows of each of its threads.
func (r *Rows) passKernel() (name string, per int) {
	for _, d := range []int{8, 16, 32} {
		if r.d <= d {
			per = 2
			if !r.narrow && d > 8 {
				per = 1
			}
			return fmt.Sprintf("kmeans_pass_d%d", d), per
		}
	}
	return "kmeans_pass_any", 1
}

// Pass sets the label of every row to the nearest center, the first of equally near ones. Centers and shift are numbers
// of the type of the data. The result is valid until the next call: the sums of the rows of each center minus shift,
// row by row, the numbers of rows of each, and how many labels have changed.
func (r *Rows) Pass(ctx context.Context, shift, centers []float64) ([]float64, error) {
	if err := r.assign(ctx, shift, centers, r.all); err != nil {
		return nil, err
	}
	n := r.k*(r.d+1) + 1
	all, err := r.fetch(ctx, r.all, n)
	if err != nil {
		return nil, err
	}
	now := all[n-1]
	all[n-1], r.changed = now-r.changed, now
	return all, nil
}

// Relabel is Pass without sums: those of later passes no longer match the labels.
func (r *Rows) Relabel(ctx context.Context, shift, centers []float64) error {
	return r.assign(ctx, shift, centers, nil)
}

func (r *Rows) assign(ctx context.Context, shift, centers []float64, all *mem.Buffer) error {
	if len(shift) != r.d || len(centers) != r.k*r.d {
		return fmt.Errorf("gpulloyd: %d coordinates of %d centers, a shift of %d, in %d columns", len(centers), r.k,
			len(shift), r.d)
	}
	moved, half := r.prepare(shift, centers)
	at, err := r.upload(ctx, shift, moved, half)
	if err != nil {
		return err
	}
	item := uint64(r.item())
	name, per := r.passKernel()
	for _, p := range r.parts {
		args := []cuda.Arg{cuda.In(p.table), cuda.Val(at), cuda.Val(int64(p.rows)), cuda.Val(int32(r.d)),
			cuda.Val(int32(r.k)),
			cuda.Val(at + uint64(r.d)*item), cuda.Val(at + uint64(r.d*(r.k+1))*item), cuda.Out(p.labels)}
		if all != nil {
			args = append(args, cuda.Out(all))
		} else {
			args = append(args, cuda.Val(uint64(0)))
		}
		if err := r.launch(name, grid{rows: p.rows, per: per}, p.also(args, r.inputs)...); err != nil {
			return err
		}
	}
	return nil
}

// also adds the buffers that a kernel finds in the table, and its inputs.
func (p *part) also(args []cuda.Arg, inputs *mem.Buffer) []cuda.Arg {
	for _, c := range p.columns {
		args = append(args, cuda.AlsoIn(c))
	}
	return append(args, cuda.AlsoIn(inputs))
}

// prepare returns the centers minus shift and half their squared norms, as computed by lloyd.
func (r *Rows) prepare(shift, centers []float64) (moved, half []float64) {
	moved, half = make([]float64, len(centers)), make([]float64, r.k)
	for c := range r.k {
		var norm float64
		for j := range r.d {
			e := centers[c*r.d+j] - shift[j]
			if r.narrow {
				e = float64(float32(centers[c*r.d+j]) - float32(shift[j]))
			}
			moved[c*r.d+j] = e
			norm += e * e
		}
		half[c] = norm / 2 // upload rounds it
	}
	return moved, half
}

// sumBlocks bounds the blocks of kernels that return one number each.
const sumBlocks = 1024

// Inertia returns the sum of the squared distances of the rows to the centers of their labels.
func (r *Rows) Inertia(ctx context.Context, centers []float64) (float64, error) {
	at, err := r.upload(ctx, centers)
	if err != nil {
		return 0, err
	}
	out, err := r.zeroed(ctx, sumBlocks*max(1, len(r.parts)))
	if err != nil {
		return 0, err
	}
	defer out.Release()
	for i, p := range r.parts {
		args := []cuda.Arg{cuda.In(p.table), cuda.Val(int64(p.rows)), cuda.Val(int32(r.d)), cuda.Val(at),
			cuda.In(p.labels),
			cuda.Val(uint64(out.Addr()) + uint64(8*sumBlocks*i)), cuda.AlsoOut(out)}
		if err := r.launch("kmeans_inertia", limited(p.rows), p.also(args, r.inputs)...); err != nil {
			return 0, err
		}
	}
	parts, err := r.fetch(ctx, out, out.Len()/8)
	var sum float64
	for _, v := range parts {
		sum += v
	}
	return sum, err
}

// limited returns a grid of at most sumBlocks blocks.
func limited(rows int) grid {
	return grid{rows: rows, per: max(1, (rows+threads*sumBlocks-1)/(threads*sumBlocks)), all: true}
}

// zeroed returns n doubles set to zero.
func (r *Rows) zeroed(ctx context.Context, n int) (*mem.Buffer, error) {
	b, err := r.cfg.Memory.Alloc(ctx, 8*n)
	if err != nil {
		return nil, err
	}
	if _, err := r.cfg.Stream.Fill(b, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Moments adds to out the sums of the columns minus shift, then those of their squares.
func (r *Rows) Moments(ctx context.Context, shift, out []float64) error {
	at, err := r.upload(ctx, shift)
	if err != nil {
		return err
	}
	for _, p := range r.parts {
		const blocks = 64
		sums, err := r.zeroed(ctx, 2*blocks*r.d)
		if err != nil {
			return err
		}
		g := grid{rows: p.rows, per: max(1, (p.rows+threads*blocks-1)/(threads*blocks)), columns: r.d, all: true}
		n := (p.rows + threads*g.per - 1) / (threads * g.per)
		err = r.launch("kmeans_moments", g,
			p.also([]cuda.Arg{cuda.In(p.table), cuda.Val(at), cuda.Val(int64(p.rows)), cuda.Out(sums)}, r.inputs)...)
		var got []float64
		if err == nil {
			got, err = r.fetch(ctx, sums, 2*n*r.d)
		}
		sums.Release()
		if err != nil {
			return err
		}
		for j := range r.d {
			for b := range n {
				out[j] += got[2*(j*n+b)]
				out[r.d+j] += got[2*(j*n+b)+1]
			}
		}
	}
	return nil
}

// Row sets out to the coordinates of a row of a part, and returns its label.
func (r *Rows) Row(ctx context.Context, part, row int, out []float64) (int32, error) {
	p := r.parts[part]
	if row < 0 || row >= p.rows {
		return 0, fmt.Errorf("gpulloyd: row %d of %d", row, p.rows)
	}
	b, err := r.cfg.Memory.Alloc(ctx, 8*(r.d+1))
	if err != nil {
		return 0, err
	}
	defer b.Release()
	args := []cuda.Arg{cuda.In(p.table), cuda.Val(int64(row)), cuda.Val(int32(r.d)), cuda.In(p.labels), cuda.Out(b)}
	for _, c := range p.columns {
		args = append(args, cuda.AlsoIn(c))
	}
	if err := r.launch("kmeans_row", grid{rows: 1}, args...); err != nil {
		return 0, err
	}
	got, err := r.fetch(ctx, b, r.d+1)
	if err != nil {
		return 0, err
	}
	copy(out, got[:r.d])
	return int32(got[r.d]), nil
}

// Finite returns the first part, and its first column, with a value that is not finite; -1 if there is none. It copies
// the columns to the host: it is for error messages.
func (r *Rows) Finite(ctx context.Context) (part, column int, err error) {
	for i, p := range r.parts {
		for j, c := range p.columns {
			host := make([]byte, p.rows*r.item())
			v := c.Slice(0, len(host))
			err := cuda.CopyToHost(ctx, host, v)
			v.Release()
			if err != nil {
				return -1, -1, err
			}
			bad := -1
			if r.narrow {
				bad = lloyd.Finite([][]float32{view[float32](host)})
			} else {
				bad = lloyd.Finite([][]float64{view[float64](host)})
			}
			if bad >= 0 {
				return i, j, nil
			}
		}
	}
	return -1, -1, nil
}
