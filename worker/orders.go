package worker

import (
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// walk applies all messages of a batch. An error means that the scheduler speaks another protocol, and ends the
// session. The caller holds the turn.
func (w *Worker) walk(m *wire.Message) error {
	ops := message.OpsOf(m)
	for ops.Next() {
		if string(ops.Op()) == "compute-task" {
			ev, err := w.in.Task(&ops, m)
			if err != nil {
				return fmt.Errorf("worker: %w", err)
			}
			w.apply(ev)
			continue
		}
		if err := w.order(&ops, m); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return ops.Err()
}

// order does what any message but compute-task says.
func (w *Worker) order(ops *message.Ops, m *wire.Message) error {
	ev, err := w.in.Event(ops)
	if err != nil {
		return err
	}
	if ev != nil {
		w.apply(ev)
		w.in.Forget()
		if gone, ok := ev.(*state.RemovePeer); ok {
			w.transfers.Forget(gone.Peer)
		}
		return nil
	}
	switch string(ops.Op()) {
	case "worker-status-change":
		var f message.WorkerStatusChange
		if err := f.Read(ops); err != nil {
			return err
		}
		w.orderedStatus(f.Status)
	case "close":
		var f message.Close
		if err := f.Read(ops); err != nil {
			return err
		}
		w.orderedClose(f.Reason)
	case "close-stream":
		return errStreamClosed
	case "":
		return fmt.Errorf("a message without an op")
	default:
		raw, err := ops.Raw()
		if err != nil {
			return err
		}
		if w.sidecar != nil && w.sidecar.Order(raw, m) {
			return nil
		}
		// Unknown orders are not worth a worker's data, as they are to Dask's workers.
		w.log.Warn("the scheduler sent an order that this worker does not know", "op", string(ops.Op()))
	}
	return nil
}

// orderedStatus is the scheduler's worker-status-change: it stops the worker from taking
// work before it retires, or lets it go on. The caller holds the turn.
func (w *Worker) orderedStatus(status string) {
	switch status {
	case statusRetiring:
		w.retiring = true
		w.status.set(statusRetiring)
		w.apply(&state.Pause{Stimulus: w.stimulus})
	case statusRunning, statusPaused:
		w.retiring = false
		if status == statusPaused || w.paused {
			w.status.set(statusPaused)
			w.apply(&state.Pause{Stimulus: w.stimulus})
		} else {
			w.status.set(statusRunning)
			w.apply(&state.Unpause{Stimulus: w.stimulus})
		}
	default:
		w.log.Warn("the scheduler sent a status that a worker cannot take", "status", status)
		return
	}
	w.out.Status(w.Status(), w.stimulus)
}

// orderedClose is the scheduler's close. The caller holds the turn.
func (w *Worker) orderedClose(reason string) {
	if reason == "" {
		reason = "no reason given"
	}
	err := fmt.Errorf("%w: %s", ErrSchedulerClosed, reason) // a copy of the reason
	if reason == "restart" || strings.HasPrefix(reason, "worker-ttl") {
		// Given up for dead, but not: somebody has to take its place.
		err = errors.Join(err, ErrRestart)
	}
	w.closing.Store(true) // the stream's end is not the loss of the scheduler
	w.endLater(err)
}

// setPaused stops or resumes the start of tasks.
func (w *Worker) setPaused(paused bool, used int64) {
	w.do(func() {
		if w.paused == paused {
			return
		}
		w.paused = paused
		if paused {
			w.log.Warn("memory is short: no task is started until it is freed", "used", used, "limit",
				w.cfg.MemoryLimit)
		} else {
			w.log.Info("memory is there again: tasks are started", "used", used, "limit", w.cfg.MemoryLimit)
		}
		if w.retiring {
			return
		}
		if paused {
			w.status.set(statusPaused)
			w.apply(&state.Pause{Stimulus: w.stimulus})
		} else {
			w.status.set(statusRunning)
			w.apply(&state.Unpause{Stimulus: w.stimulus})
		}
		w.out.Status(w.Status(), w.stimulus)
	})
}
