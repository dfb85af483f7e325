package gputsqr

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// threads is the block size of all kernels.
const threads = 256

// Config specifies the device and its memory.
type Config struct {
	// Device is the GPU that has the rows.
	Device int
	// Memory allocates device memory.
	Memory mem.Resource
	// Stream is the stream for all work.
	Stream *cuda.Stream
}

// Table is the rows of one rank on a GPU, in parts. It must be used by one goroutine at a time.
type Table struct {
	cfg    Config
	module *cuda.Module
	d      int
	parts  []*part
}

// part is a partition: a buffer for each column, and the table of their addresses and types for kernels.
type part struct {
	index, rows int
	columns     []*mem.Buffer
	table       *mem.Buffer
}

// Column is a column of numbers in device memory: Type is f32, f64, i8 … i64 or u8 … u64.
type Column struct {
	Buffer *mem.Buffer
	Type   string
}

// kinds are the types of columns in the order of tsqr.cu.
var kinds = []string{"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"}

// kindOf returns the number and the size in bytes of a type of columns; the size of an unknown one is 0.
func kindOf(name string) (kind, size int) {
	sizes := []int{1, 2, 4, 8, 1, 2, 4, 8, 4, 8}
	for i, k := range kinds {
		if k == name {
			return i, sizes[i]
		}
	}
	return 0, 0
}

// New returns a Table of d columns without rows.
func New(cfg Config, d int) (*Table, error) {
	if d < 1 {
		return nil, fmt.Errorf("gputsqr: %d columns", d)
	}
	m, err := kernels.Load(cfg.Device, "tsqr")
	if err != nil {
		return nil, err
	}
	return &Table{cfg: cfg, module: m, d: d}, nil
}

// Close frees the memory, when the work on it is done.
func (t *Table) Close() {
	for _, p := range t.parts {
		p.release()
	}
	t.parts = nil
}

func (p *part) release() {
	for _, b := range append(p.columns, p.table) {
		if b != nil {
			b.Release()
		}
	}
}

// Add adds a partition, by its number among those of all ranks. It retains the buffers of the columns, which must not
// be written until Close.
func (t *Table) Add(ctx context.Context, index, rows int, columns []Column) (err error) {
	if len(columns) != t.d {
		return fmt.Errorf("gputsqr: %d columns, want %d", len(columns), t.d)
	}
	p := &part{index: index, rows: rows}
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	entries := make([]byte, 0, 16*t.d)
	for i, c := range columns {
		kind, size := kindOf(c.Type)
		if size == 0 || c.Buffer.Len() < rows*size {
			return fmt.Errorf("gputsqr: column %d has %d bytes of type %q for %d rows", i, c.Buffer.Len(), c.Type, rows)
		}
		if c.Buffer.Device() != t.cfg.Device && rows > 0 {
			return fmt.Errorf("gputsqr: column %d is in %v memory of device %d, want device %d", i, c.Buffer.Kind(),
				c.Buffer.Device(), t.cfg.Device)
		}
		p.columns = append(p.columns, c.Buffer.Retain())
		var at uint64
		if rows > 0 {
			at = uint64(c.Buffer.Addr())
		}
		entries = binary.LittleEndian.AppendUint64(entries, at)
		entries = binary.LittleEndian.AppendUint64(entries, uint64(kind))
	}
	if p.table, err = t.upload(ctx, entries); err != nil {
		return err
	}
	t.parts = append(t.parts, p)
	return nil
}

// upload returns bytes in device memory.
func (t *Table) upload(ctx context.Context, b []byte) (*mem.Buffer, error) {
	out, err := t.cfg.Memory.Alloc(ctx, len(b))
	if err != nil {
		return nil, err
	}
	if err := cuda.CopyFromHost(ctx, out, b); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// also adds the buffers that a kernel finds in the table.
func (p *part) also(args ...cuda.Arg) []cuda.Arg {
	for _, c := range p.columns {
		args = append(args, cuda.AlsoIn(c))
	}
	return args
}

// zeroed returns n bytes of device memory set to zero.
func (t *Table) zeroed(ctx context.Context, n int) (*mem.Buffer, error) {
	b, err := t.cfg.Memory.Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	if _, err := t.cfg.Stream.Fill(b, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// launch runs a kernel.
func (t *Table) launch(name string, cfg cuda.LaunchConfig, args ...cuda.Arg) error {
	f, err := t.module.Function(name)
	if err != nil {
		return err
	}
	cfg.Block = cuda.Dim{X: threads}
	_, err = t.cfg.Stream.Launch(f, cfg, args...)
	return err
}

// blocks returns the number of blocks for rows, at most limit.
func blocks(rows, limit int) int { return max(1, min(limit, (rows+threads-1)/threads)) }
