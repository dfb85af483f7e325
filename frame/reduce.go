package frame

import (
	"context"
	"fmt"

	"go.millstream.dev/client"
)

// Reduce runs part on every partition, where it is, and joins the results, neighbours first, with combine
// until one is left: a tree of tasks on the workers, whose shape and so whose rounding depends
// on the number of partitions alone. part is made by NewPart, combine is registered with client.Func2.
func Reduce[R any](ctx context.Context, f *Frame, part *PartFunc[R], combine *client.Fn2[R, R, R],
	opts ...client.Option) *Result[R] {
	level, err := part.submit(ctx, f, opts)
	if err == nil && len(level) == 0 {
		err = fmt.Errorf("frame: Reduce: the frame has no partition")
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
			// The tree holds what it needs; the client needs the root alone.
			level[i].Release()
			level[i+1].Release()
		}
		level = next
	}
	return &Result[R]{future: level[0]}
}

// Result is what Reduce comes to.
type Result[R any] struct {
	future *client.Future[R]
	err    error
}

// Get waits for it.
func (r *Result[R]) Get(ctx context.Context) (R, error) {
	var zero R
	if r.err != nil {
		return zero, r.err
	}
	v, err := r.future.Result(ctx)
	return v, typed(err)
}

// Future is the result as an argument of tasks; nil if nothing could be submitted, which Get
// explains.
func (r *Result[R]) Future() *client.Future[R] { return r.future }

// Release gives the result up. It is idempotent.
func (r *Result[R]) Release() {
	if r.future != nil {
		r.future.Release()
	}
}
