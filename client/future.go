package client

import (
	"context"
	"runtime"

	"go.millstream.dev/internal/task"
)

// Future is the result of a task, present or to come. It is an argument of other tasks (see
// Arg). The task and its result live while some client holds a future of it: until Release,
// or until the garbage collector finds that nobody refers to it any more.
type Future[T any] struct {
	c   *Client
	h   *handle
	err error // the task was never submitted
}

// AnyFuture is a future of any type.
type AnyFuture interface {
	Key() task.Key
	Status() Status
	Err() error
	Wait(ctx context.Context) error
	state() (*Client, *keyState, error)
}

func failed[T any](c *Client, err error) *Future[T] { return &Future[T]{c: c, err: err} }

// Key is the task's; "" for one that could not be submitted.
func (f *Future[T]) Key() task.Key {
	if f.h == nil {
		return ""
	}
	return f.h.ks.key
}

// String returns the task's key and status, and the reason where the scheduler has said that no worker can run it.
func (f *Future[T]) String() string {
	text := "Future(" + f.Key().String() + ", " + f.Status().String()
	if f.err == nil {
		f.c.mu.Lock()
		why := f.c.whyPending(f.h.ks)
		f.c.mu.Unlock()
		if why != "" {
			text += ": " + why
		}
	}
	return text + ")"
}

func (f *Future[T]) state() (*Client, *keyState, error) {
	if f.err != nil {
		return f.c, nil, f.err
	}
	return f.c, f.h.ks, nil
}

// Status is where the task stands, as far as the client has heard.
func (f *Future[T]) Status() Status {
	if f.err != nil {
		return Failed
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.h.ks.status
}

// IsDone reports whether the task has ended: finished, failed or canceled.
func (f *Future[T]) IsDone() bool { return f.Status().ended() }

// Err is the task's error, nil while it runs and if it has a result.
func (f *Future[T]) Err() error {
	if f.err != nil {
		return f.err
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.h.ks.err
}

// ArgOf makes a future an Arg.
func (f *Future[T]) ArgOf(T) {}

// AppendArg writes the future as an argument: a reference to its result.
func (f *Future[T]) AppendArg(b *task.Builder) error {
	if f.err != nil {
		return f.err
	}
	f.c.mu.Lock()
	released := f.h.released
	f.c.mu.Unlock()
	if released {
		return &cancelledError{key: f.h.ks.key, cause: ErrReleased}
	}
	b.Ref(f.h.ks.key)
	return nil
}

// Ref is the future as a field of a struct that is an argument.
func (f *Future[T]) Ref() task.Ref[T] { return task.RefTo[T](f.Key()) }

// Wait waits until the task has ended, and returns its error.
func (f *Future[T]) Wait(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	return f.c.waitAll(ctx, []*keyState{f.h.ks}, true)
}

// Result waits for the task and returns its result, or its error: a *TaskError, or one in
// which errors.Is finds ErrCanceled, ErrLostData or ErrClosed.
func (f *Future[T]) Result(ctx context.Context) (T, error) {
	var out T
	if f.err != nil {
		return out, f.err
	}
	err := f.c.fetch(ctx, []*keyState{f.h.ks}, func(_ int, v value) (err error) {
		out, err = valueAs[T](v)
		return err
	})
	runtime.KeepAlive(f)
	return out, err
}

// Cancel cancels the task: see Client.Cancel.
func (f *Future[T]) Cancel() error {
	if f.err != nil {
		return f.err
	}
	return f.c.Cancel(f)
}

// Release gives the future up: when no other refers to the same task, it is forgotten and
// its result freed. It is idempotent.
func (f *Future[T]) Release() {
	if f.err != nil {
		return
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.c.release(f.h)
}

// newFuture makes a future of a key that is held for it; the collector may end it.
func newFuture[T any](c *Client, ks *keyState) *Future[T] {
	f := &Future[T]{c: c, h: &handle{ks: ks}}
	runtime.AddCleanup(f, func(h *handle) { c.collected(h) }, f.h)
	return f
}

// collected is called by the garbage collector's goroutine: it only queues.
func (c *Client) collected(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(h)
}

// FutureOf is the future of a key that some client has submitted or that was published.
func FutureOf[T any](c *Client, key task.Key) *Future[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return failed[T](c, c.closed)
	}
	ks, fresh := c.hold(key)
	if fresh {
		c.say(keysMessage("client-desires-keys", []task.Key{key}, c.id))
	}
	return newFuture[T](c, ks)
}
