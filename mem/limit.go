package mem

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Limit is a Resource that hands out at most a number of bytes at a time (RMM's
// LimitingResourceAdaptor). Buffers count with their length rounded up to 256 bytes, as a
// pool of CUDA memory rounds them.
type Limit struct {
	upstream Resource
	max      int64
	inUse    atomic.Int64
}

// limitAlign is what each allocation is rounded up to.
const limitAlign = 256

// NewLimit bounds what upstream gives at one time to limit bytes.
func NewLimit(upstream Resource, limit int64) (*Limit, error) {
	if upstream == nil || limit <= 0 {
		return nil, fmt.Errorf("mem: NewLimit: a limit of %d bytes on %T: give a resource and a number above 0", limit,
			upstream)
	}
	return &Limit{upstream: upstream, max: limit}, nil
}

// Alloc returns a buffer of n bytes, or an error that wraps ErrOutOfMemory when the limit
// would be passed.
func (l *Limit) Alloc(ctx context.Context, n int) (*Buffer, error) { return l.AllocOn(ctx, n, nil) }

// AllocOn is Alloc in the order of a stream, see StreamResource.
func (l *Limit) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
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

// Kind is the sort of memory of the upstream resource.
func (l *Limit) Kind() Kind { return l.upstream.Kind() }

// Device is the GPU ordinal of the upstream resource, or -1.
func (l *Limit) Device() int { return l.upstream.Device() }

// InUse is how many bytes are handed out, each buffer rounded up to 256.
func (l *Limit) InUse() int64 { return l.inUse.Load() }

// Max is the limit in bytes.
func (l *Limit) Max() int64 { return l.max }
