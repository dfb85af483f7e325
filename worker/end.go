package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// closeTime bounds the parts of the end that wait for others: what was said last to the
// scheduler, answers under way, and tasks that do not heed their context.
const closeTime = 5 * time.Second

// Close ends the worker: tasks are cancelled, data is dropped, the scheduler is told. It is
// idempotent and waits until nothing is left, but not for tasks that do not heed their
// context: of them the error tells.
func (w *Worker) Close() error {
	w.end(ErrClosed)
	<-w.done
	if errors.Is(w.err, errTasksLeft) {
		return w.err
	}
	return nil
}

// Retire ends the worker gracefully: it takes no more tasks, the scheduler moves its data
// to other workers, then it closes. If ctx ends before, it closes at once and returns the
// reason: then data may be lost, and is computed again. It is what SIGTERM asks for.
func (w *Worker) Retire(ctx context.Context) error {
	// The scheduler forgets the worker and ends its stream: it is not to come back.
	w.closing.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := w.currentSession()
	if s == nil {
		cancel(errNoScheduler)
	} else {
		w.log.Info("retiring: data moves to other workers first", "address", w.address)
		// The end of the stream may come before the reply. A scheduler that died sends none.
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
	case <-w.done: // somebody was faster
		return nil
	default:
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		err = fmt.Errorf("worker: %s ended without moving its data: %w", w.address, err)
	}
	return errors.Join(err, w.Close())
}

var errNoScheduler = errors.New("the connection to the scheduler is lost")

// replyTime is how long the reply of a scheduler may take after the end of the worker's stream.
const replyTime = time.Second

// endLater ends the worker from one of its own goroutines, which the end waits for.
func (w *Worker) endLater(err error) { go w.end(err) }

var errTasksLeft = errors.New("tasks that do not heed their context are still running")

// end ends the worker, once, in the reverse order of its start.
func (w *Worker) end(err error) {
	w.ending.Do(func() {
		left := w.stop(err)
		w.err = err
		if left > 0 {
			w.err = errors.Join(err, fmt.Errorf("worker: %d %w", left, errTasksLeft))
		}
		w.status.Store(statusClosed)
		w.log.Info("worker ended", "address", w.address, "reason", w.err)
		close(w.done)
	})
}

func (w *Worker) stop(reason error) (left int64) {
	w.status.Store(statusClosing)
	w.closing.Store(true)
	w.stopTask(reason)
	// The last words: what is queued, and that the stream is over.
	w.turn.Lock()
	s := w.session
	if s != nil {
		why := ""
		if errors.Is(reason, ErrMemory) {
			why = reason.Error() // tasks are to blame: the scheduler counts it as a death
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
	if w.memory != nil {
		w.memory.Close()
	}
	return left
}

// waitFor waits for all goroutines of a group, but no longer than a limit, and reports whether they have ended.
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

// retireLater retires the worker from one of its own goroutines, which the end waits for.
func (w *Worker) retireLater() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*closeTime)
		defer cancel()
		_ = w.Retire(ctx)
	}()
}
