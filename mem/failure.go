package mem

import (
	"context"
	"errors"
)

// OnFailure is a Resource that asks a function what to do when an allocation fails for want
// of memory (RMM's FailureCallbackResourceAdaptor): free something and try again, or give up.
type OnFailure struct {
	upstream Resource
	retry    func(ctx context.Context, n int, err error) bool
}

// NewOnFailure calls retry with the size and the error of each Alloc of upstream that fails
// with ErrOutOfMemory, and allocates again for as long as it returns true and ctx is not done.
// The function is called by the goroutine that allocates, by several at once.
func NewOnFailure(upstream Resource, retry func(ctx context.Context, n int, err error) bool) (*OnFailure, error) {
	if upstream == nil || retry == nil {
		return nil, errors.New("mem: NewOnFailure: give an upstream resource and a function")
	}
	return &OnFailure{upstream: upstream, retry: retry}, nil
}

// Alloc returns a buffer of n bytes of the upstream resource.
func (o *OnFailure) Alloc(ctx context.Context, n int) (*Buffer, error) {
	return o.AllocOn(ctx, n, nil)
}

// AllocOn is Alloc in the order of a stream, see StreamResource.
func (o *OnFailure) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	for {
		b, err := AllocOn(ctx, o.upstream, n, st)
		if err == nil || !errors.Is(err, ErrOutOfMemory) || ctx.Err() != nil || !o.retry(ctx, n, err) {
			return b, err
		}
	}
}

// Kind is the sort of memory of the upstream resource.
func (o *OnFailure) Kind() Kind { return o.upstream.Kind() }

// Device is the GPU ordinal of the upstream resource, or -1.
func (o *OnFailure) Device() int { return o.upstream.Device() }
