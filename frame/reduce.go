package frame

import (
	"context"
	"errors"

	"go.millstream.dev/client"
)

// Reduce runs part on every partition, where it is, and combines the results, neighbors first, with combine until one
// is left: a tree of tasks on the workers, whose shape, and with it rounding, depends only on the number of partitions.
// part is made by NewPart, combine is registered with client.Func2.
func Reduce[R any](ctx context.Context, f *Frame, part *PartFunc[R], combine *client.Fn2[R, R, R],
	opts ...client.Option) *Result[R] {
	level, err := part.submit(ctx, f, opts)
	if err == nil && len(level) == 0 {
		err = errors.New("frame: Reduce: frame without partitions")
	}
	if err != nil {
		return &Result[R]{err: err}
	}
	for len(level) > 1 {
		var next []*client.Future[R]
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				next = append(next, level[i])
				break
			}
			next = append(next, combine.Submit(ctx, f.c, level[i], level[i+1], opts...))
			// The tree holds its inputs; the client needs only the root.
			level[i].Release()
			level[i+1].Release()
		}
		level = next
	}
	return &Result[R]{future: level[0]}
}

// Result is the result of Reduce.
type Result[R any] struct {
	future *client.Future[R]
	err    error
}

// Get waits for the result and returns it.
func (r *Result[R]) Get(ctx context.Context) (R, error) {
	var zero R
	if r.err != nil {
		return zero, r.err
	}
	v, err := r.future.Result(ctx)
	return v, withKind(err)
}

// Future returns the result as an argument of tasks; nil if no task could be submitted, for which Get returns the
// error.
func (r *Result[R]) Future() *client.Future[R] { return r.future }

// Release releases the result. It may be called twice.
func (r *Result[R]) Release() {
	if r.future != nil {
		r.future.Release()
	}
}
