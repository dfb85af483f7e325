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

var errStreamClosed = errors.New("the scheduler ended the stream")

// The turn: whoever holds w.turn owns the state machine, the stream's reader and the
// outgoing batch. That is the loop's goroutine, or an executor that has just finished a
// task: it then takes the next one itself, without waking anybody.

// loop handles what is in the inbox until the worker ends.
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

// do runs a function in a turn and waits for it. It reports false when the worker has ended.
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

// drain handles all items that are there. The caller holds the turn.
func (w *Worker) drain(by *execution.Executor) {
	for by == nil || !by.Busy() { // one that has a task to run leaves the rest to the loop
		w.items = w.inbox.take(w.items)
		if len(w.items) == 0 {
			break
		}
		for i := range w.items {
			w.handle(&w.items[i])
		}
	}
}

// begin starts a turn. Its stimulus names it in the scheduler's log.
func (w *Worker) begin(by *execution.Executor) {
	w.now = time.Now()
	w.exec.Begin(by, w.now)
	w.turns++
	b := append(w.stimulusText[:0], "worker-"...)
	b = strconv.AppendInt(b, w.turns, 10)
	w.stimulusText = b
	w.stimulus = msgpack.Borrow(b) // every use of it copies
}

// finish ends a turn and sends what was said. While every thread has a task to run it may wait for more, half
// a millisecond: nobody here is idle for want of an answer.
func (w *Worker) finish() {
	w.out.Flush(!w.exec.Full())
	w.exec.End()
}

func (w *Worker) handle(i *item) {
	switch {
	case i.msg != nil:
		if i.session == w.session {
			if err := w.walk(i.msg); err != nil {
				i.session.Fail(err)
			}
		}
		i.session.Release(i.msg)
	case i.run != nil:
		w.runEnded(i.run)
	case i.fetch != nil:
		w.fetchEnded(i.fetch)
	case i.call != nil:
		i.call()
	}
}

// apply tells the state of an event and does what it answers.
func (w *Worker) apply(ev state.Event) {
	w.state.Apply(w.now, ev, &w.actions)
	list := w.actions.List()
	for i := range list {
		w.act(&list[i])
	}
}

// send adds a message that the state asks for to the turn's batch.
func (w *Worker) send(a *state.Action) {
	switch a.Kind {
	case state.SendTaskFinished:
		p := w.exec.Parts(a.Task)
		w.out.Finished(a.Task, a.RunID, w.sidecar.Class(a.Task.TypeName()), &p, w.stimulus)
	case state.SendTaskErred:
		p := w.exec.Parts(a.Task)
		w.out.Erred(a.Task, a.RunID, &p, w.stimulus)
	default:
		w.out.Action(a, w.stimulus)
	}
}

// dataLost forgets a result that cannot be read back from disk. The caller holds the turn.
func (w *Worker) dataLost(key task.Key, err error) {
	w.log.Error("a spilled result is lost", "key", key.String(), "error", err)
	w.apply(&state.DataLost{Stimulus: w.stimulus, Key: key})
}

// after runs a function in a turn, later, unless the worker has ended.
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
