package frame

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// connectFakes starts a cluster of workers with fake GPUs, and one worker without a GPU.
func connectFakes(t testing.TB, gpus int) (context.Context, *client.Client, *fakeDevice) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 1, Threads: 2, Mode: cluster.Goroutines,
		DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lc.Close() })
	dev := new(fakeDevice)
	for i := range gpus {
		w, err := worker.Start(ctx, worker.Config{Scheduler: lc.Address(), Name: fmt.Sprint("gpu", i), Threads: 2,
			GPU: &task.Device{Ordinal: i, UUID: fmt.Sprint("GPU-fake-", i), Memory: dev}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
	}
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.WaitForWorkers(ctx, gpus+1); err != nil {
		t.Fatal(err)
	}
	return ctx, c, dev
}

var idSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)

// Functions on devices.
var (
	testDeviceIDs = NewMap("test.device.ids", func(ctx context.Context, b *DeviceBatch) (*DeviceBatch, error) {
		id, err := b.Named("id")
		if err != nil {
			return nil, err
		}
		return NewDeviceBatch(idSchema, b.NumRows(), []DeviceColumn{id})
	})
	// testDevicePlus allocates a column.
	testDevicePlus = NewMapWith("test.device.plus", func(ctx context.Context, b *DeviceBatch, by int64) (*DeviceBatch,
		error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		ids, err := deviceIDs(ctx, b)
		if err != nil {
			return nil, err
		}
		for i := range ids {
			ids[i] += by
		}
		buf, err := d.Memory.Alloc(ctx, 8*len(ids))
		if err != nil {
			return nil, err
		}
		copy(buf.Bytes(), arrow.Int64Traits.CastToBytes(ids))
		return NewDeviceBatch(idSchema, b.NumRows(), []DeviceColumn{{Values: buf}})
	})
	testDeviceSum = NewPart("test.device.sum", func(ctx context.Context, b *DeviceBatch) (int64, error) {
		ids, err := deviceIDs(ctx, b)
		var n int64
		for _, v := range ids {
			n += v
		}
		return n, err
	})
	testDeviceShare = NewNative("test.device.share", func(ctx context.Context, r *clique.Rank,
		parts Parts[*DeviceBatch],
		keep bool) ([]*DeviceBatch, int64, error) {
		if parts.Device == nil || len(parts.Index) != len(parts.Batches) {
			return nil, 0, errors.New("no device, or other numbers than batches")
		}
		sum := []int64{0}
		var out []*DeviceBatch
		for _, b := range parts.Batches {
			ids, err := deviceIDs(ctx, b)
			if err != nil {
				return nil, 0, err
			}
			for _, v := range ids {
				sum[0] += v
			}
			id, err := b.Project("id")
			if err != nil {
				return nil, 0, err
			}
			out = append(out, id)
		}
		err := r.Do(ctx, clique.AllReduce(clique.Of(sum), clique.Of(sum), clique.Sum))
		if !keep {
			out = nil
		}
		return out, sum[0], err
	})
)

// deviceIDs copies the column "id" to the host.
func deviceIDs(ctx context.Context, b *DeviceBatch) ([]int64, error) {
	c, err := b.Named("id")
	if err != nil {
		return nil, err
	}
	ids := make([]int64, b.NumRows())
	return ids, copyToHost(ctx, arrow.Int64Traits.CastToBytes(ids), c.Values)
}

func idsOf(from, to, by int64) arrow.RecordBatch {
	col := array.NewInt64Builder(heap)
	defer col.Release()
	for i := from; i < to; i++ {
		col.Append(i + by)
	}
	a := col.NewArray()
	defer a.Release()
	return array.NewRecordBatch(idSchema, []arrow.Array{a}, to-from)
}

// Every operation on a frame on devices has the result that it has on the host, or returns ErrLocation; and all buffers
// are freed. One to three partitions, on one and two workers with a GPU.
func TestLocations(t *testing.T) {
	for _, gpus := range []int{1, 2} {
		for _, cuts := range [][]int{{0, 12}, {0, 5, 5, 12}, {0, 1, 2, 3, 4, 12}} {
			t.Run(fmt.Sprintf("%d GPUs, %d partitions", gpus, len(cuts)-1), func(t *testing.T) {
				ctx, c, dev := connectFakes(t, gpus)
				whole := mixedOf(12)
				var parts []arrow.RecordBatch
				var rows []int64
				for i := range len(cuts) - 1 {
					parts = append(parts, whole.NewSlice(int64(cuts[i]), int64(cuts[i+1])))
					rows = append(rows, int64(cuts[i+1]-cuts[i]))
				}
				host := must[*Frame](t)(FromBatches(ctx, c, parts))
				f := must[*Frame](t)(host.ToDevice(ctx))
				if f.Location() != Device || host.Location() != Host || f.NumPartitions() != len(parts) ||
					f.Partitions() != nil {
					t.Errorf("got %v and %v", host, f)
				}
				if err := f.Persist(ctx); err != nil {
					t.Fatal(err)
				}
				if got := must[[]int64](t)(f.Rows(ctx)); fmt.Sprint(got) != fmt.Sprint(rows) {
					t.Errorf("rows %v, want %v", got, rows)
				}
				same(t, ctx, "Collect", f, whole)
				same(t, ctx, "ToHost", must[*Frame](t)(f.ToHost(ctx)), whole)
				there := must[*Frame](t)(f.ToDevice(ctx))
				same(t, ctx, "ToDevice of one that is there", there, whole)
				here := must[*Frame](t)(host.ToHost(ctx))
				same(t, ctx, "ToHost of one that is there", here, whole)
				two := must[*Frame](t)(f.Project(ctx, "score", "id"))
				same(t, ctx, "Project", two, must[arrow.RecordBatch](t)(Project(whole, "score", "id")))
				for _, e := range []Expr{Col("id").Gt(3), Col("id").Ge(0), Col("id").Lt(0), Col("score").IsNull(),
					Col("name").Ne("").And(Col("ok").Eq(true))} {
					some := must[*Frame](t)(f.Filter(ctx, e))
					same(t, ctx, "Filter "+e.String(), some, must[arrow.RecordBatch](t)(Select(whole, e)))
					if some.Location() != Device || some.NumPartitions() != len(parts) {
						t.Errorf("Filter: got %v", some)
					}
					some.Release()
				}
				for _, n := range []int{1, 2, 5, 13} {
					again := must[*Frame](t)(f.Repartition(ctx, n))
					same(t, ctx, fmt.Sprint("Repartition into ", n), again, whole)
					for i, r := range must[[]int64](t)(again.Rows(ctx)) {
						if want := int64(12*(i+1)/n - 12*i/n); r != want || again.Location() != Device {
							t.Errorf("%v, partition %d: got %d rows, want %d", again, i, r, want)
						}
					}
					again.Release()
				}
				ids := must[*Frame](t)(f.Map(ctx, testDeviceIDs, nil))
				same(t, ctx, "Map", ids, idsOf(0, 12, 0))
				more := must[*Frame](t)(ids.Map(ctx, testDevicePlus(client.Val(int64(100))), idSchema))
				same(t, ctx, "MapWith", more, idsOf(0, 12, 100))
				both := must[*Frame](t)(Concat(ids, ids))
				if n := must[int64](t)(both.NumRows(ctx)); n != 24 || both.Location() != Device {
					t.Errorf("%v: got %d rows", both, n)
				}
				if sum := must[int64](t)(Reduce(ctx, more, testDeviceSum, testAdd).Get(ctx)); sum != 11*12/2+1200 {
					t.Errorf("sum %d", sum)
				}
				out, sums, err := testDeviceShare.Run(ctx, f, true, NativeOptions{Schema: idSchema})
				if err != nil {
					t.Fatal(err)
				}
				same(t, ctx, "native", out, idsOf(0, 12, 0))
				if out.Location() != Device || len(sums) == 0 || len(sums) > gpus || sums[0] != 66 {
					t.Errorf("%v, sums %v", out, sums)
				}
				if _, sums, err = testDeviceShare.Run(ctx, f, false, NativeOptions{}); err != nil || sums[0] != 66 {
					t.Errorf("without a result: %v, %v", sums, err)
				}
				if err := two.Publish(ctx, "two", false); err != nil {
					t.Fatal(err)
				}
				again := must[*Frame](t)(Open(ctx, c, "two", Device))
				same(t, ctx, "Open", again, must[arrow.RecordBatch](t)(Project(whole, "score", "id")))
				if err := c.Unpublish(ctx, "two"); err != nil {
					t.Fatal(err)
				}
				for _, x := range []*Frame{f, there, here, two, ids, more, both, out, again, host} {
					x.Release()
					x.Release()
					if err := x.Persist(ctx); !errors.Is(err, ErrClosed) {
						t.Errorf("released: %v", err)
					}
				}
				waitFor(t, ctx, func() string {
					if n := dev.out.Load(); n != 0 {
						return fmt.Sprintf("got %d buffers on the devices, want 0", n)
					}
					return ""
				})
			})
		}
	}
}

// waitFor waits until wrong returns "".
func waitFor(t *testing.T, ctx context.Context, wrong func() string) {
	t.Helper()
	for text := wrong(); text != ""; text = wrong() {
		select {
		case <-ctx.Done():
			t.Fatal(text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Operations that do not support the location of a frame return ErrLocation and copy nothing.
func TestWrongLocation(t *testing.T) {
	ctx, c, dev := connectFakes(t, 1)
	host := peopleFrame(t, ctx, c)
	f := must[*Frame](t)(host.ToDevice(ctx))
	if err := f.Persist(ctx); err != nil {
		t.Fatal(err)
	}
	before := dev.made.Load()
	ignore := func(_ any, err error) error { return err }
	_, _, hostNative := testDeviceShare.Run(ctx, host, true, NativeOptions{})
	_, _, deviceNative := testShare.Run(ctx, f, 1, NativeOptions{})
	dir := t.TempDir()
	for what, err := range map[string]error{
		"WriteIPC":           ignore(f.WriteIPC(ctx, dir, WriteOptions{})),
		"WriteCSV":           ignore(f.WriteCSV(ctx, dir, WriteOptions{})),
		"Map on devices":     ignore(f.Map(ctx, testHead, nil)),
		"Map on the host":    ignore(host.Map(ctx, testDeviceIDs, nil)),
		"Reduce on devices":  ignore(Reduce(ctx, f, testSum, testAdd).Get(ctx)),
		"Reduce on the host": ignore(Reduce(ctx, host, testDeviceSum, testAdd).Get(ctx)),
		"Concat":             ignore(Concat(host, f)),
		"native on the host": hostNative,
		"native on devices":  deviceNative,
	} {
		if !errors.Is(err, ErrLocation) {
			t.Errorf("%s: %v, want ErrLocation", what, err)
		}
	}
	if n := dev.made.Load(); n != before {
		t.Errorf("got %d new buffers, want 0", n-before)
	}
}

// Registering a function of another type of partitions panics.
func TestUnknownPartitions(t *testing.T) {
	for name, register := range map[string]func(){
		"NewMap": func() { NewMap("test.bad.map", func(context.Context, int) (int, error) { return 0, nil }) },
		"NewMapWith": func() {
			NewMapWith("test.bad.with", func(context.Context, int, int) (int, error) {
				return 0,
					nil
			})
		},
		"NewPart": func() {
			NewPart("test.bad.part", func(context.Context, *mem.Buffer) (int, error) {
				return 0,
					nil
			})
		},
		"NewNative": func() {
			NewNative("test.bad.native", func(context.Context, *clique.Rank, Parts[string], int) ([]string, int,
				error) {
				return nil, 0, nil
			})
		},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); p == "<nil>" {
					t.Errorf("%s: got no panic", name)
				}
			}()
			register()
		}()
	}
}

// Functions on devices run only on workers with a GPU, independent of their other options.
func TestDeviceFunctionsStay(t *testing.T) {
	ctx, c, _ := connectFakes(t, 1)
	f := must[*Frame](t)(peopleFrame(t, ctx, c).ToDevice(ctx))
	var seen []int
	fn := &PartFunc[int64]{name: "test.stay", device: func(ctx context.Context, f *Frame, p *client.Future[wire.Dict],
		opts []client.Option) *client.Future[int64] {
		seen = append(seen, len(opts))
		return deviceRows.Submit(ctx, f.c, p, opts...)
	}}
	rows, err := fn.submit(ctx, f, []client.Option{client.WithPriority(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.ReleaseAll(rows)
	if _, err := client.Gather(ctx, rows); err != nil {
		t.Fatal(err)
	}
	for _, n := range seen {
		if n != 2 {
			t.Errorf("function on devices: got %d options, want its own and the workers with a GPU", n)
		}
	}
	if len(seen) != f.NumPartitions() {
		t.Errorf("%d calls for %d partitions", len(seen), f.NumPartitions())
	}
}

// A batch in host memory is on the device while a function borrows it, and not afterwards, also after an error.
func TestWithBatch(t *testing.T) {
	ctx, dev := onFake(t)
	b, err := copyBatchToDevice(ctx, mixedOf(10))
	if err != nil {
		t.Fatal(err)
	}
	there, err := b.value()
	if err != nil {
		t.Fatal(err)
	}
	arrived := wire.Dict{}
	for _, p := range there {
		if a, ok := p.Value.(*wire.DeviceArray); ok {
			c := *a
			c.Frame = wire.HeapFrame(bytes.Clone(a.Frame.Bytes()))
			p.Value = &c
		}
		arrived = append(arrived, p)
	}
	before := dev.out.Load()
	for _, want := range []error{nil, errors.New("no")} {
		err := withBatch(ctx, arrived, func(b *DeviceBatch) error {
			if n := dev.out.Load(); n == before || b.NumRows() != 10 {
				t.Errorf("%d buffers and %d rows on the device", n-before, b.NumRows())
			}
			return want
		})
		if err != want || dev.out.Load() != before {
			t.Errorf("%v, want %v; %d buffers are left", err, want, dev.out.Load()-before)
		}
	}
	task.Release(there)
}
