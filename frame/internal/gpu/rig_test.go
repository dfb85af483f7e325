package gpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// engine returns an Engine whose memory is all free at the end of the test.
func engine(t testing.TB) (*Engine, context.Context) {
	t.Helper()
	return engineOf(t, func(r mem.Resource) mem.Resource { return r })
}

func engineOf(t testing.TB, limit func(mem.Resource) mem.Resource) (*Engine, context.Context) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	memory, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{})
	must(t, err)
	pinned, err := mem.NewPool(cuda.NewPinnedResource(0), mem.PoolConfig{SlabBytes: 8 << 20})
	must(t, err)
	s, err := cuda.NewStream(0, cuda.StreamConfig{})
	must(t, err)
	e, err := New(Config{Memory: limit(memory), Pinned: pinned, Stream: s})
	must(t, err)
	t.Cleanup(func() {
		must(t, e.Close())
		must(t, s.Wait(ctx))
		must(t, s.Close())
		for _, p := range []*mem.Pool{memory, pinned} {
			if n := p.Stats().Outstanding; n != 0 {
				t.Errorf("%d buffers of the %v pool are in use", n, p.Kind())
			}
			must(t, p.Close())
		}
		cancel()
	})
	return e, ctx
}

// sizes are numbers of rows around those of warps, blocks and tiles.
var sizes = []int{0, 1, 31, 32, 33, 255, 1023, 4097, 30_011}

var types = []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
	arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.FixedWidthTypes.Boolean, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us}

// column describes a random column: different values of a type, and the share of nulls.
type column struct {
	t        arrow.DataType
	distinct int
	nulls    float64
}

// randomArray returns values of a column. Integers have extremes and -1, whose word has all bits set, floats both
// zeros, NaN and infinities among their values.
func randomArray(r *rand.Rand, c column, rows int) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, c.t)
	defer b.Release()
	for range rows {
		if r.Float64() < c.nulls {
			b.AppendNull()
			continue
		}
		v := r.IntN(c.distinct)
		special := v%7 == 0 && v < 64
		var f float64
		switch {
		case !special:
			f = float64(v) - 5.5
		default:
			f = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(5)]
		}
		n := int64(v) - 2
		if special && v > 0 {
			n = []int64{-1, math.MaxInt32, math.MinInt32, 127, -128}[v%5]
		}
		switch b := b.(type) {
		case *array.Int8Builder:
			b.Append(int8(n))
		case *array.Int16Builder:
			b.Append(int16(n))
		case *array.Int32Builder:
			b.Append(int32(n))
		case *array.Int64Builder:
			b.Append(n * 1009)
		case *array.Uint8Builder:
			b.Append(uint8(n))
		case *array.Uint16Builder:
			b.Append(uint16(n))
		case *array.Uint32Builder:
			b.Append(uint32(n))
		case *array.Uint64Builder:
			b.Append(uint64(n) << 40)
		case *array.Float32Builder:
			b.Append(float32(f))
		case *array.Float64Builder:
			b.Append(f)
		case *array.BooleanBuilder:
			b.Append(v%2 == 0)
		case *array.Date32Builder:
			b.Append(arrow.Date32(n))
		case *array.TimestampBuilder:
			b.Append(arrow.Timestamp(n))
		default:
			panic(fmt.Sprintf("no values of %v", c.t))
		}
	}
	return b.NewArray()
}

// randomBatch returns a batch of columns c0, c1, … and a last one with the numbers of the rows.
func randomBatch(r *rand.Rand, rows int, columns ...column) arrow.RecordBatch {
	var fields []arrow.Field
	var arrays []arrow.Array
	for i, c := range columns {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: c.t, Nullable: true})
		arrays = append(arrays, randomArray(r, c, rows))
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range rows {
		b.Append(int64(i))
	}
	fields = append(fields, arrow.Field{Name: "row", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	arrays = append(arrays, b.NewArray())
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(rows))
}

// lines returns the rows of batches as texts. All NaNs are the same, and so are both zeros; floats that are sums are
// rounded to twelve digits.
func lines(batches ...arrow.RecordBatch) []string {
	var out []string
	for _, b := range batches {
		for i := range int(b.NumRows()) {
			var s strings.Builder
			for _, c := range b.Columns() {
				var f float64
				switch {
				case c.IsNull(i):
					s.WriteString("null ")
					continue
				case c.DataType().ID() == arrow.FLOAT64:
					f = c.(*array.Float64).Value(i)
				case c.DataType().ID() == arrow.FLOAT32:
					f = float64(c.(*array.Float32).Value(i))
				default:
					s.WriteString(c.ValueStr(i) + " ")
					continue
				}
				fmt.Fprintf(&s, "%.11g ", f+0)
			}
			out = append(out, s.String())
		}
	}
	return out
}

// compare reports the first difference of two lists of rows, in their order unless any is set.
func compare(t testing.TB, what string, got, want []string, any bool) {
	t.Helper()
	if any {
		slices.Sort(got)
		slices.Sort(want)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: row %d is %q, want %q (%d and %d rows)", what, i, got[i], want[i], len(got), len(want))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}

func upload(t testing.TB, ctx context.Context, e *Engine, b arrow.RecordBatch) *Table {
	t.Helper()
	d, err := e.Upload(ctx, b)
	must(t, err)
	t.Cleanup(d.Release)
	return d
}

// download returns the rows of a table and releases it.
func download(t testing.TB, ctx context.Context, e *Engine, d *Table) []string {
	t.Helper()
	defer d.Release()
	b, err := e.Download(ctx, d)
	must(t, err)
	defer b.Release()
	return lines(b)
}
