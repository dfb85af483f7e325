package clique

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
)

// mixed has a column of every sort that frames on devices have.
var mixed = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_us},
	{Name: "small", Type: arrow.PrimitiveTypes.Uint16},
}, nil)

func mixedBatch(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), mixed)
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(i) * 1_000_000)
		b.Field(5).(*array.Uint16Builder).Append(uint16(i))
		if i%3 == 2 {
			b.Field(1).AppendNull()
			b.Field(3).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append("n" + strings.Repeat("ü", i%5))
			b.Field(3).(*array.BooleanBuilder).Append(i%2 == 0)
		}
		if i%4 == 3 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float64Builder).Append(float64(i) / 2)
		}
	}
	return b.NewRecordBatch()
}

// nowhere is an error unless every array of a batch is memory of the GPU, by the driver's word.
func nowhere(b *frame.DeviceBatch) error {
	for i := range b.Schema().NumFields() {
		c := b.Column(i)
		for _, a := range []*mem.Buffer{c.Values, c.Validity, c.Offsets} {
			if a == nil || a.Len() == 0 {
				continue
			}
			p, err := cuda.Pointer(a.Addr())
			if err != nil {
				return err
			}
			if !p.Known || p.Kind != mem.Device {
				return errors.New("column " + b.Schema().Field(i).Name + " is not in device memory")
			}
		}
	}
	return nil
}

// doubled is a function on device partitions: it keeps id and makes a column of its own.
var doubled = frame.NewMap("gpu.test.doubled", func(ctx context.Context, b *frame.DeviceBatch) (*frame.DeviceBatch,
	error) {
	if err := nowhere(b); err != nil {
		return nil, err
	}
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, err
	}
	id, err := b.Named("id")
	if err != nil {
		return nil, err
	}
	host := make([]byte, 8*b.NumRows())
	if len(host) > 0 {
		if err := cuda.CopyToHost(ctx, host, id.Values); err != nil {
			return nil, err
		}
	}
	for i := 0; i < len(host); i += 8 {
		n := float64(binary.LittleEndian.Uint64(host[i:]))
		binary.LittleEndian.PutUint64(host[i:], math.Float64bits(2*n))
	}
	buf, err := d.Memory.Alloc(ctx, len(host))
	if err != nil {
		return nil, err
	}
	if len(host) > 0 {
		if _, err := cuda.StreamOf(d.Stream).Copy(buf, mem.FromBytes(host)); err != nil {
			buf.Release()
			return nil, err
		}
	}
	return frame.NewDeviceBatch(doubledSchema, b.NumRows(), []frame.DeviceColumn{id, {Values: buf}})
})

var doubledSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "twice", Type: arrow.PrimitiveTypes.Float64}}, nil)

// Frames go to the GPU and back as they are; functions work on them there; partitions move from
// worker to worker.
func TestGPUFrame(t *testing.T) {
	requireGPU(t)
	ctx, c := gpuCluster(t, 2)
	whole := mixedBatch(0, 1000)
	// Slices of arrays, at places that are no multiple of eight, and nothing.
	parts := []arrow.RecordBatch{whole.NewSlice(0, 333), whole.NewSlice(333, 333), whole.NewSlice(333, 1000),
		mixedBatch(1000, 1001)}
	f, err := frame.FromBatches(ctx, c, parts)
	must(t, err)
	df, err := f.ToDevice(ctx)
	must(t, err)
	must(t, df.Persist(ctx))
	rows, err := df.Rows(ctx)
	must(t, err)
	if len(rows) != 4 || rows[0] != 333 || rows[1] != 0 || rows[2] != 667 || rows[3] != 1 {
		t.Errorf("rows %v", rows)
	}
	back, err := df.ToHost(ctx)
	must(t, err)
	got, err := back.Collect(ctx)
	must(t, err)
	for i, b := range got {
		if !array.RecordEqual(b, parts[i]) {
			t.Errorf("partition %d came back as %v\nwant %v", i, b, parts[i])
		}
	}
	few, err := df.Filter(ctx, frame.Col("id").Between(330, 340))
	must(t, err)
	three, err := few.Repartition(ctx, 3)
	must(t, err)
	ids, err := three.Collect(ctx)
	must(t, err)
	at := int64(330)
	for i, b := range ids {
		for _, id := range b.Column(0).(*array.Int64).Int64Values() {
			if id != at {
				t.Errorf("partition %d of those that were filtered has id %d, want %d", i, id, at)
			}
			at++
		}
	}
	if at != 341 || len(ids) != 3 || few.Location() != frame.Device || three.Location() != frame.Device {
		t.Errorf("got %v and %v up to id %d, want three partitions on devices up to 340", few, three, at-1)
	}
	few.Release()
	three.Release()
	twice, err := df.Map(ctx, doubled, nil)
	must(t, err)
	if !twice.Schema().Equal(doubledSchema) {
		t.Errorf("the schema is %v", twice.Schema())
	}
	two, err := twice.Project(ctx, "twice", "id")
	must(t, err)
	// The frames that it was made of are given up: it has references of its own.
	df.Release()
	twice.Release()
	host, err := two.ToHost(ctx)
	must(t, err)
	batches, err := host.Collect(ctx)
	must(t, err)
	n := 0
	for _, b := range batches {
		for i, id := range b.Column(1).(*array.Int64).Int64Values() {
			if v := b.Column(0).(*array.Float64).Value(i); v != float64(2*n) || id != int64(n) {
				t.Fatalf("row %d has id %d and twice %v", n, id, v)
			}
			n++
		}
	}
	if n != 1001 {
		t.Errorf("%d rows", n)
	}
	other, err := two.Map(ctx, doubled, mixed) // its own promise is checked
	must(t, err)
	if err := other.Persist(ctx); !errors.Is(err, frame.ErrSchema) {
		t.Errorf("a partition of another schema: %v", err)
	}
}
