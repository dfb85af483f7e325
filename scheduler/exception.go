package scheduler

import (
	"go.millstream.dev/scheduler/state"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/pickle"
)

// madeException is the last exception that was made of a failure: many tasks share one.
type madeException struct {
	of   *state.Failure
	ours bool
	is   *wire.Serialized
}

// failureClasses are Dask's classes of the failures that the scheduler finds itself.
var failureClasses = map[state.FailureKind][2]string{
	state.KilledWorker:  {"distributed.scheduler", "KilledWorker"},
	state.NoValidWorker: {"distributed.scheduler", "NoValidWorkerError"},
	state.NoWorkers:     {"distributed.scheduler", "NoWorkerError"},
	state.ActorLost:     {"builtins", "RuntimeError"},
	state.TooLarge:      {"builtins", "MemoryError"},
	state.BadGraph:      {"builtins", "ValueError"},
	state.TaskFailed:    {"builtins", "RuntimeError"},
}

// exception is a failure as Dask's messages have it: what the worker sent or, where no
// worker did, an exception that is made here. Ours get Dask's class by name with a text;
// Python could not build these of a text, and gets a RuntimeError.
func (s *Scheduler) exception(f *state.Failure, ours bool) (exc, trace *wire.Serialized) {
	if f == nil {
		return nil, nil
	}
	if e, ok := f.Exception.(*wire.Serialized); ok {
		t, _ := f.Traceback.(*wire.Serialized)
		return e, t
	}
	if s.made.of == f && s.made.ours == ours {
		return s.made.is, nil
	}
	class := failureClasses[f.Kind]
	text := f.ExceptionText
	if class[0] != "builtins" && !ours {
		class, text = [2]string{"builtins", "RuntimeError"}, class[1]+": "+text
	}
	data, err := wire.PickleException(pickle.NewException(class[0], class[1], text))
	if err == nil {
		exc, err = wire.EncodeValue(data, wire.EncodeOptions{})
	}
	if err != nil {
		s.log.Error("an exception cannot be sent", "error", err)
		return nil, nil
	}
	s.made = madeException{f, ours, exc}
	return exc, nil
}
