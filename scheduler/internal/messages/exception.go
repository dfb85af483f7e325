package messages

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
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

// Exception is a failure as Dask's messages have it: what the worker sent or, where no
// worker did, an exception that is made here. Ours get Dask's class by name with a text;
// Python gets it with the arguments that its constructor takes.
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
		s.log.Error("an exception cannot be sent", "error", err)
		return nil, nil
	}
	s.made = madeException{f, ours, exc}
	return exc, nil
}

// pythonException is the call that makes Dask's own exception of a failure; nil for those
// that are made of a text.
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
		// Dask's has the WorkerState there; people read its address.
		last := pickle.Call(pickle.Global{Module: "types", Name: "SimpleNamespace"})
		last.Steps = append(last.Steps, pickle.Step{Kind: pickle.Build, Value: pickle.NewDict("address", f.Worker)})
		killed := call(last, int64(max(s.failures, 0)))
		// Dask's text has no place for the cause: Python prints notes below it.
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
