package worker

import (
	"errors"
	"strconv"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/execution"
)

var errStreamClosed = errors.New("scheduler closed the stream")

// The holder of w.turn owns the state machine, the reader of the stream and the outgoing batch. It is the goroutine of
// the loop, or an executor that has just finished a task and takes the next one itself, without waking another
// goroutine.

// loop handles the items of the inbox until the worker closes.
func (w *Worker) loop() {
	for {
		select {
		case <-w.inbox.wake:
		case <-w.stopped:
			return
		}
		w.turn.Lock()
		w.begin(nil)
		w.drain(nil)
		w.finish()
		w.turn.Unlock()
	}
}

// do runs a function in a turn and waits for it. It returns false when the worker has closed.
func (w *Worker) do(f func()) bool {
	select {
	case <-w.stopped:
		return false
	default:
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	w.begin(nil)
	f()
	w.finish()
	return true
}

// drain handles all items of the inbox. The caller holds the turn.
func (w *Worker) drain(by *execution.Executor) {
	for by == nil || !by.Busy() { // an executor with a task to run leaves the rest to the loop
		w.items = w.inbox.take(w.items)
		if len(w.items) == 0 {
			break
		}
		for i := range w.items {
			w.handle(&w.items[i])
		}
	}
}

// begin starts a turn. Its stimulus identifies it in the scheduler's log.
func (w *Worker) begin(by *execution.Executor) {
	w.now = time.Now()
	w.exec.Begin(by, w.now)
	w.turns++
	b := append(w.stimulusText[:0], "worker-"...)
	b = strconv.AppendInt(b, w.turns, 10)
	w.stimulusText = b
	w.stimulus = msgpack.Borrow(b) // every user copies it
}

// finish ends a turn and sends its messages. While every thread has a task to run, messages may be delayed by half a
// millisecond: no thread waits for a reply.
func (w *Worker) finish() {
	w.out.Flush(w.urgent || !w.exec.Full())
	w.urgent = false
	w.exec.End()
}

func (w *Worker) handle(i *item) {
	switch {
	case i.msg != nil:
		if i.session == w.session {
			if err := w.applyBatch(i.msg); err != nil {
				i.session.Fail(err)
			}
		}
		i.session.Release(i.msg)
	case i.run != nil:
		w.finishRun(i.run)
	case i.fetch != nil:
		w.finishFetch(i.fetch)
	case i.call != nil:
		i.call()
	}
}

// apply applies an event to the state and performs the resulting actions.
func (w *Worker) apply(ev state.Event) {
	w.state.Apply(w.now, ev, &w.actions)
	list := w.actions.List()
	for i := range list {
		w.perform(&list[i])
	}
}

// send adds the message of an action to the batch of the turn.
func (w *Worker) send(a *state.Action) {
	switch a.Kind {
	case state.SendTaskFinished:
		p := w.exec.Parts(a.Task)
		// Tasks that were assigned ahead run next. If one of them ends the process, the scheduler must know that this
		// one is done.
		w.urgent = w.urgent || a.Task.NumDependents() > 0
		var value []byte
		if w.session.Millstream {
			value = w.exec.ShortValue(a.Task)
		} else {
			p.Waited = 0
		}
		w.out.Finished(a.Task, a.RunID, w.sidecar.Class(a.Task.TypeName()), value, &p, w.stimulus)
	case state.SendTaskErred:
		if w.taskCtx.Err() != nil {
			return // the worker closes and has canceled its tasks, which run elsewhere
		}
		p := w.exec.Parts(a.Task)
		w.out.Erred(a.Task, a.RunID, &p, w.stimulus)
	default:
		w.out.Action(a, w.stimulus)
	}
}

// reportDataLost removes a result that cannot be read back from disk. The caller holds the turn.
func (w *Worker) reportDataLost(key task.Key, err error) {
	w.log.Error("spilled result lost", "key", key.String(), "error", err)
	w.apply(&state.DataLost{Stimulus: w.stimulus, Key: key})
}

// after runs a function in a turn after d, unless the worker has closed.
func (w *Worker) after(d time.Duration, f func()) {
	w.tasks.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			w.inbox.put(item{call: f})
		case <-w.ctx.Done():
		}
	})
}
