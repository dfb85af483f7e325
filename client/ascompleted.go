package client

import (
	"context"
	"iter"
	"runtime"

	"go.millstream.dev/client/internal/tracker"
)

// AsCompleted iterates over futures in the order in which they end, with their errors: nil for those that have a
// result. The iteration ends early when ctx does; the last pair then has a nil future and the error of ctx.
func AsCompleted[T any](ctx context.Context, futures []*Future[T]) iter.Seq2[*Future[T], error] {
	return func(yield func(*Future[T], error) bool) {
		byClient := make(map[*Client][]int)
		for i, f := range futures {
			if f.err != nil {
				if !yield(f, f.err) {
					return
				}
				continue
			}
			byClient[f.c] = append(byClient[f.c], i)
		}
		for c, which := range byClient { // usually one
			if !yieldCompleted(ctx, c, futures, which, yield) {
				return
			}
		}
		runtime.KeepAlive(futures)
	}
}

func yieldCompleted[T any](ctx context.Context, c *Client, futures []*Future[T], which []int,
	yield func(*Future[T], error) bool) bool {
	keys := make([]*tracker.State, len(which))
	for i, at := range which {
		keys[i] = futures[at].h.State()
	}
	w := c.tracker.Watch(keys)
	defer w.Stop()
	for seen := 0; seen < len(which); {
		news := w.Ended(seen)
		for _, i := range news {
			f := futures[which[i]]
			if !yield(f, f.Err()) {
				return false
			}
		}
		if seen += len(news); len(news) > 0 {
			continue
		}
		select {
		case <-w.News():
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return false
		}
	}
	return true
}

// Results iterates over the results of futures in the order in which they end. It is AsCompleted with each result
// fetched.
func Results[T any](ctx context.Context, futures []*Future[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for f, err := range AsCompleted(ctx, futures) {
			var v T
			if err == nil {
				v, err = f.Result(ctx)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
