package client

import (
	"context"
	"runtime"

	"go.millstream.dev/client/internal/fetch"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
)

// Status is the state of a future's task.
type Status uint8

// The states of a future.
const (
	// Pending tasks have not ended, or their result was lost and is being computed again.
	Pending Status = Status(tracker.Pending)
	// Finished tasks have a result on some worker.
	Finished Status = Status(tracker.Finished)
	// Failed tasks have an error.
	Failed Status = Status(tracker.Failed)
	// Canceled tasks will not be run.
	Canceled Status = Status(tracker.Canceled)
	// Lost results were lost; the task is run again if it can be.
	Lost Status = Status(tracker.Lost)
)

var statusNames = [...]string{"pending", "finished", "error", "cancelled", "lost"}

// String returns Dask's name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// Future is the result of a task, present or to come. It is an argument of other tasks (see
// Arg). The task and its result live while some client holds a future of it: until Release,
// or until the garbage collector finds that nobody refers to it any more.
type Future[T any] struct {
	c   *Client
	h   *tracker.Handle
	err error // the task was never submitted
}

// AnyFuture is a future of any type.
type AnyFuture interface {
	Key() task.Key
	Status() Status
	Err() error
	Wait(ctx context.Context) error
	state() (*Client, *tracker.State, error)
}

func failed[T any](c *Client, err error) *Future[T] { return &Future[T]{c: c, err: err} }

// Key is the task's; "" for one that could not be submitted.
func (f *Future[T]) Key() task.Key {
	if f.h == nil {
		return ""
	}
	return f.h.State().Key()
}

// String returns the task's key and status, and the reason where the scheduler has said that no worker can run it.
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

// Status is where the task stands, as far as the client has heard.
func (f *Future[T]) Status() Status {
	if f.err != nil {
		return Failed
	}
	return Status(f.c.tracker.Status(f.h.State()))
}

// IsDone reports whether the task has ended: finished, failed or canceled.
func (f *Future[T]) IsDone() bool { return tracker.Status(f.Status()).Ended() }

// Err is the task's error, nil while it runs and if it has a result.
func (f *Future[T]) Err() error {
	if f.err != nil {
		return f.err
	}
	return f.c.tracker.KeyErr(f.h.State())
}

// ArgOf makes a future an Arg.
func (f *Future[T]) ArgOf(T) {}

// AppendArg writes the future as an argument: a reference to its result.
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

// Ref is the future as a field of a struct that is an argument.
func (f *Future[T]) Ref() task.Ref[T] { return task.RefTo[T](f.Key()) }

// Wait waits until the task has ended, and returns its error.
func (f *Future[T]) Wait(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	return f.c.tracker.Wait(ctx, []*tracker.State{f.h.State()}, true)
}

// Result waits for the task and returns its result, or its error: a *TaskError, or one in
// which errors.Is finds ErrCanceled, ErrLostData or ErrClosed.
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

// Release gives the future up: when no other refers to the same task, it is forgotten and
// its result freed. It is idempotent.
func (f *Future[T]) Release() {
	if f.err == nil {
		f.c.tracker.Release(f.h)
	}
}

// newFuture makes a future of a key that is held for it; the collector may end it.
func newFuture[T any](c *Client, s *tracker.State) *Future[T] {
	f := &Future[T]{c: c, h: tracker.NewHandle(s)}
	t := c.tracker // the cleanup, in a goroutine of the garbage collector, only queues
	runtime.AddCleanup(f, func(h *tracker.Handle) { t.Release(h) }, f.h)
	return f
}

// FutureOf is the future of a key that some client has submitted or that was published.
func FutureOf[T any](c *Client, key task.Key) *Future[T] {
	s, err := c.tracker.Desire(key)
	if err != nil {
		return failed[T](c, err)
	}
	return newFuture[T](c, s)
}
