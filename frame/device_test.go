package frame

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// fakeDevice is host memory in place of that of a GPU: the tests are about the location of buffers, not about copies.
// It counts allocated buffers.
type fakeDevice struct{ out, made atomic.Int64 }

func (d *fakeDevice) Alloc(_ context.Context, n int) (*mem.Buffer, error) {
	d.out.Add(1)
	d.made.Add(1)
	return mem.NewRegion(mem.RegionConfig{Heap: make([]byte, n), Free: func() { d.out.Add(-1) }}).Buffer(), nil
}
func (d *fakeDevice) Kind() mem.Kind { return mem.Host }
func (d *fakeDevice) Device() int    { return -1 }

// onFake returns the context of a task on a worker with a fake GPU.
func onFake(t testing.TB) (context.Context, *fakeDevice) {
	d := new(fakeDevice)
	host := &task.Host{Device: &task.Device{Memory: d}}
	return task.WithInfo(t.Context(), &task.Info{Host: host}), d
}

// mixedSchema has a column of every kind of layout.
var mixedSchema = arrow.NewSchema(append(people.Fields(),
	arrow.Field{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms},
	arrow.Field{Name: "small", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	arrow.Field{Name: "raw", Type: arrow.BinaryTypes.Binary}), nil)

func mixedOf(n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(heap, mixedSchema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(3).(*array.BooleanBuilder).Append(i%3 == 0)
		b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(i))
		b.Field(6).(*array.BinaryBuilder).Append(bytes.Repeat([]byte{byte(i)}, i%4))
		if i%5 == 2 {
			b.Field(1).AppendNull()
			b.Field(2).AppendNull()
			b.Field(5).AppendNull()
			continue
		}
		b.Field(1).(*array.StringBuilder).Append(strings.Repeat("ü", i%7))
		b.Field(2).(*array.Float64Builder).Append(math.Sqrt(float64(i)))
		b.Field(5).(*array.Uint8Builder).Append(uint8(i))
	}
	return b.NewRecordBatch()
}

// Batches are unchanged after a copy to a device and back, also those that begin in the middle of their buffers, and
// after transfer in messages.
func TestDeviceBatch(t *testing.T) {
	ctx, dev := onFake(t)
	whole := mixedOf(100)
	for _, cut := range [][2]int64{{0, 100}, {0, 0}, {3, 20}, {8, 9}, {99, 100}, {16, 64}, {100, 100}} {
		in := whole.NewSlice(cut[0], cut[1])
		b, err := copyBatchToDevice(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		value, err := b.value()
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.CopyToHost(ctx)
		if err != nil || !array.RecordEqual(in, out) {
			t.Errorf("rows %v: got %v (%v)\nwant %v", cut, out, err, in)
		}
		// The form in which a peer receives it.
		s, err := task.EncodeValue(value)
		if err != nil {
			t.Fatal(err)
		}
		var got wire.Dict
		if err := task.DecodeInto(s, &got); err != nil {
			t.Fatal(err)
		}
		far, err := deviceBatch(got)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = far.CopyToHost(ctx); err != nil || !array.RecordEqual(in, out) {
			t.Errorf("rows %v after transfer: got %v (%v)\nwant %v", cut, out, err, in)
		}
		task.Release(got)
		s.Release()
		task.Release(value)
		if n := dev.out.Load(); n != 0 {
			t.Fatalf("got %d buffers not freed, want 0", n)
		}
	}
	if _, err := copyBatchToDevice(t.Context(), whole); !errors.Is(err, task.ErrOutside) {
		t.Errorf("outside of a task: got %v", err)
	}
}

// A function gets arrays that were in host memory on its device, and its result shares its arguments without a copy.
func TestDeviceCall(t *testing.T) {
	ctx, dev := onFake(t)
	b, err := copyBatchToDevice(ctx, mixedOf(10))
	if err != nil {
		t.Fatal(err)
	}
	there, err := b.value()
	if err != nil {
		t.Fatal(err)
	}
	arrived := wire.Dict{} // the same on the Go heap, as a worker without a GPU would send it
	for _, p := range there {
		if a, ok := p.Value.(*wire.DeviceArray); ok {
			c := *a
			c.Frame = wire.HeapFrame(bytes.Clone(a.Frame.Bytes()))
			p.Value = &c
		}
		arrived = append(arrived, p)
	}
	before := dev.out.Load()
	for name, in := range map[string]wire.Dict{"on the device": there, "in host memory": arrived} {
		var seen *mem.Buffer
		out, err := deviceCall(ctx, in, func(_ context.Context, b *DeviceBatch) (*DeviceBatch, error) {
			for i := range b.columns {
				for _, a := range b.columns[i].arrays() {
					if (*a).Buffer() == nil {
						t.Errorf("%s: column %d is not on the device", name, i)
					}
				}
			}
			c, err := b.Named("score")
			seen = c.Values
			if err != nil {
				return nil, err
			}
			return b.Project("score", "id")
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := deviceBatch(out)
		if err != nil {
			t.Fatal(err)
		}
		if got.Column(0).Values != seen || got.NumRows() != 10 || got.Schema().NumFields() != 2 {
			t.Errorf("%s: got %v", name, got.Schema())
		}
		if name == "in host memory" { // three arrays are kept: the others were released
			if n := dev.out.Load() - before; n != 3 {
				t.Errorf("%s: got %d buffers kept", name, n)
			}
			task.Release(out)
		}
		for what, f := range map[string]func(context.Context, *DeviceBatch) (*DeviceBatch, error){
			"nothing": func(context.Context, *DeviceBatch) (*DeviceBatch, error) { return nil, nil },
			"failure": func(context.Context, *DeviceBatch) (*DeviceBatch, error) { return nil, errors.New("no") },
		} {
			if _, err := deviceCall(ctx, in, f); err == nil {
				t.Errorf("%s: %s: got no error", name, what)
			}
		}
		if n := dev.out.Load(); n != before {
			t.Errorf("%s: got %d buffers, want %d", name, n, before)
		}
	}
	task.Release(there)
}

// Columns of numbers are passed to algorithms of shared libraries without a copy.
func TestDeviceBatchNative(t *testing.T) {
	ctx, dev := onFake(t)
	b, err := copyBatchToDevice(ctx, mixedOf(12).NewSlice(0, 2)) // without nulls
	if err != nil {
		t.Fatal(err)
	}
	p, release, err := b.Native("score", "id", "small")
	if err != nil {
		t.Fatal(err)
	}
	if len(p) != 3 || p[0].Kind != clique.KindOf[float64]() || p[1].Kind != clique.KindOf[int64]() ||
		p[2].Kind != clique.KindOf[uint8]() || p[1].Len() != 2 || p[2].Len() != 2 ||
		p[1].Data.Addr() != b.Column(0).Values.Addr() {
		t.Errorf("got %+v", p)
	}
	release()
	for name, want := range map[string]string{"name": "take numbers", "at": "take numbers", "none": "none"} {
		if _, _, err := b.Native("id", name); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	nulls, err := copyBatchToDevice(ctx, mixedOf(12))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := nulls.Native("score"); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "nulls") {
		t.Errorf("nulls: %v", err)
	}
	nulls.release()
	b.release()
	if n := dev.out.Load(); n != 0 {
		t.Errorf("got %d buffers not freed, want 0", n)
	}
}

// Values that are not batches, or whose lengths are wrong, are rejected with a reason.
func TestDeviceBatchHostile(t *testing.T) {
	ctx, _ := onFake(t)
	make := func() wire.Dict {
		b, err := copyBatchToDevice(ctx, mixedOf(9))
		if err != nil {
			t.Fatal(err)
		}
		d, err := b.value()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, x := range map[string]struct {
		change func(d *wire.Dict)
		want   string
	}{
		"nothing":      {func(d *wire.Dict) { *d = nil }, "is not a device batch"},
		"version":      {func(d *wire.Dict) { d.Set(deviceKey, int64(2)) }, "version 2"},
		"rows":         {func(d *wire.Dict) { d.Set(rowsKey, int64(1000)) }, "bytes, want at least"},
		"negative":     {func(d *wire.Dict) { d.Set(rowsKey, int64(-1)) }, "-1"},
		"many":         {func(d *wire.Dict) { d.Set(rowsKey, uint64(math.MaxUint64)) }, "rows"},
		"no schema":    {func(d *wire.Dict) { d.Delete(schemaKey) }, "no schema"},
		"other schema": {func(d *wire.Dict) { d.Set(schemaKey, []byte("x")) }, "schema"},
		"no values":    {func(d *wire.Dict) { d.Delete(valuesKey + "2") }, "no values"},
		"no offsets":   {func(d *wire.Dict) { d.Delete(offsetsKey + "1") }, "no offsets"},
		"no array":     {func(d *wire.Dict) { d.Set(valuesKey+"0", "text") }, "not a device array"},
		"another type": {func(d *wire.Dict) { v, _ := d.Get(valuesKey + "2"); d.Set(valuesKey+"0", v) },
			"type <f8, want <i8"},
		"extra offsets": {func(d *wire.Dict) { v, _ := d.Get(offsetsKey + "1"); d.Set(offsetsKey+"0", v) },
			"unexpected offsets"},
		"short validity": {func(d *wire.Dict) { v, _ := d.Get(validKey + "1"); shorten(v) }, "validity"},
		"two dimensions": {func(d *wire.Dict) {
			v, _ := d.Get(valuesKey + "0")
			v.(*wire.DeviceArray).Shape = []int{3,
				3}
		}, "2 dimensions"},
	} {
		d := make()
		x.change(&d)
		if _, err := deviceBatch(d); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
	// Offsets are checked when they are read.
	d := make()
	v, _ := d.Get(offsetsKey + "1")
	copy(v.(*wire.DeviceArray).Frame.Bytes()[8:], []byte{255, 255, 255, 127})
	b, err := deviceBatch(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CopyToHost(ctx); !errors.Is(err, ErrSchema) {
		t.Errorf("wild offsets: %v", err)
	}
	list := arrow.NewSchema([]arrow.Field{{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil)
	if _, err := copyBatchToDevice(ctx, emptyBatch(list)); !errors.Is(err, ErrSchema) {
		t.Errorf("a column of lists: %v", err)
	}
}

func shorten(v any) {
	a := v.(*wire.DeviceArray)
	a.Shape[0]--
}

// Operations in a cluster without GPUs return ErrNoGPU.
func TestNoGPU(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	if _, err := f.ToDevice(ctx); !errors.Is(err, ErrNoGPU) {
		t.Errorf("ToDevice: %v", err)
	}
	for _, at := range []Location{Host, Device} {
		if _, err := Open(ctx, c, "nothing", at); err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("Open at %v: %v", at, err)
		}
		if _, err := FromDask(ctx, c, "nothing", at); err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("FromDask at %v: %v", at, err)
		}
	}
	if _, err := newDeviceFrameOf(ctx, c, nil); err == nil {
		t.Error("frame without partitions: got no error")
	}
}

// Batches on devices are received from peers.
func FuzzDeviceBatch(f *testing.F) {
	schema, err := encodeSchema(mixedSchema)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(schema, int64(3), "<i8", []byte("123456781234567812345678"),
		[]byte{0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0}, []byte{7})
	f.Fuzz(func(t *testing.T, schema []byte, rows int64, dtype string, values, offsets, validity []byte) {
		d := wire.NewDict(deviceKey, int64(version), rowsKey, rows, schemaKey, schema)
		of := func(dtype wire.DType, b []byte) *wire.DeviceArray {
			return &wire.DeviceArray{DType: dtype, Shape: []int{len(b) / max(1, dtype.ItemSize())},
				Frame: wire.HeapFrame(b)}
		}
		for _, n := range []string{"0", "1", "2", "3", "4", "5", "6"} {
			d.Set(valuesKey+n, of(wire.DType(dtype), values))
			if len(validity) > 0 {
				d.Set(validKey+n, of(wire.Uint8, validity))
			}
			if len(offsets) > 0 {
				d.Set(offsetsKey+n, of(wire.Int32, offsets))
			}
		}
		b, err := deviceBatch(d)
		if err != nil {
			return
		}
		out, err := b.CopyToHost(context.Background())
		if err != nil {
			return
		}
		if out.NumRows() != rows {
			t.Errorf("%d rows, want %d", out.NumRows(), rows)
		}
		for _, c := range out.Columns() {
			_ = c.String() // reads all values
		}
	})
}
