package frame

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// DeviceMap is a function on partitions on devices: see NewDeviceMap.
type DeviceMap struct {
	f *client.Fn1[wire.Dict, wire.Dict]
}

// NewDeviceMap registers a function on partitions under a name. Like client.Func it is called in
// a package-level variable, in a package that client and workers share. The function finds its
// GPU by task.CurrentDevice: memory for what it returns, and a stream.
func NewDeviceMap(name string, f func(ctx context.Context, b *DeviceBatch) (*DeviceBatch, error)) *DeviceMap {
	return &DeviceMap{client.Func(name, func(ctx context.Context, d wire.Dict) (wire.Dict, error) { return deviceCall(ctx, d, f) })}
}

// DeviceMapWith is a DeviceMap with something else besides the partition: see
// NewDeviceMapWith.
type DeviceMapWith[P any] struct {
	f *client.Fn2[wire.Dict, P, wire.Dict]
}

// NewDeviceMapWith is NewDeviceMap for a function of a partition and something else, the same
// for all.
func NewDeviceMapWith[P any](name string, f func(ctx context.Context, b *DeviceBatch, p P) (*DeviceBatch, error)) *DeviceMapWith[P] {
	return &DeviceMapWith[P]{client.Func2(name, func(ctx context.Context, d wire.Dict, p P) (wire.Dict, error) {
		return deviceCall(ctx, d, func(ctx context.Context, b *DeviceBatch) (*DeviceBatch, error) { return f(ctx, b, p) })
	})}
}

// Run is DeviceFrame.Map with an argument, a value (client.Val) or a future.
func (m *DeviceMapWith[P]) Run(ctx context.Context, f *DeviceFrame, arg client.Arg[P], schema *arrow.Schema, opts ...client.Option) (*DeviceFrame, error) {
	return f.mapped(ctx, schema, opts, func(p *client.Future[wire.Dict], opts ...client.Option) *client.Future[wire.Dict] {
		return m.f.Submit(ctx, f.c, p, arg, opts...)
	})
}

// Map runs a function on every partition, on the GPU that has it. schema is that of the results;
// nil asks the first result for it, and waits for that.
func (f *DeviceFrame) Map(ctx context.Context, fn *DeviceMap, schema *arrow.Schema, opts ...client.Option) (*DeviceFrame, error) {
	return f.mapped(ctx, schema, opts, func(p *client.Future[wire.Dict], opts ...client.Option) *client.Future[wire.Dict] {
		return fn.f.Submit(ctx, f.c, p, opts...)
	})
}

func (f *DeviceFrame) mapped(ctx context.Context, schema *arrow.Schema, opts []client.Option, submit func(*client.Future[wire.Dict], ...client.Option) *client.Future[wire.Dict]) (*DeviceFrame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	opts = append([]client.Option{client.WithWorkers(f.workers...)}, opts...)
	parts := make([]*client.Future[wire.Dict], len(f.parts))
	for i, p := range f.parts {
		parts[i] = submit(p, opts...)
	}
	if schema == nil {
		return DeviceOf(ctx, f.c, parts)
	}
	return deviceVerified(ctx, f.c, schema, parts, f.workers)
}
