package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// DeviceFrame is a frame whose partitions are in memory of GPUs: an ordered set of futures of
// batches with one schema on the workers of a cluster that have a GPU. Like a Frame it never
// changes, owns its futures, and may be used by any number of goroutines.
type DeviceFrame struct {
	c        *client.Client
	schema   *arrow.Schema
	parts    []*client.Future[wire.Dict]
	workers  []string // those that have a GPU
	released atomic.Bool
}

// ErrNoGPU is returned by operations that need workers with GPUs, in a cluster without any.
var ErrNoGPU = errors.New("frame: no worker has a GPU: start some with millstream cuda-worker or cluster.LocalCUDA")

// Functions about device frames that workers run.
var (
	// deviceOf is the name of the worker's GPU, "" without one.
	deviceOf = client.Func("millstream.frame.device", func(ctx context.Context, _ string) (string, error) {
		d, err := task.CurrentDevice(ctx)
		if errors.Is(err, task.ErrNoDevice) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d %s", d.Ordinal, d.UUID), nil
	})
	toDevice = client.Func2("millstream.frame.to_device", func(ctx context.Context, b arrow.RecordBatch, partition int) (wire.Dict, error) {
		out, err := CopyToDevice(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
		}
		return out.value()
	})
	toHost = client.Func2("millstream.frame.to_host", func(ctx context.Context, d wire.Dict, partition int) (arrow.RecordBatch, error) {
		b, err := deviceBatch(d)
		if err != nil {
			return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
		}
		return b.CopyToHost(ctx)
	})
	deviceSchema = client.Func("millstream.frame.device_schema", func(_ context.Context, d wire.Dict) ([]byte, error) {
		b, err := deviceBatch(d)
		if err != nil {
			return nil, err
		}
		return encodeSchema(b.schema)
	})
	// deviceChecked is its first argument if that has the schema, on the device.
	deviceChecked = client.Func3("millstream.frame.device_checked", func(ctx context.Context, d wire.Dict, schema []byte, partition int) (wire.Dict, error) {
		want, err := decodeSchema(schema)
		if err != nil {
			return nil, err
		}
		return deviceCall(ctx, d, func(_ context.Context, b *DeviceBatch) (*DeviceBatch, error) {
			if diff := differ(want, b.schema); diff != "" {
				return nil, schemaErrorf(partition, "%s", diff)
			}
			return b, nil
		})
	})
	deviceRows      = client.Func("millstream.frame.device_rows", func(_ context.Context, d wire.Dict) (int64, error) { return integer(d, rowsKey) })
	deviceProjected = client.Func2("millstream.frame.device_project", func(ctx context.Context, d wire.Dict, names []string) (wire.Dict, error) {
		return deviceCall(ctx, d, func(_ context.Context, b *DeviceBatch) (*DeviceBatch, error) { return b.Project(names...) })
	})
)

// deviceCall runs a function on a batch. What came through host memory is on the device before,
// and given up after unless the result has it.
func deviceCall(ctx context.Context, d wire.Dict, f func(context.Context, *DeviceBatch) (*DeviceBatch, error)) (wire.Dict, error) {
	dev, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, err
	}
	b, err := deviceBatch(d)
	if err != nil {
		return nil, err
	}
	made, err := b.onDevice(ctx, dev)
	var out *DeviceBatch
	if err == nil {
		if out, err = f(ctx, b); err == nil && out == nil {
			err = schemaErrorf(-1, "the partition is nothing (nil): the function must return a batch, an empty one if need be")
		}
	}
	if err != nil {
		out = &DeviceBatch{}
	}
	kept := map[*wire.DeviceArray]bool{}
	for i := range out.columns {
		for _, a := range out.columns[i].arrays() {
			kept[*a] = true
		}
	}
	for _, a := range made {
		if !kept[a] {
			a.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	return out.value()
}

// gpuWorkers are the workers that have a GPU.
func gpuWorkers(ctx context.Context, c *client.Client) ([]string, error) {
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	var futures []*client.Future[string]
	for address, w := range workers {
		if w.Resources["go"] > 0 {
			names = append(names, address)
			futures = append(futures, deviceOf.Submit(ctx, c, client.Val(address), client.WithWorkers(address), client.WithImpure()))
		}
	}
	defer client.ReleaseAll(futures)
	found, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, fmt.Errorf("frame: looking for GPUs: %w", err)
	}
	var out []string
	for i, d := range found {
		if d != "" {
			out = append(out, names[i])
		}
	}
	if len(out) == 0 {
		return nil, ErrNoGPU
	}
	slices.Sort(out)
	return out, nil
}

// ToDevice copies the frame to the GPUs of the workers that have one: its partitions stay on
// their workers where those do. Numbers, booleans, times, strings and bytes can be there.
func (f *Frame) ToDevice(ctx context.Context) (*DeviceFrame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	for _, x := range f.schema.Fields() {
		if _, ok := layoutOf(x.Type); !ok {
			return nil, unfit(x)
		}
	}
	workers, err := gpuWorkers(ctx, f.c)
	if err != nil {
		return nil, err
	}
	out := &DeviceFrame{c: f.c, schema: f.schema, workers: workers}
	for i, p := range f.parts {
		out.parts = append(out.parts, toDevice.Submit(ctx, f.c, p, client.Val(i), client.WithWorkers(workers...)))
	}
	return out, nil
}

// ToHost copies the frame to the memory of its workers.
func (f *DeviceFrame) ToHost(ctx context.Context) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	parts := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		parts[i] = toHost.Submit(ctx, f.c, p, client.Val(i), client.WithWorkers(f.workers...))
	}
	return trusted(f.c, f.schema, parts), nil
}

// DeviceOf is a frame of futures of batches on devices, which it takes over: results of Python
// tasks, by millstream.frame.to_device, or of others' functions. The schema is that of the
// first, for which it waits. Partitions that are elsewhere move to workers with a GPU.
func DeviceOf(ctx context.Context, c *client.Client, parts []*client.Future[wire.Dict]) (*DeviceFrame, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: DeviceOf: without partitions there is no schema")
	}
	workers, err := gpuWorkers(ctx, c)
	if err != nil {
		return nil, err
	}
	b, err := deviceSchema.Submit(ctx, c, parts[0], client.WithWorkers(workers...)).Result(ctx)
	if err != nil {
		return nil, typed(err)
	}
	schema, err := decodeSchema(b)
	if err != nil {
		return nil, err
	}
	return deviceVerified(ctx, c, schema, parts, workers)
}

// deviceVerified puts a task that checks the schema behind each partition.
func deviceVerified(ctx context.Context, c *client.Client, schema *arrow.Schema, parts []*client.Future[wire.Dict], workers []string) (*DeviceFrame, error) {
	encoded, err := encodeSchema(schema)
	if err != nil {
		return nil, err
	}
	out := &DeviceFrame{c: c, schema: schema, workers: workers}
	for i, p := range parts {
		out.parts = append(out.parts, deviceChecked.Submit(ctx, c, p, client.Val(encoded), client.Val(i), client.WithWorkers(workers...)))
	}
	client.ReleaseAll(parts)
	return out, nil
}

// Client is the one that the frame was made with.
func (f *DeviceFrame) Client() *client.Client { return f.c }

// Schema is that of every partition.
func (f *DeviceFrame) Schema() *arrow.Schema { return f.schema }

// NumPartitions is the number of partitions.
func (f *DeviceFrame) NumPartitions() int { return len(f.parts) }

// Release gives the partitions up: workers forget what nobody else holds. It is idempotent.
func (f *DeviceFrame) Release() {
	if !f.released.Swap(true) {
		client.ReleaseAll(f.parts)
	}
}

func (f *DeviceFrame) usable() error {
	if f.released.Load() {
		return ErrClosed
	}
	return nil
}

// Persist waits until every partition is in the memory of a worker's GPU.
func (f *DeviceFrame) Persist(ctx context.Context) error {
	if err := f.usable(); err != nil {
		return err
	}
	return persist(ctx, f.parts)
}

// Rows are the numbers of rows of the partitions.
func (f *DeviceFrame) Rows(ctx context.Context) ([]int64, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	futures := make([]*client.Future[int64], len(f.parts))
	for i, p := range f.parts {
		futures[i] = deviceRows.Submit(ctx, f.c, p, client.WithWorkers(f.workers...))
	}
	defer client.ReleaseAll(futures)
	rows, err := client.Gather(ctx, futures)
	return rows, typed(err)
}

// Project keeps the columns of these names, in this order. Nothing is copied.
func (f *DeviceFrame) Project(ctx context.Context, names ...string) (*DeviceFrame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	schema, _, err := projectSchema(f.schema, names)
	if err != nil {
		return nil, err
	}
	out := &DeviceFrame{c: f.c, schema: schema, workers: f.workers}
	for _, p := range f.parts {
		out.parts = append(out.parts, deviceProjected.Submit(ctx, f.c, p, client.Val(names), client.WithWorkers(f.workers...)))
	}
	return out, nil
}
