package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Location is where the partitions of a frame are.
type Location int

// The locations.
const (
	// Host is the memory of the workers.
	Host Location = iota
	// Device is the memory of the workers' GPUs.
	Device
)

func (l Location) name() string {
	if l == Device {
		return "device"
	}
	return "host"
}

// ErrNoGPU is returned by operations that need workers with GPUs, in a cluster without any.
var ErrNoGPU = errors.New("frame: no worker has a GPU: start some with millstream cuda-worker or cluster.LocalCUDA")

// ErrLocation is returned by operations that do not work where the frame is. ToHost and ToDevice copy a frame.
var ErrLocation = errors.New("frame: not in this location")

// onHost returns an error unless the frame can be used and is in host memory.
func (f *Frame) onHost(verb string) error {
	if err := f.usable(); err != nil {
		return err
	}
	if f.loc != Host {
		return fmt.Errorf("%w: %s of a frame on devices: call ToHost first", ErrLocation, verb)
	}
	return nil
}

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
	toDevice = client.Func2("millstream.frame.to_device", func(ctx context.Context, b arrow.RecordBatch,
		partition int) (wire.Dict, error) {
		out, err := copyBatchToDevice(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
		}
		return out.value()
	})
	toHost = client.Func2("millstream.frame.to_host", func(ctx context.Context, d wire.Dict,
		partition int) (arrow.RecordBatch, error) {
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
	deviceChecked = client.Func3("millstream.frame.device_checked",
		func(ctx context.Context, d wire.Dict, schema []byte, partition int) (wire.Dict, error) {
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
	deviceRows = client.Func("millstream.frame.device_rows", func(_ context.Context, d wire.Dict) (int64, error) {
		return integer(d, rowsKey)
	})
	deviceProjected = client.Func2("millstream.frame.device_project",
		func(ctx context.Context, d wire.Dict, names []string) (wire.Dict, error) {
			return deviceCall(ctx, d, func(_ context.Context, b *DeviceBatch) (*DeviceBatch,
				error) {
				return b.Project(names...)
			})
		})
)

// deviceCall runs a function on a batch. What came through host memory is on the device before,
// and given up after unless the result has it.
func deviceCall(ctx context.Context, d wire.Dict,
	f func(context.Context, *DeviceBatch) (*DeviceBatch, error)) (wire.Dict, error) {
	b, made, err := arrive(ctx, d)
	var out *DeviceBatch
	if err == nil {
		if out, err = f(ctx, b); err == nil && out == nil {
			err = schemaErrorf(-1, "the partition is nothing (nil): the function must return a batch, an empty one "+
				"if need be")
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

// borrowed runs a function on a batch that it keeps nothing of.
func borrowed(ctx context.Context, d wire.Dict, f func(b *DeviceBatch) error) error {
	b, made, err := arrive(ctx, d)
	if err == nil {
		err = f(b)
	}
	for _, a := range made {
		a.Release()
	}
	return err
}

// arrive is a batch on the device of the task. made are the arrays that had to be copied there, also with an error.
func arrive(ctx context.Context, d wire.Dict) (b *DeviceBatch, made []*wire.DeviceArray, err error) {
	dev, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, nil, err
	}
	if b, err = deviceBatch(d); err != nil {
		return nil, nil, err
	}
	made, err = b.onDevice(ctx, dev)
	return b, made, err
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
			futures = append(futures, deviceOf.Submit(ctx, c, client.Val(address), client.WithWorkers(address),
				client.WithImpure()))
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

// ToDevice copies the frame to the GPUs of the workers that have one: its partitions stay on their workers where those
// do. Numbers, booleans, times, strings and bytes can be there. A frame that is there already is not copied.
func (f *Frame) ToDevice(ctx context.Context) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if f.loc == Device {
		return f.again(), nil
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
	parts := make([]*client.Future[wire.Dict], len(f.parts))
	for i, p := range f.parts {
		parts[i] = toDevice.Submit(ctx, f.c, p, client.Val(i), client.WithWorkers(workers...))
	}
	return trustedDevice(f.c, f.schema, parts, workers), nil
}

// ToHost copies the frame to the memory of its workers. A frame that is there already is not copied.
func (f *Frame) ToHost(ctx context.Context) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if f.loc == Host {
		return f.again(), nil
	}
	return trusted(f.c, f.schema, f.hostParts(ctx)), nil
}

// hostParts submits copies of partitions on devices in host memory.
func (f *Frame) hostParts(ctx context.Context) []*client.Future[arrow.RecordBatch] {
	parts := make([]*client.Future[arrow.RecordBatch], len(f.device))
	for i, p := range f.device {
		parts[i] = toHost.Submit(ctx, f.c, p, client.Val(i), client.WithWorkers(f.workers...))
	}
	return parts
}

// again is a frame of its own of the same partitions.
func (f *Frame) again() *Frame {
	return &Frame{c: f.c, schema: f.schema, loc: f.loc, workers: f.workers, parts: sameFutures(f.c, f.parts),
		device: sameFutures(f.c, f.device)}
}

// sameFutures are futures of their own of the same results.
func sameFutures[T any](c *client.Client, parts []*client.Future[T]) []*client.Future[T] {
	var out []*client.Future[T]
	for _, p := range parts {
		out = append(out, client.FutureOf[T](c, p.Key()))
	}
	return out
}

// deviceOfParts is a frame of futures of batches on devices, which it takes over: results of Python tasks, by
// millstream.frame.to_device, or of functions. The schema is that of the first, for which it waits. Partitions that are
// elsewhere move to workers with a GPU.
func deviceOfParts(ctx context.Context, c *client.Client, parts []*client.Future[wire.Dict]) (*Frame, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: without partitions there is no schema")
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
func deviceVerified(ctx context.Context, c *client.Client, schema *arrow.Schema, parts []*client.Future[wire.Dict],
	workers []string) (*Frame, error) {
	encoded, err := encodeSchema(schema)
	if err != nil {
		return nil, err
	}
	out := make([]*client.Future[wire.Dict], len(parts))
	for i, p := range parts {
		out[i] = deviceChecked.Submit(ctx, c, p, client.Val(encoded), client.Val(i), client.WithWorkers(workers...))
	}
	client.ReleaseAll(parts)
	return trustedDevice(c, schema, out, workers), nil
}

// trustedDevice is a frame of futures of batches on devices that are known to have the schema.
func trustedDevice(c *client.Client, schema *arrow.Schema, parts []*client.Future[wire.Dict], workers []string) *Frame {
	return &Frame{c: c, schema: schema, loc: Device, device: parts, workers: workers}
}
