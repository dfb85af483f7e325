package sidecar

import (
	"errors"
	"fmt"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// maxSuspects bounds the number of tasks whose crashes are counted.
const maxSuspects = 10_000

// runError returns the error of a task that err ended. If the process died, the task is returned to the scheduler, as
// if it had been on a worker that died; a task during which too many processes died fails with Dask's KilledWorker.
func (s *Sidecar) runError(key task.Key, err error) error {
	if !errors.Is(err, pyproc.ErrExited) || s.w.Tasks.Err() != nil {
		return err
	}
	allowed := s.cfg.AllowedFailures
	s.mu.Lock()
	if len(s.suspects) >= maxSuspects {
		clear(s.suspects)
	}
	s.suspects[key]++
	n := s.suspects[key]
	if n > allowed {
		delete(s.suspects, key)
	}
	s.mu.Unlock()
	if n > allowed {
		s.log.Error("task failed: Python process died too often while the task ran", "key", key.String(),
			"deaths", n)
		return killedWorker(key, s.w.Address(), allowed)
	}
	s.log.Warn("task returned to the scheduler: Python process died while the task ran", "key", key.String(),
		"deaths", n, "allowed", allowed)
	return errors.Join(task.ErrReschedule, err)
}

// clearSuspect resets the count of a task that has succeeded.
func (s *Sidecar) clearSuspect(key task.Key) {
	s.mu.Lock()
	if len(s.suspects) > 0 {
		delete(s.suspects, key)
	}
	s.mu.Unlock()
}

// killedWorker returns a distributed.KilledWorker. Dask's contains the state of the last worker, of which it shows only
// the address.
func killedWorker(key task.Key, address string, allowed int) error {
	last := pickle.Call(pickle.Global{Module: "types", Name: "SimpleNamespace"})
	last.Steps = append(last.Steps, pickle.Step{Kind: pickle.Build, Value: pickle.NewDict("address", address)})
	call := pickle.Call(pickle.Global{Module: "distributed.scheduler", Name: "KilledWorker"}, pickleKey(key.Value()),
		last, int64(allowed))
	text := fmt.Sprintf("KilledWorker: Python process of a worker died %d times while %v ran; last on %s", allowed+1,
		key, address)
	data, err := pickle.Dump(call)
	if err != nil {
		return errors.New(text)
	}
	s, err := wire.EncodeValue(data, wire.EncodeOptions{})
	if err != nil {
		return errors.New(text)
	}
	return &Error{&state.Failure{Exception: s, ExceptionText: text}}
}

// pickleKey returns the key of a task for a pickle: lists of msgpack are tuples.
func pickleKey(v any) pickle.Value {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := pickle.Tuple{}
	for _, x := range list {
		out = append(out, pickleKey(x))
	}
	return out
}
