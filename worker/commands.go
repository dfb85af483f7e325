package worker

import (
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/transfer"
)

// applyBatch applies all messages of a batch. An error means a violation of the protocol, and ends the session. The
// caller holds the turn.
func (w *Worker) applyBatch(m *wire.Message) error {
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
		if err := w.handleMessage(&ops, m); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return ops.Err()
}

// handleMessage handles any message other than compute-task.
func (w *Worker) handleMessage(ops *message.Ops, m *wire.Message) error {
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
		w.changeStatus(f.Status)
	case "millstream-values":
		return w.storeValues(ops, m)
	case "close":
		var f message.Close
		if err := f.Read(ops); err != nil {
			return err
		}
		w.closeByScheduler(f.Reason)
	case "close-stream":
		return errStreamClosed
	case "":
		return errors.New("message without an op")
	default:
		raw, err := ops.Raw()
		if err != nil {
			return err
		}
		if w.sidecar != nil && w.sidecar.ForwardMessage(raw, m) {
			return nil
		}
		// Unknown messages are ignored, as by Dask workers: closing the worker would lose its data.
		w.log.Warn("unknown op from scheduler", "op", string(ops.Op()))
	}
	return nil
}

// storeValues handles millstream-values: results that the scheduler passes on, so that the worker need not fetch them.
// The caller holds the turn.
func (w *Worker) storeValues(ops *message.Ops, m *wire.Message) error {
	var f message.StoreValues
	if err := f.Read(ops); err != nil {
		return err
	}
	r := msgpack.NewReader(f.Data)
	values, stored, err := transfer.ReadValues(m, &r, nil)
	if err != nil {
		return err
	}
	for i, v := range values {
		w.data.Put(stored[i].Key, v, stored[i].NBytes)
	}
	w.apply(&state.UpdateData{Stimulus: f.StimulusID, Data: stored, Passed: true})
	return nil
}

// changeStatus handles worker-status-change: the scheduler stops the worker from taking tasks before it retires, or
// lets it continue. The caller holds the turn.
func (w *Worker) changeStatus(status string) {
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
		w.log.Warn("invalid status from scheduler", "status", status)
		return
	}
	w.out.Status(w.Status(), w.stimulus)
}

// closeByScheduler handles the message close of the scheduler. The caller holds the turn.
func (w *Worker) closeByScheduler(reason string) {
	if reason == "" {
		reason = "no reason given"
	}
	err := fmt.Errorf("%w: %s", ErrSchedulerClosed, reason) // copies reason
	if reason == "restart" || strings.HasPrefix(reason, "worker-ttl") {
		// The scheduler considered the worker dead, although it is alive: it must be replaced.
		err = errors.Join(err, ErrRestart)
	}
	w.closing.Store(true) // the end of the stream is expected
	w.shutDownAsync(err)
}

// setPaused pauses or resumes the start of tasks.
func (w *Worker) setPaused(paused bool, used int64) {
	w.do(func() {
		if w.paused == paused {
			return
		}
		w.paused = paused
		if paused {
			w.log.Warn("task execution paused: memory above threshold", "used", used, "limit",
				w.cfg.MemoryLimit)
		} else {
			w.log.Info("task execution resumed: memory below threshold", "used", used, "limit", w.cfg.MemoryLimit)
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
