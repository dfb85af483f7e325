package client

import (
	"context"
	"errors"
)

// TreeReduce combines the results of futures in pairs, neighbors first, until one is left, and returns its future. The
// tree of tasks runs on the workers, so that no worker needs more than two of the results at once. The shape of the
// tree depends only on the number of futures. combine must be associative. A single future is returned unchanged;
// without futures the returned future has an error. The caller keeps the futures, and may release them when TreeReduce
// has returned.
func TreeReduce[T any](ctx context.Context, c *Client, combine *Fn2[T, T, T], futures []*Future[T],
	opts ...Option) *Future[T] {
	if len(futures) == 0 {
		return failedFuture[T](c, errors.New("client: TreeReduce without futures; pass at least one"))
	}
	level := futures
	for first := true; len(level) > 1; first = false {
		next := make([]*Future[T], 0, (len(level)+1)/2)
		i := 0
		for ; i+1 < len(level); i += 2 {
			next = append(next, combine.Submit(ctx, c, level[i], level[i+1], opts...))
		}
		rest := level[i:]
		if !first { // tasks hold their dependencies; keep the caller's futures
			for _, f := range level[:i] {
				if !isLast(futures, f) {
					f.Release()
				}
			}
		}
		level = append(next, rest...)
	}
	return level[0]
}

// isLast reports whether f is the last of futures, which passes through if their number is odd.
func isLast[T any](futures []*Future[T], f *Future[T]) bool { return futures[len(futures)-1] == f }
