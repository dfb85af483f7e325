package worker

import (
	"fmt"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/execution"
)

// executionConfig returns the configuration of the execution of tasks.
func (w *Worker) executionConfig() execution.Config {
	return execution.Config{Threads: w.cfg.Threads, CancelGrace: w.cfg.CancelGrace, Records: w.cfg.Records,
		Logger: w.log,
		Memory: w.memory, Sidecar: w.sidecar, Host: &w.host,
		Profile: profile.Config{Interval: w.cfg.ProfileInterval, Cycle: w.cfg.ProfileCycle,
			Length: w.cfg.ProfileLength},
		Worker: execution.Worker{
			Tasks:   w.taskCtx,
			Stopped: w.stopped,
			Go:      w.tasks.Go,
			Closed:  ErrClosed,
			NoPython: func() error {
				return fmt.Errorf("worker: Go worker %s cannot run Python tasks: %w; or keep such tasks on other "+
					"workers (workers= or resources=, or millstream.install(client))", w.address, w.noPython)
			},
			Do: w.do,
			Locked: func(f func()) {
				w.turn.Lock()
				defer w.turn.Unlock()
				f()
			},
			Apply:     w.apply,
			Stimulus:  func() string { return w.stimulus },
			FinishRun: w.finishRun,
			ReturnRun: w.returnRun,
			Post:      func(r *execution.Run) { w.inbox.put(item{run: r}) },
		}}
}

// returnRun applies the result of a run. The executor takes the next task at once, unless another goroutine holds the
// turn.
func (w *Worker) returnRun(e *execution.Executor, r *execution.Run) {
	if !w.turn.TryLock() {
		w.inbox.put(item{run: r})
		return
	}
	w.begin(e)
	w.finishRun(r)
	w.drain(e)
	w.finish()
	w.turn.Unlock()
}

// finishRun applies the result of a run. The caller holds the turn.
func (w *Worker) finishRun(r *execution.Run) {
	ev, lost := w.exec.Finish(r, w.stimulus)
	if lost != "" {
		w.reportDataLost(lost, r.Err())
	}
	w.apply(ev)
	w.exec.ClearFinished()
}

// perform carries out an action of the state. The caller holds the turn.
func (w *Worker) perform(a *state.Action) {
	switch a.Kind {
	case state.DoExecute:
		w.exec.Execute(a.Task)
	case state.DoCancel:
		w.exec.Cancel(a.Key)
	case state.DoGather:
		keys := make([]task.Key, len(a.Tasks))
		for i, t := range a.Tasks {
			keys[i] = t.Key()
		}
		w.transfers.Start(a.Peer.Address(), keys)
	case state.DoRetryBusy:
		peer := a.Peer.Address()
		w.after(a.After, func() { w.apply(&state.RetryBusy{Stimulus: w.stimulus, Peer: peer}) })
	case state.DoDelete:
		w.data.Delete(a.Key)
		w.exec.Forget(a.Key)
	default:
		if w.session != nil {
			w.send(a)
		}
	}
}
