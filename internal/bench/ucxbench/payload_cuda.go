package ucxbench

import (
	"context"
	"errors"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// poolBytes is the initial size of the pool of device memory, unless four payloads are larger: one region for all
// payloads.
const poolBytes = 256 << 20

// deviceAlign is the alignment of device payloads in bytes, within their allocation. Those of ucx_perftest are aligned,
// too.
const deviceAlign = 4 << 10

// deviceMemory returns the resource for device payloads, nil for other kinds.
func (s *side) deviceMemory(spec Spec) (mem.Resource, error) {
	switch {
	case !onDevice(spec.Mem):
		return nil, nil
	case s.args.Device < 0:
		return nil, errors.New("device memory requested, but the pair was opened without a device")
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

// newDevicePayload allocates device memory for p. Filling and checking use the driver, not the path under test.
func newDevicePayload(ctx context.Context, p *payload, from mem.Resource) (*payload, error) {
	total := p.size + 2*guard
	region, err := from.Alloc(ctx, deviceAlign+total)
	if err != nil {
		return nil, err
	}
	whole := region.Slice(deviceAlign-guard, total)
	region.Release()
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
