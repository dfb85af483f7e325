package messages

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// madeException is the last exception that was created for a failure: many tasks share one.
type madeException struct {
	of   *state.Failure
	ours bool
	is   *wire.Serialized
}

// failureClasses are the Dask classes of failures that the scheduler detects.
var failureClasses = map[state.FailureKind][2]string{
	state.KilledWorker:  {"distributed.scheduler", "KilledWorker"},
	state.NoValidWorker: {"distributed.scheduler", "NoValidWorkerError"},
	state.NoWorkers:     {"distributed.scheduler", "NoWorkerError"},
	state.ActorLost:     {"builtins", "RuntimeError"},
	state.TooLarge:      {"builtins", "MemoryError"},
	state.BadGraph:      {"builtins", "ValueError"},
	state.TaskFailed:    {"builtins", "RuntimeError"},
}

// Exception returns a failure in the form of Dask messages: the exception of the worker or, if there is none, one that
// is created here. Millstream clients receive the class of Dask by name with a text; Python clients receive it with the
// arguments of its constructor.
func (s *Writer) Exception(f *state.Failure, ours bool) (exc, trace *wire.Serialized) {
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
	var data []byte
	var err error
	if call := s.pythonException(f); call != nil && !ours {
		data, err = pickle.Dump(call)
	} else {
		class := failureClasses[f.Kind]
		data, err = pickle.DumpException(pickle.NewException(class[0], class[1], f.ExceptionText))
	}
	if err == nil {
		exc, err = wire.EncodeValue(data, wire.EncodeOptions{})
	}
	if err != nil {
		s.log.Error("exception not encoded", "error", err)
		return nil, nil
	}
	s.made = madeException{f, ours, exc}
	return exc, nil
}

// pythonException returns the call that creates the Dask exception of a failure; nil for those that consist of a text.
func (s *Writer) pythonException(f *state.Failure) *pickle.Object {
	class := failureClasses[f.Kind]
	if class[0] == "builtins" {
		return nil
	}
	call := func(args ...pickle.Value) *pickle.Object {
		return pickle.Call(pickle.Global{Module: class[0], Name: class[1]},
			append([]pickle.Value{pickleKey(f.Key.Value())}, args...)...)
	}
	wait := s.wait.Seconds()
	switch f.Kind {
	case state.KilledWorker:
		// Dask has the WorkerState there; only its address is of interest.
		last := pickle.Call(pickle.Global{Module: "types", Name: "SimpleNamespace"})
		last.Steps = append(last.Steps, pickle.Step{Kind: pickle.Build, Value: pickle.NewDict("address", f.Worker)})
		killed := call(last, int64(max(s.failures, 0)))
		// The text of Dask does not include the cause; Python prints notes below it.
		note := pickle.NewDict("__notes__", &pickle.List{Items: []pickle.Value{"The last worker ended with: " +
			f.Cause}})
		killed.Steps = append(killed.Steps, pickle.Step{Kind: pickle.Build, Value: note})
		return killed
	case state.NoValidWorker:
		workers, resources := &pickle.Set{}, pickle.NewDict()
		if t := s.state.Task(f.Key); t != nil && t.Annotations() != nil {
			for _, w := range t.Annotations().Workers {
				workers.Items = append(workers.Items, w)
			}
			for _, r := range t.Annotations().Resources {
				resources.Set(r.Name, r.Amount)
			}
		}
		return call(&pickle.Set{}, workers, resources, wait)
	}
	return call(wait)
}

// pickleKey returns a task's key in the form of pickles: lists of msgpack are tuples.
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
