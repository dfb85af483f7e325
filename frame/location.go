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

// Location specifies where the partitions of a frame are.
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
var ErrNoGPU = errors.New("frame: no worker has a GPU; start some with millstream cuda-worker or cluster.LocalCUDA")

// ErrLocation is returned by operations that do not support the location of a frame. ToHost and ToDevice copy a frame.
var ErrLocation = errors.New("frame: not in this location")

// onHost returns an error unless the frame is not released and in host memory.
func (f *Frame) onHost(verb string) error {
	if err := f.usable(); err != nil {
		return err
	}
	if f.loc != Host {
		return fmt.Errorf("%w: %s of a frame on devices; call ToHost first", ErrLocation, verb)
	}
	return nil
}

// Functions for frames on devices that workers run.
var (
	// deviceOf returns the ordinal and UUID of the worker's GPU, "" without one.
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
	// checkDeviceSchema returns its first argument on the device if that has the schema.
	checkDeviceSchema = client.Func3("millstream.frame.device_checked",
		func(ctx context.Context, d wire.Dict, schema []byte, partition int) (wire.Dict, error) {
			want, err := decodeSchema(schema)
			if err != nil {
				return nil, err
			}
			return deviceCall(ctx, d, func(_ context.Context, b *DeviceBatch) (*DeviceBatch, error) {
				if diff := diffSchemas(want, b.schema); diff != "" {
					return nil, schemaErrorf(partition, "%s", diff)
				}
				return b, nil
			})
		})
	deviceRows = client.Func("millstream.frame.device_rows", func(_ context.Context, d wire.Dict) (int64, error) {
		return integer(d, rowsKey)
	})
	deviceProjectPart = client.Func2("millstream.frame.device_project",
		func(ctx context.Context, d wire.Dict, names []string) (wire.Dict, error) {
			return deviceCall(ctx, d, func(_ context.Context, b *DeviceBatch) (*DeviceBatch,
				error) {
				return b.Project(names...)
			})
		})
)

// deviceCall runs a function on a batch. Arrays that are not on the device are copied to it before, and released
// afterwards unless the result has them.
func deviceCall(ctx context.Context, d wire.Dict,
	f func(context.Context, *DeviceBatch) (*DeviceBatch, error)) (wire.Dict, error) {
	b, made, err := loadBatch(ctx, d)
	var out *DeviceBatch
	if err == nil {
		if out, err = f(ctx, b); err == nil && out == nil {
			err = schemaErrorf(-1, "partition is nil; return a batch, which may be "+
				"empty")
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

// withBatch runs a function on a batch of which it keeps nothing.
func withBatch(ctx context.Context, d wire.Dict, f func(b *DeviceBatch) error) error {
	b, made, err := loadBatch(ctx, d)
	if err == nil {
		err = f(b)
	}
	for _, a := range made {
		a.Release()
	}
	return err
}

// loadBatch returns a batch on the device of the task. made are the arrays that were copied there, also with an error.
func loadBatch(ctx context.Context, d wire.Dict) (b *DeviceBatch, made []*wire.DeviceArray, err error) {
	dev, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, nil, err
	}
	if b, err = deviceBatch(d); err != nil {
		return nil, nil, err
	}
	made, err = b.copyMissing(ctx, dev)
	return b, made, err
}

// gpuWorkers returns the workers that have a GPU.
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
		return nil, fmt.Errorf("frame: find workers with a GPU: %w", err)
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

// ToDevice copies the frame to the GPUs of the workers that have one. Partitions stay on their workers if those have a
// GPU. Numbers, booleans, times, strings and bytes are supported. A frame on devices is not copied.
func (f *Frame) ToDevice(ctx context.Context) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if f.loc == Device {
		return f.clone(), nil
	}
	for _, x := range f.schema.Fields() {
		if _, ok := layoutOf(x.Type); !ok {
			return nil, unsupportedType(x)
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
	return newDeviceFrame(f.c, f.schema, parts, workers), nil
}

// ToHost copies the frame to the memory of its workers. A frame in host memory is not copied.
func (f *Frame) ToHost(ctx context.Context) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if f.loc == Host {
		return f.clone(), nil
	}
	return newFrame(f.c, f.schema, f.hostParts(ctx)), nil
}

// hostParts submits copies of partitions on devices to host memory.
func (f *Frame) hostParts(ctx context.Context) []*client.Future[arrow.RecordBatch] {
	parts := make([]*client.Future[arrow.RecordBatch], len(f.device))
	for i, p := range f.device {
		parts[i] = toHost.Submit(ctx, f.c, p, client.Val(i), client.WithWorkers(f.workers...))
	}
	return parts
}

// clone returns another frame of the same partitions.
func (f *Frame) clone() *Frame {
	return &Frame{c: f.c, schema: f.schema, loc: f.loc, workers: f.workers, parts: cloneFutures(f.c, f.parts),
		device: cloneFutures(f.c, f.device)}
}

// cloneFutures returns other futures of the same results.
func cloneFutures[T any](c *client.Client, parts []*client.Future[T]) []*client.Future[T] {
	var out []*client.Future[T]
	for _, p := range parts {
		out = append(out, client.FutureOf[T](c, p.Key()))
	}
	return out
}

// newDeviceFrameOf returns a frame of futures of batches on devices, which it takes over: results of Python tasks, by
// millstream.frame.to_device, or of functions. The schema is that of the first, for which it waits. Partitions on other
// workers are moved to workers with a GPU.
func newDeviceFrameOf(ctx context.Context, c *client.Client, parts []*client.Future[wire.Dict]) (*Frame, error) {
	if len(parts) == 0 {
		return nil, errors.New("frame: no partitions, so no schema")
	}
	workers, err := gpuWorkers(ctx, c)
	if err != nil {
		return nil, err
	}
	b, err := deviceSchema.Submit(ctx, c, parts[0], client.WithWorkers(workers...)).Result(ctx)
	if err != nil {
		return nil, withKind(err)
	}
	schema, err := decodeSchema(b)
	if err != nil {
		return nil, err
	}
	return newCheckedDevice(ctx, c, schema, parts, workers)
}

// newCheckedDevice returns a frame of partitions whose schemas are checked by tasks.
func newCheckedDevice(ctx context.Context, c *client.Client, schema *arrow.Schema, parts []*client.Future[wire.Dict],
	workers []string) (*Frame, error) {
	encoded, err := encodeSchema(schema)
	if err != nil {
		return nil, err
	}
	out := make([]*client.Future[wire.Dict], len(parts))
	for i, p := range parts {
		out[i] = checkDeviceSchema.Submit(ctx, c, p, client.Val(encoded), client.Val(i), client.WithWorkers(workers...))
	}
	client.ReleaseAll(parts)
	return newDeviceFrame(c, schema, out, workers), nil
}

// newDeviceFrame returns a frame of futures of batches on devices that are known to have the schema.
func newDeviceFrame(c *client.Client, schema *arrow.Schema, parts []*client.Future[wire.Dict],
	workers []string) *Frame {
	return &Frame{c: c, schema: schema, loc: Device, device: parts, workers: workers}
}
