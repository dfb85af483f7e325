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

// maxSuspects bounds the memory of tasks that had a part in deaths.
const maxSuspects = 10_000

// notRun returns what becomes of a task whose process did not answer. If it died, the task is given back to the
// scheduler, as if it had been on a worker that died; one that was there too often fails, as Dask's KilledWorker says.
func (s *Sidecar) notRun(key task.Key, err error) error {
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
		s.log.Error("a task fails: the Python process died again and again while it ran", "key", key.String(), "deaths",
			n)
		return killedWorker(key, s.w.Address(), allowed)
	}
	s.log.Warn("a task is given back: the Python process died while it ran", "key", key.String(), "deaths", n,
		"allowed", allowed)
	return errors.Join(task.ErrReschedule, err)
}

// cleared forgets that a task had a part in deaths, now that it has ended well.
func (s *Sidecar) cleared(key task.Key) {
	s.mu.Lock()
	if len(s.suspects) > 0 {
		delete(s.suspects, key)
	}
	s.mu.Unlock()
}

// killedWorker is distributed.KilledWorker, as far as people read it: Dask's has the state
// of the last worker there, of which it shows the address.
func killedWorker(key task.Key, address string, allowed int) error {
	last := pickle.Call(pickle.Global{Module: "types", Name: "SimpleNamespace"})
	last.Steps = append(last.Steps, pickle.Step{Kind: pickle.Build, Value: pickle.NewDict("address", address)})
	call := pickle.Call(pickle.Global{Module: "distributed.scheduler", Name: "KilledWorker"}, pickleKey(key.Value()),
		last, int64(allowed))
	text := fmt.Sprintf("KilledWorker: the Python process of a worker died %d times while %v ran; the last was that "+
		"of %s", allowed+1, key, address)
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

// pickleKey is a task's key as pickles have it: lists of msgpack are tuples.
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
