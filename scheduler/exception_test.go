package scheduler

import (
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Python receives Dask's exceptions, created with the arguments of their constructors.
func TestPythonExceptions(t *testing.T) {
	s := start(t, Config{})
	key, err := task.KeyOf([]any{"x", int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[state.FailureKind]string{
		state.KilledWorker:  "KilledWorker(('x', 1), types.SimpleNamespace() | state {'address': 'tcp://a:1'}, 3)",
		state.NoValidWorker: "NoValidWorkerError(('x', 1), set(), set(), {}, 0.0)",
		state.NoWorkers:     "NoWorkerError(('x', 1), 0.0)",
		state.ActorLost:     "RuntimeError('it says why')",
	} {
		err := s.loop.Do(t.Context(), func() {
			exc, _ := s.writer.Exception(&state.Failure{Kind: kind, Key: key, Worker: "tcp://a:1",
				ExceptionText: "it says why", Cause: "exit code 3"}, false)
			v, err := exc.Decode(wire.DecodeOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			tree, err := pickle.Load(v.([]byte), nil, pickle.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			o, _ := tree.(*pickle.Object)
			if o == nil {
				t.Errorf("exception of %v: got %s, want an object", kind, pickle.Repr(tree))
				return
			}
			name, _ := o.Func.(pickle.Global)
			args := pickle.Repr(o.Args)
			if len(o.Args) == 1 {
				args = "(" + pickle.Repr(o.Args[0]) + ")"
			}
			if got := name.Name + args; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if notes := "{'__notes__': ['The last worker ended with: exit code 3']}"; kind == state.KilledWorker &&
				(len(o.Steps) != 1 || pickle.Repr(o.Steps[0].Value) != notes) {
				t.Errorf("got notes %v, want %s", o.Steps, notes)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
