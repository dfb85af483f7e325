package ucxbench

import (
	"context"
	"errors"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// poolBytes is what a side's pool of device memory takes at once, or four
// payloads where these are larger: one region, however many payloads.
const poolBytes = 256 << 20

// deviceMemory is where device payloads come from; nil for other kinds.
func (s *side) deviceMemory(spec Spec) (mem.Resource, error) {
	switch {
	case !onDevice(spec.Mem):
		return nil, nil
	case s.args.Device < 0:
		return nil, errors.New("device memory was asked for, but the pair was opened without a device")
	case spec.Mem == MemCUDA:
		return cuda.NewDeviceResource(s.args.Device), nil
	}
	if s.pool == nil {
		pool, err := mem.NewPool(cuda.NewDeviceResource(s.args.Device), mem.PoolConfig{
			InitialBytes: max(poolBytes, 4*int(spec.Size)), SlabBytes: poolBytes,
		})
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	return s.pool, nil
}

// newDevicePayload gives p device memory. Filling and checking go through the
// driver, never through the path under test.
func newDevicePayload(ctx context.Context, p *payload, from mem.Resource) (*payload, error) {
	total := p.size + 2*guard
	whole, err := from.Alloc(ctx, total)
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
