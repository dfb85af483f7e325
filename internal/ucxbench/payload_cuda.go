package ucxbench

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/ucx"
)

// newDevicePayload gives p device memory. Filling and checking go through the
// driver, never through the path under test.
func newDevicePayload(ctx context.Context, p *payload, device int) (*payload, error) {
	if device < 0 {
		return nil, fmt.Errorf("device memory was asked for, but the pair was opened without a device")
	}
	total := p.size + 2*guard
	whole, err := cuda.NewDeviceResource(device).Alloc(ctx, total)
	if err != nil {
		return nil, err
	}
	part := whole.Slice(guard, p.size)
	p.all = make([]byte, total)
	p.view = ucx.Buffer(part)
	p.store = func() error { return cuda.CopyFromHost(ctx, whole, p.all) }
	p.load = func() error { return cuda.CopyToHost(ctx, p.all, whole) }
	p.release = func() {
		part.Release()
		whole.Release()
	}
	p.guards()
	return p, p.store()
}
