package gpu

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

// Tables as results of tasks: workers with GPUs partition tables, exchange the partitions by cuda_ipc, and join them.

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(m.Run())
}

// worker is the engine of a worker's process.
var worker struct {
	sync.Mutex
	e *Engine
}

// onWorker runs a function with the engine of the worker of a task.
func onWorker[T any](ctx context.Context, f func(e *Engine) (T, error)) (out T, err error) {
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return out, err
	}
	worker.Lock()
	defer worker.Unlock()
	if worker.e == nil {
		s, err := cuda.NewStream(d.Ordinal, cuda.StreamConfig{})
		if err != nil {
			return out, err
		}
		if worker.e, err = New(Config{Device: d.Ordinal, Memory: d.Memory, Pinned: d.Pinned, Stream: s}); err != nil {
			return out, err
		}
	}
	return f(worker.e)
}

// value returns a table of 64-bit integers as the result of a task, which owns its memory.
func value(t *Table) (wire.Dict, error) {
	d := wire.NewDict("rows", int64(t.Rows))
	for i, c := range t.Columns {
		a, err := wire.NewDeviceArray[int64](c.Data)
		if err != nil {
			return nil, err
		}
		d.Set(fmt.Sprint("c", i), a)
	}
	return d, nil
}

// tableOf returns a value of two columns as a table, which borrows its memory.
func tableOf(d wire.Dict) (*Table, error) {
	rows, _ := d.Get("rows")
	n, ok := rows.(int64)
	if !ok {
		return nil, fmt.Errorf("rows are %T", rows)
	}
	t := &Table{Schema: keyed, Rows: int(n)}
	for i := range keyed.NumFields() {
		x, _ := d.Get(fmt.Sprint("c", i))
		a, ok := x.(*wire.DeviceArray)
		if !ok || a.Buffer() == nil {
			return nil, fmt.Errorf("column %d is %T, not on the device", i, x)
		}
		t.Columns = append(t.Columns, Column{Type: arrow.PrimitiveTypes.Int64, Data: a.Buffer()})
	}
	return t, nil
}

func tablesOf(list []wire.Dict) (out []*Table, err error) {
	for _, d := range list {
		t, err := tableOf(d)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// outcome describes the rows of a result.
type outcome struct {
	Rows int64
	Sum  uint64
}

var (
	makeTable = client.Func3("gpu.make", func(ctx context.Context, first, rows int64, columns []Random) (wire.Dict,
		error) {
		return onWorker(ctx, func(e *Engine) (wire.Dict, error) {
			t, err := e.Random(ctx, keyed, int(first), int(rows), columns)
			if err != nil {
				return nil, err
			}
			return value(t)
		})
	})
	splitTable = client.Func2("gpu.split", func(ctx context.Context, d wire.Dict, n int) ([]wire.Dict, error) {
		return onWorker(ctx, func(e *Engine) ([]wire.Dict, error) {
			t, err := tableOf(d)
			if err != nil {
				return nil, err
			}
			parts, err := e.Partition(ctx, t, []int{0}, n)
			if err != nil {
				return nil, err
			}
			var out []wire.Dict
			for _, p := range parts {
				v, err := value(p)
				if err != nil {
					return nil, err
				}
				out = append(out, v)
			}
			return out, e.Wait(ctx)
		})
	})
	pickTable = client.Func2("gpu.pick", func(_ context.Context, list []wire.Dict, i int) (wire.Dict, error) {
		out := wire.NewDict()
		for _, key := range []string{"rows", "c0", "c1"} {
			x, _ := list[i].Get(key)
			if a, ok := x.(*wire.DeviceArray); ok {
				x = a.Retain()
			}
			out.Set(key, x)
		}
		return out, nil
	})
	// countTables returns the number of rows when all of them have arrived on the device.
	countTables = client.Func("gpu.count", func(ctx context.Context, list []wire.Dict) (int64, error) {
		tables, err := tablesOf(list)
		rows := int64(0)
		for _, t := range tables {
			rows += int64(t.Rows)
			for _, c := range t.Columns {
				if err := c.Data.WaitReady(ctx); err != nil {
					return 0, err
				}
			}
		}
		return rows, err
	})
	sumTables = client.Func("gpu.sum", func(ctx context.Context, list []wire.Dict) (outcome, error) {
		return onWorker(ctx, func(e *Engine) (o outcome, err error) {
			tables, err := tablesOf(list)
			for _, t := range tables {
				n, err := e.Sum(ctx, t)
				if err != nil {
					return o, err
				}
				o.Rows, o.Sum = o.Rows+int64(t.Rows), o.Sum+n
			}
			return o, err
		})
	})
	joinTables = client.Func2("gpu.join", func(ctx context.Context, left, right []wire.Dict) (outcome, error) {
		return onWorker(ctx, func(e *Engine) (o outcome, err error) {
			var sides [2]*Table
			for i, list := range [][]wire.Dict{left, right} {
				pieces, err := tablesOf(list)
				if err != nil {
					return o, err
				}
				if sides[i], err = e.concat(ctx, keyed, pieces); err != nil {
					return o, err
				}
				defer sides[i].Release()
			}
			out, err := e.Join(ctx, sides[0], sides[1], JoinOptions{Kind: join.Inner, LeftKeys: []int{0},
				RightKeys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
			if err != nil {
				return o, err
			}
			defer out.Release()
			o.Rows = int64(out.Rows)
			o.Sum, err = e.Sum(ctx, out)
			return o, err
		})
	})
)

// WorkersOn is workersOn, for tests of other packages.
var WorkersOn = workersOn

// workersOn starts workers on the GPU, each with a pool.
func workersOn(t testing.TB, n int, pool string) (context.Context, *client.Client, []string) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip(err)
	}
	if lib, err := ucx.Library(); err != nil || !lib.CUDA {
		t.Skipf("UCX without CUDA: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cl, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: slices.Repeat([]string{"0"}, n),
		RMM: cluster.RMMConfig{PoolSize: pool}}, cluster.Config{})
	must(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	c, err := client.Connect(ctx, cl.Address(), client.Config{Dial: cl.Dial()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	var names []string
	for _, w := range cl.Workers() {
		names = append(names, w.Address)
	}
	return ctx, c, names
}

// made returns a table of random rows on each worker.
func made(t testing.TB, ctx context.Context, c *client.Client, names []string, rows int,
	columns []Random) []*client.Future[wire.Dict] {
	t.Helper()
	out := make([]*client.Future[wire.Dict], len(names))
	for i, w := range names {
		out[i] = makeTable.Submit(ctx, c, client.Val(int64(i*rows)), client.Val(int64(rows)), client.Val(columns),
			client.WithWorkers(w), client.WithImpure())
	}
	for _, f := range out {
		must(t, f.Wait(ctx))
	}
	return out
}

// exchanged partitions tables and returns the partitions of each worker, which are still where they were made.
func exchanged(ctx context.Context, c *client.Client, names []string,
	tables []*client.Future[wire.Dict]) (parts [][]*client.Future[wire.Dict], release func()) {
	parts = make([][]*client.Future[wire.Dict], len(names))
	var lists []*client.Future[[]wire.Dict]
	for i, x := range tables {
		list := splitTable.Submit(ctx, c, x, client.Val(len(names)), client.WithWorkers(names[i]), client.WithImpure())
		lists = append(lists, list)
		for p := range names {
			parts[p] = append(parts[p], pickTable.Submit(ctx, c, list, client.Val(p), client.WithWorkers(names[i]),
				client.WithImpure()))
		}
	}
	return parts, func() {
		client.ReleaseAll(lists)
		for _, p := range parts {
			client.ReleaseAll(p)
		}
	}
}

// Workers exchange the partitions of their tables: all rows arrive, on the worker of their partition.
func TestGPUExchange(t *testing.T) {
	ctx, c, names := workersOn(t, 2, "1GiB")
	const rows = 1_000_000
	columns := []Random{{Seed: 1}, {Counted: true}}
	tables := made(t, ctx, c, names, rows, columns)
	defer client.ReleaseAll(tables)
	parts, release := exchanged(ctx, c, names, tables)
	defer release()
	var got outcome
	for p, list := range parts {
		o, err := sumTables.Submit(ctx, c, client.List(client.Args(list)...), client.WithWorkers(names[p])).Result(ctx)
		must(t, err)
		if o.Rows < rows*9/10 || o.Rows > rows*11/10 {
			t.Errorf("worker %d has %d rows of %d", p, o.Rows, 2*rows)
		}
		got.Rows, got.Sum = got.Rows+o.Rows, got.Sum+o.Sum
	}
	want := outcome{2 * rows, hostSum(hostRandom(columns, 0, 2*rows))}
	if got != want {
		t.Errorf("exchanged %+v, want %+v", got, want)
	}
}

// Workers join tables that they exchange: the result is that of the host.
func TestGPUMerge(t *testing.T) {
	ctx, c, names := workersOn(t, 2, "2GiB")
	const rows = 300_000
	got := merged(t, ctx, c, names, rows)
	if want := hostMerge(t, 2*rows, 1); got != want {
		t.Errorf("merged %+v, want %+v", got, want)
	}
}

// mergeSides are the columns of the two sides of a merge: three of ten rows of the left side match.
func mergeSides(rows int) (left, right []Random) {
	return []Random{{Seed: 2, Range: uint64(rows) * 10 / 3, Spread: true}, {Counted: true}},
		[]Random{{Counted: true, Spread: true}, {Seed: 3}}
}

// merged joins tables of rows rows on each worker.
func merged(t testing.TB, ctx context.Context, c *client.Client, names []string, rows int) outcome {
	t.Helper()
	l, r := mergeSides(rows * len(names))
	left, right := made(t, ctx, c, names, rows, l), made(t, ctx, c, names, rows, r)
	defer client.ReleaseAll(left)
	defer client.ReleaseAll(right)
	begin := time.Now()
	lp, lr := exchanged(ctx, c, names, left)
	defer lr()
	rp, rr := exchanged(ctx, c, names, right)
	defer rr()
	var results []*client.Future[outcome]
	for p, w := range names {
		results = append(results, joinTables.Submit(ctx, c, client.List(client.Args(lp[p])...),
			client.List(client.Args(rp[p])...), client.WithWorkers(w), client.WithImpure()))
	}
	defer client.ReleaseAll(results)
	var all outcome
	for _, f := range results {
		o, err := f.Result(ctx)
		must(t, err)
		all.Rows, all.Sum = all.Rows+o.Rows, all.Sum+o.Sum
	}
	t.Logf("merge of 2 × %d rows on %d workers: %.1f ms, %d rows", rows*len(names), len(names),
		time.Since(begin).Seconds()*1e3, all.Rows)
	return all
}
