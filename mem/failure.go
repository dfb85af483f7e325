package mem

import (
	"context"
	"errors"
)

// onFailure is a Resource that calls a function when an allocation fails for lack of memory.
type onFailure struct {
	adaptor
	retry func(ctx context.Context, n int, err error) bool
}

// NewOnFailure returns a Resource that calls retry with the size and the error of each Alloc of upstream that fails
// with ErrOutOfMemory, and allocates again for as long as it returns true and ctx is not done (RMM's
// FailureCallbackResourceAdaptor). retry is called by the allocating goroutine, possibly concurrently.
func NewOnFailure(upstream Resource, retry func(ctx context.Context, n int, err error) bool) (Resource, error) {
	if upstream == nil || retry == nil {
		return nil, errors.New("mem: NewOnFailure: upstream resource and retry function are required")
	}
	return &onFailure{adaptor: adaptor{upstream}, retry: retry}, nil
}

func (o *onFailure) Alloc(ctx context.Context, n int) (*Buffer, error) {
	return o.AllocOn(ctx, n, nil)
}

// AllocOn is Alloc in stream order, see StreamResource.
func (o *onFailure) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	for {
		b, err := AllocOn(ctx, o.upstream, n, st)
		if err == nil || !errors.Is(err, ErrOutOfMemory) || ctx.Err() != nil || !o.retry(ctx, n, err) {
			return b, err
		}
	}
}
