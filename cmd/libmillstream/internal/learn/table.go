package learn

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Part is an array of a rank, memory of the caller: Rows rows of numbers, column by column, with a distance of Stride
// elements between columns. Index is its number among the parts of all ranks. Labels is memory for a label of 32 bits
// of each row, where Data is, for k-means; 0 for none.
type Part struct {
	Data         uintptr
	Rows, Stride uint64
	Index        uint64
	Labels       uintptr
}

// Table is the parts of one rank.
type Table struct {
	// Kind is the type of elements: float32 or float64.
	Kind    clique.Kind
	Columns int
	// Total is the number of parts of all ranks.
	Total int
	// Threads is the number of threads for parts in host memory (default 1).
	Threads int
	// Host specifies that parts are in host memory (default: where CUDA finds them).
	Host  bool
	Parts []Part
}

// Limits of tables: more is an argument that was not set.
const (
	maxColumns = 1 << 20
	maxParts   = 1 << 24
)

func (t *Table) narrow() bool { return t.Kind == clique.KindOf[float32]() }

// check returns why the table is invalid, "" if it is not, and the GPU that has its parts, -1 for host memory.
func (t *Table) check() (device int, why string) {
	switch {
	case !t.narrow() && t.Kind != clique.KindOf[float64]():
		return -1, fmt.Sprintf("element type %d, want float32 or float64", uint8(t.Kind))
	case t.Columns < 1 || t.Columns > maxColumns:
		return -1, fmt.Sprintf("%d columns, want 1 to %d", t.Columns, maxColumns)
	case t.Total < 0 || t.Total > maxParts || t.Total < len(t.Parts):
		return -1, fmt.Sprintf("%d parts of %d", len(t.Parts), t.Total)
	}
	device = -1
	first := true
	for i, p := range t.Parts {
		switch {
		case p.Index >= uint64(t.Total):
			return -1, fmt.Sprintf("part %d has index %d of %d parts", i, p.Index, t.Total)
		case p.Rows == 0:
			continue
		case p.Stride < p.Rows || p.Stride > math.MaxInt64/uint64(8*t.Columns):
			return -1, fmt.Sprintf("part %d has %d rows and a stride of %d", i, p.Rows, p.Stride)
		case p.Data == 0:
			return -1, fmt.Sprintf("part %d of %d rows is a null pointer", i, p.Rows)
		case p.Data%uintptr(t.Kind.Size()) != 0:
			return -1, fmt.Sprintf("part %d at %#x is not aligned to %d bytes", i, p.Data, t.Kind.Size())
		}
		on := -1
		if !t.Host {
			if a, err := cuda.Pointer(p.Data); err == nil && a.Known && a.Kind == mem.Device {
				on = a.Device
			}
		}
		if !first && on != device {
			return -1, fmt.Sprintf("part %d is on device %d, the first one on %d (-1 is host memory)", i, on, device)
		}
		first, device = false, on
	}
	return device, ""
}

// agree compares arguments of all ranks: if one rank has invalid ones, or they differ, every rank gets an error.
func agree(ctx context.Context, r *clique.Rank, what, why string, arguments ...float64) error {
	v := make([]float64, 2*len(arguments))
	for i, a := range arguments {
		v[2*i], v[2*i+1] = a, -a
	}
	c := clique.AllReduce(clique.Of(v), clique.Of(v), clique.Min)
	if why != "" {
		c = c.Invalid(what + ": " + why)
	}
	if err := r.Do(ctx, c); err != nil {
		return err
	}
	for i := range arguments {
		if low, high := v[2*i], -v[2*i+1]; low != high {
			return fmt.Errorf("learn: %w: %s: argument %d of the ranks is from %v to %v, want the same on all",
				member.ErrInvalid, what, i, low, high)
		}
	}
	return nil
}

// numbers returns n elements of memory of the caller.
func numbers[T any](at uintptr, n uint64) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}

// column returns column j of a part in host memory.
func column[T any](p Part, j int) []T {
	var zero T
	return numbers[T](p.Data+uintptr(uint64(j)*p.Stride)*unsafe.Sizeof(zero), p.Rows)
}

// buffer returns n bytes of device memory of the caller.
func buffer(device int, at uintptr, n uint64) *mem.Buffer {
	return mem.NewRegion(mem.RegionConfig{Addr: at, Len: int(n), Kind: mem.Device, Device: device}).Buffer()
}

// deviceColumn returns column j of a part on a device.
func (t *Table) deviceColumn(device int, p Part, j int) *mem.Buffer {
	size := uint64(t.Kind.Size())
	return buffer(device, p.Data+uintptr(uint64(j)*p.Stride*size), p.Rows*size)
}

// suffix returns the name of the type of elements in the kernels.
func (t *Table) suffix() string {
	if t.narrow() {
		return "f32"
	}
	return "f64"
}

// world is the World of the algorithms.
type world struct{ r *clique.Rank }

// tag is the tag of messages of triangles: that of no caller.
const tag = math.MaxUint64 - 0x7a11

func (w world) Sum(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Sum))
}

func (w world) Min(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Min))
}

func (w world) Send(ctx context.Context, to int, v []float64) error {
	return w.r.Do(ctx, clique.Send(to, tag, clique.Of(v)))
}

func (w world) Recv(ctx context.Context, from int, v []float64) error {
	return w.r.Do(ctx, clique.Recv(from, tag, clique.Of(v)))
}

func (w world) Broadcast(ctx context.Context, v []float64) error {
	return w.r.Do(ctx, clique.Broadcast(clique.Of(v), 0))
}

func (w world) Rank() (int, int) { return w.r.Rank(), w.r.Size() }
