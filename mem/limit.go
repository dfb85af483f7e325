package mem

import (
	"context"
	"fmt"
	"sync/atomic"
)

// limit is a Resource that hands out at most a number of bytes at a time.
type limit struct {
	adaptor
	max   int64
	inUse atomic.Int64
}

// limitAlign is what each allocation is rounded up to.
const limitAlign = 256

// NewLimit returns a Resource that hands out at most max bytes of upstream at a time (RMM's
// LimitingResourceAdaptor); Alloc returns an error that wraps ErrOutOfMemory when more would be
// out. Buffers count with their length rounded up to 256 bytes, as a pool of CUDA memory
// rounds them.
func NewLimit(upstream Resource, max int64) (Resource, error) {
	if upstream == nil || max <= 0 {
		return nil, fmt.Errorf("mem: NewLimit: a limit of %d bytes on %T: give a resource and a number above 0", max,
			upstream)
	}
	return &limit{adaptor: adaptor{upstream}, max: max}, nil
}

func (l *limit) Alloc(ctx context.Context, n int) (*Buffer, error) { return l.AllocOn(ctx, n, nil) }

// AllocOn is Alloc in the order of a stream, see StreamResource.
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
