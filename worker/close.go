package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// closeTime bounds each wait of stop: for the last messages to the scheduler, for replies in progress, and for tasks
// that ignore their context.
const closeTime = 5 * time.Second

// Close closes the worker: it cancels tasks, drops data and notifies the scheduler. It waits until all goroutines have
// ended, except those of tasks that ignore their context; if there are such tasks it returns an error. It may be called
// twice.
func (w *Worker) Close() error {
	w.shutDown(ErrClosed)
	<-w.done
	if errors.Is(w.err, errTasksLeft) {
		return w.err
	}
	return nil
}

// Retire shuts the worker down gracefully: it takes no more tasks, the scheduler moves its data to other workers, then
// it closes. If ctx ends before, it closes at once and returns the cause: data may then be lost, and is computed again.
// The commands call it on SIGTERM.
func (w *Worker) Retire(ctx context.Context) error {
	// The scheduler removes the worker and ends its stream: the worker must not reconnect.
	w.closing.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := w.currentSession()
	if s == nil {
		cancel(errNoScheduler)
	} else {
		w.log.Info("worker retiring", "address", w.address)
		// The stream may end before the reply arrives. A scheduler that crashed sends no reply.
		defer context.AfterFunc(s.Over(), func() {
			time.AfterFunc(replyTime, func() { cancel(errNoScheduler) })
		})()
	}
	args := msgpack.MapOf("workers", []any{w.address}, "close_workers", false, "remove", true, "stimulus_id",
		"worker-close-gracefully-"+w.id)
	if s != nil && s.Millstream {
		args.Set("incarnation", w.incarnation) // Dask's scheduler has no such argument
	}
	err := w.scheduler.Call(ctx, "retire_workers", args, nil)
	select {
	case <-w.done: // closed concurrently
		return nil
	default:
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = fmt.Errorf("worker: %s closed without moving its data: %w", w.address, err)
	}
	return errors.Join(err, w.Close())
}

var errNoScheduler = errors.New("connection to the scheduler lost")

// replyTime is the maximum time between the end of the worker's stream and the scheduler's reply.
const replyTime = time.Second

// shutDownAsync closes the worker from one of its own goroutines, for which shutDown waits.
func (w *Worker) shutDownAsync(err error) { go w.shutDown(err) }

var errTasksLeft = errors.New("tasks still running after their context was canceled")

// shutDown closes the worker, once, in the reverse order of its start.
func (w *Worker) shutDown(err error) {
	w.ending.Do(func() {
		left := w.stop(err)
		w.err = err
		if left > 0 {
			w.err = errors.Join(err, fmt.Errorf("worker: %d %w", left, errTasksLeft))
		}
		w.status.Store(statusClosed)
		w.log.Info("worker closed", "address", w.address, "reason", w.err)
		close(w.done)
	})
}

// stop stops all subsystems and returns the number of tasks that are still running.
func (w *Worker) stop(reason error) (left int64) {
	w.status.Store(statusClosing)
	w.closing.Store(true)
	w.stopTask(reason)
	// Send the queued messages and the end of the stream.
	w.turn.Lock()
	s := w.session
	if s != nil {
		why := ""
		if errors.Is(reason, ErrMemory) {
			why = reason.Error() // caused by tasks: the scheduler counts it as a crash
		}
		w.out.CloseStream(why)
		w.out.Flush(true)
	}
	w.session, w.out.Writer = nil, nil
	w.turn.Unlock()
	if w.sidecar != nil {
		w.sidecar.Close(closeTime / 2)
	}
	if s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		_ = s.Send.Shutdown(ctx)
		cancel()
	}
	w.cancel(reason)
	if w.http != nil {
		w.http.Close()
	}
	if w.server != nil {
		_ = w.server.Close()
	}
	if w.transfers != nil {
		w.transfers.StopServing()
	}
	_ = w.host.Close()
	if w.transfers != nil {
		w.transfers.Close()
	}
	if w.scheduler != nil {
		w.scheduler.Close()
	}
	close(w.stopped)
	if !waitFor(&w.tasks, closeTime) {
		if left = 1; w.exec != nil {
			left = max(1, w.exec.Active())
		}
	}
	for _, i := range w.inbox.close() {
		if i.msg != nil {
			i.msg.Release()
		}
	}
	w.gpu.Close()
	if w.memory != nil {
		w.memory.Close()
	}
	if err := w.table.Close(); err != nil { // after the results that it refers to
		w.log.Warn("cannot release the table of GPU results", "error", err)
	}
	return left
}

// waitFor waits for all goroutines of a group, at most for limit, and reports whether they have ended.
func waitFor(group *sync.WaitGroup, limit time.Duration) bool {
	all := make(chan struct{})
	go func() {
		group.Wait()
		close(all)
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-all:
		return true
	case <-t.C:
		return false
	}
}

// retireAsync retires the worker from one of its own goroutines, for which shutDown waits.
func (w *Worker) retireAsync() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*closeTime)
		defer cancel()
		_ = w.Retire(ctx)
	}()
}
