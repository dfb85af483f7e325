package frame

import (
	"context"
	"fmt"

	"go.millstream.dev/client"
	"go.millstream.dev/python"
	"go.millstream.dev/wire"
)

// Publish keeps the frame at the scheduler under a name, also after this client is gone. Go
// programs find it with OpenDevice, those of Python with millstream.device.to_dask. override
// replaces what is published under the name.
func (f *DeviceFrame) Publish(ctx context.Context, name string, override bool) error {
	if err := f.Persist(ctx); err != nil {
		return err
	}
	return client.Publish(ctx, f.c, name, f.parts, override)
}

// OpenDevice is the frame on devices that is published under a name: by DeviceFrame.Publish, or
// by Python's millstream.device.from_dask.
func OpenDevice(ctx context.Context, c *client.Client, name string) (*DeviceFrame, error) {
	parts, err := client.Published[wire.Dict](ctx, c, name)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: %s is published, but has no partitions", name)
	}
	return DeviceOf(ctx, c, parts)
}

// DeviceFromDask is partitions on GPUs of Dask's workers as a frame on devices: a Dask DataFrame
// of cuDF, or a list of futures of dicts of CuPy arrays, that a Python program has published
// under a name with nothing but Dask. Python workers turn the partitions into Arrow's layout,
// on the device; they need CuPy and pyarrow, and nothing of Millstream's. From there they go to
// Millstream's workers, from device to device over ucxx://. opts say where the Python functions
// run, such as client.WithWorkers.
func DeviceFromDask(ctx context.Context, c *client.Client, name string, opts ...client.Option) (*DeviceFrame, error) {
	parts, err := client.Published[*client.Opaque](ctx, c, name)
	if err != nil {
		return nil, err
	}
	defer client.ReleaseAll(parts)
	if len(parts) == 0 {
		return nil, fmt.Errorf("frame: %s has no partitions at the scheduler: publish what persist() returns", name)
	}
	order, err := partitionOrder(name, parts)
	if err != nil {
		return nil, err
	}
	source, err := python.Text("device")
	if err != nil {
		return nil, err
	}
	convert := client.PythonSource[wire.Dict](source + "\n\ndef convert(part):\n    return to_device(part)\n").With(opts...)
	batches := make([]*client.Future[wire.Dict], len(parts))
	for i, at := range order {
		batches[i] = convert.Submit(ctx, c, parts[at])
	}
	return DeviceOf(ctx, c, batches)
}
