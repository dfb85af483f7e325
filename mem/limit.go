package mem

import (
	"context"
	"fmt"
	"sync/atomic"
)

// limit is a Resource that bounds the bytes in use.
type limit struct {
	adaptor
	max   int64
	inUse atomic.Int64
}

// limitAlign is the unit to which each allocation is rounded up.
const limitAlign = 256

// NewLimit returns a Resource that bounds the bytes of upstream in use to max (RMM's LimitingResourceAdaptor); Alloc
// returns an error that wraps ErrOutOfMemory beyond it. The length of each buffer is rounded up to 256 bytes, as by a
// pool of CUDA memory.
func NewLimit(upstream Resource, max int64) (Resource, error) {
	if upstream == nil || max <= 0 {
		return nil, fmt.Errorf("mem: NewLimit: limit of %d bytes on %T: want a resource and a limit above 0", max,
			upstream)
	}
	return &limit{adaptor: adaptor{upstream}, max: max}, nil
}

func (l *limit) Alloc(ctx context.Context, n int) (*Buffer, error) { return l.AllocOn(ctx, n, nil) }

// AllocOn is Alloc in stream order, see StreamResource.
func (l *limit) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	if err := checkSize("limit", n); err != nil {
		return nil, err
	}
	size := (int64(n) + limitAlign - 1) &^ (limitAlign - 1)
	if now := l.inUse.Add(size); now > l.max {
		l.inUse.Add(-size)
		return nil, fmt.Errorf("%w: limit: %d bytes: %d of at most %d bytes are in use", ErrOutOfMemory, n, now-size,
			l.max)
	}
	b, err := AllocOn(ctx, l.upstream, n, st)
	if err != nil {
		l.inUse.Add(-size)
		return nil, err
	}
	b.OnFree(func() { l.inUse.Add(-size) })
	return b, nil
}
