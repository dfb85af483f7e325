package gpulloyd

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// threads is the block size of all kernels, and the number of rows of one block of distances.
const threads = 256

// Config specifies the device and its memory.
type Config struct {
	// Device is the GPU that has the rows.
	Device int
	// Memory allocates device memory, Pinned host memory for copies.
	Memory, Pinned mem.Resource
	// Stream is the stream for all work.
	Stream *cuda.Stream
}

// Rows are the rows of one rank on a GPU, in parts. It must be used by one goroutine at a time.
type Rows struct {
	cfg     Config
	module  *cuda.Module
	narrow  bool // numbers are float32
	d, k    int
	parts   []*part
	changed float64

	// all has k*d sums, k counts and the total number of changed labels; inputs the inputs of kernels, copied through
	// staging; answers the results for the host.
	all, inputs, staging, answers *mem.Buffer
	staged                        *cuda.Event // the last copy out of staging
}

// part is a subset of the rows: a buffer for each column, the table of their addresses for kernels, and labels.
type part struct {
	rows    int
	columns []*mem.Buffer
	table   *mem.Buffer
	labels  *mem.Buffer
}

// New returns Rows for k centers of rows with d columns; narrow selects float32 numbers instead of float64.
func New(ctx context.Context, cfg Config, d, k int, narrow bool) (*Rows, error) {
	if d < 1 || k < 1 {
		return nil, fmt.Errorf("gpulloyd: %d centers of %d columns", k, d)
	}
	r := &Rows{cfg: cfg, narrow: narrow, d: d, k: k}
	var err error
	if r.module, err = kernels.Load(cfg.Device, "kmeans_"+r.suffix()); err != nil {
		return nil, err
	}
	if r.all, err = cfg.Memory.Alloc(ctx, 8*(k*(d+1)+1)); err != nil {
		return nil, err
	}
	if _, err := cfg.Stream.Fill(r.all, 0); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close frees the memory, when the work on it is done.
func (r *Rows) Close() {
	for _, p := range r.parts {
		p.release()
	}
	r.parts = nil
	for _, b := range []**mem.Buffer{&r.all, &r.inputs, &r.staging, &r.answers} {
		if *b != nil {
			(*b).Release()
			*b = nil
		}
	}
}

func (p *part) release() {
	for _, b := range append(p.columns, p.table, p.labels) {
		if b != nil {
			b.Release()
		}
	}
}

func (r *Rows) item() int {
	if r.narrow {
		return 4
	}
	return 8
}

// suffix returns the suffix of the image with the kernels.
func (r *Rows) suffix() string {
	if r.narrow {
		return "f32"
	}
	return "f64"
}

// Column is a column of numbers in device memory: Type is f32, f64, i8 … i64 or u8 … u64.
type Column struct {
	Buffer *mem.Buffer
	Type   string
}

// ItemSize returns the size in bytes of a column type, 0 for an unknown one.
func ItemSize(kind string) int {
	switch kind {
	case "i8", "u8":
		return 1
	case "i16", "u16":
		return 2
	case "i32", "u32", "f32":
		return 4
	case "i64", "u64", "f64":
		return 8
	}
	return 0
}

// Add adds rows without a label. It retains the buffers of columns that have the type of the numbers, and converts
// others; they must not be written until Close.
func (r *Rows) Add(ctx context.Context, rows int, columns []Column) (err error) {
	if len(columns) != r.d {
		return fmt.Errorf("gpulloyd: %d columns, want %d", len(columns), r.d)
	}
	p := &part{rows: rows}
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	for i, c := range columns {
		size := ItemSize(c.Type)
		if size == 0 || c.Buffer.Len() < rows*size {
			return fmt.Errorf("gpulloyd: column %d has %d bytes of type %q for %d rows", i, c.Buffer.Len(), c.Type,
				rows)
		}
		if c.Buffer.Device() != r.cfg.Device && rows > 0 {
			return fmt.Errorf("gpulloyd: column %d is in %v memory of device %d, want device %d", i,
				c.Buffer.Kind(), c.Buffer.Device(), r.cfg.Device)
		}
		if c.Type == r.suffix() {
			p.columns = append(p.columns, c.Buffer.Retain())
			continue
		}
		if r.narrow {
			return fmt.Errorf("gpulloyd: column %d has type %q, want float32", i, c.Type)
		}
		out, err := r.converted(ctx, rows, c)
		if err != nil {
			return err
		}
		p.columns = append(p.columns, out)
	}
	if p.labels, err = r.cfg.Memory.Alloc(ctx, 4*rows); err != nil {
		return err
	}
	if rows > 0 {
		if _, err := r.cfg.Stream.Fill(p.labels, 0xff); err != nil {
			return err
		}
	}
	if p.table, err = r.cfg.Memory.Alloc(ctx, 8*r.d); err != nil {
		return err
	}
	staging, err := r.stage(ctx, 8*r.d)
	if err != nil {
		return err
	}
	table := view[uint64](staging)
	for i, c := range p.columns {
		table[i] = uint64(c.Addr())
	}
	if r.staged, err = r.copyTo(p.table, r.staging, 8*r.d); err != nil {
		return err
	}
	r.parts = append(r.parts, p)
	return nil
}

// converted returns a column as float64.
func (r *Rows) converted(ctx context.Context, rows int, c Column) (*mem.Buffer, error) {
	out, err := r.cfg.Memory.Alloc(ctx, 8*rows)
	if err != nil || rows == 0 {
		return out, err
	}
	if err := r.launch("kmeans_convert_"+c.Type, grid{rows: rows}, cuda.In(c.Buffer), cuda.Val(int64(rows)),
		cuda.Out(out)); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// Parts returns the number of parts.
func (r *Rows) Parts() int { return len(r.parts) }

// Rows returns the number of rows of a part.
func (r *Rows) Rows(part int) int { return r.parts[part].rows }

// Labels returns the labels of a part, int32 each, with a reference for the caller. They change with the next pass.
func (r *Rows) Labels(part int) *mem.Buffer { return r.parts[part].labels.Retain() }

// grid specifies the blocks of a kernel: one for every threads*per rows (per 0: 1), as many as the device runs at once
// if all is not set, and columns in the second dimension.
type grid struct {
	rows, per, columns int
	all                bool
}

var errNothing = errors.New("gpulloyd: no rows")

// blocks returns the extent of a grid.
func (r *Rows) blocks(f *cuda.Function, g grid) (int, error) {
	if g.rows == 0 {
		return 0, errNothing
	}
	n := (g.rows + threads*max(g.per, 1) - 1) / (threads * max(g.per, 1))
	if g.all {
		return n, nil
	}
	most, err := f.Blocks(threads, 0)
	return min(n, max(most, 1)), err
}

// launch runs a kernel; it does nothing if there are no rows.
func (r *Rows) launch(name string, g grid, args ...cuda.Arg) error {
	f, err := r.module.Function(name)
	if err != nil {
		return err
	}
	n, err := r.blocks(f, g)
	if err == errNothing {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.cfg.Stream.Launch(f, cuda.LaunchConfig{Grid: cuda.Dim{X: n, Y: max(g.columns, 1)},
		Block: cuda.Dim{X: threads}}, args...)
	return err
}
