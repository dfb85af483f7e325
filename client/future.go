package client

import (
	"context"
	"runtime"

	"go.millstream.dev/client/internal/fetch"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
)

// Status is the state of the task of a future.
type Status uint8

// The states of a future.
const (
	// Pending indicates a task that has not ended, or whose lost result is being computed again.
	Pending Status = Status(tracker.Pending)
	// Finished indicates a task with a result on a worker.
	Finished Status = Status(tracker.Finished)
	// Failed indicates a task that ended with an error.
	Failed Status = Status(tracker.Failed)
	// Canceled indicates a task that will not be run.
	Canceled Status = Status(tracker.Canceled)
	// Lost indicates a task whose result was lost. The task is run again if possible.
	Lost Status = Status(tracker.Lost)
)

var statusNames = [...]string{"pending", "finished", "error", "cancelled", "lost"}

// String returns the name of the status in Dask.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// Future is a handle to the result of a task. It can be an argument of other tasks (see Arg). The task and its result
// are kept while a client holds a future of it: until Release, or until the garbage collector finds that the future is
// no longer referenced.
type Future[T any] struct {
	c   *Client
	h   *tracker.Handle
	err error // why the task was not submitted
}

// AnyFuture is a future of any type.
type AnyFuture interface {
	Key() task.Key
	Status() Status
	Err() error
	Wait(ctx context.Context) error
	state() (*Client, *tracker.State, error)
}

func failedFuture[T any](c *Client, err error) *Future[T] { return &Future[T]{c: c, err: err} }

// Key returns the key of the task, or "" if it could not be submitted.
func (f *Future[T]) Key() task.Key {
	if f.h == nil {
		return ""
	}
	return f.h.State().Key()
}

// String returns the key and the status of the task, and the reason if the scheduler has reported that no worker can
// run it.
func (f *Future[T]) String() string {
	text := "Future(" + f.Key().String() + ", " + f.Status().String()
	if f.err == nil {
		if why := f.c.tracker.WhyPending(f.h.State()); why != "" {
			text += ": " + why
		}
	}
	return text + ")"
}

func (f *Future[T]) state() (*Client, *tracker.State, error) {
	if f.err != nil {
		return f.c, nil, f.err
	}
	return f.c, f.h.State(), nil
}

// Status returns the last status that the scheduler has reported.
func (f *Future[T]) Status() Status {
	if f.err != nil {
		return Failed
	}
	return Status(f.c.tracker.Status(f.h.State()))
}

// IsDone reports whether the task has ended: finished, failed or canceled.
func (f *Future[T]) IsDone() bool { return tracker.Status(f.Status()).Ended() }

// Err returns the error of the task, or nil while it runs and if it has a result.
func (f *Future[T]) Err() error {
	if f.err != nil {
		return f.err
	}
	return f.c.tracker.KeyErr(f.h.State())
}

// ArgOf marks a future as an Arg.
func (f *Future[T]) ArgOf(T) {}

// AppendArg encodes the future as an argument: a reference to its result.
func (f *Future[T]) AppendArg(b *task.Builder) error {
	if f.err != nil {
		return f.err
	}
	if f.c.tracker.Released(f.h) {
		return tracker.NewCanceledError(f.Key(), ErrReleased)
	}
	b.Ref(f.Key())
	return nil
}

// Ref returns the future as a field of a struct that is an argument.
func (f *Future[T]) Ref() task.Ref[T] { return task.RefTo[T](f.Key()) }

// Wait waits until the task has ended, and returns its error.
func (f *Future[T]) Wait(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	return f.c.tracker.Wait(ctx, []*tracker.State{f.h.State()}, true)
}

// Result waits for the task and returns its result or its error: a *TaskError, or an error that matches ErrCanceled,
// ErrLostData or ErrClosed with errors.Is.
func (f *Future[T]) Result(ctx context.Context) (T, error) {
	var out T
	if f.err != nil {
		return out, f.err
	}
	err := f.c.fetcher.Fetch(ctx, []*tracker.State{f.h.State()}, func(_ int, v fetch.Value) (err error) {
		out, err = fetch.As[T](v)
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

// Release releases the future. When no other future refers to the same task, the task is forgotten and its result is
// freed. Release may be called more than once.
func (f *Future[T]) Release() {
	if f.err == nil {
		f.c.tracker.Release(f.h)
	}
}

// newFuture returns a future of a key that is already held for it. The garbage collector may release it.
func newFuture[T any](c *Client, s *tracker.State) *Future[T] {
	f := &Future[T]{c: c, h: tracker.NewHandle(s)}
	t := c.tracker // Release only queues, so that the cleanup does not block
	runtime.AddCleanup(f, func(h *tracker.Handle) { t.Release(h) }, f.h)
	return f
}

// FutureOf returns a future of a key that a client has submitted or published.
func FutureOf[T any](c *Client, key task.Key) *Future[T] {
	s, err := c.tracker.Desire(key)
	if err != nil {
		return failedFuture[T](c, err)
	}
	return newFuture[T](c, s)
}
