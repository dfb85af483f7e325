package worker

import (
	"bytes"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// aRun is a run whose answer of the sidecar is read.
func aRun() (*run, *incarnation) {
	w := &Worker{}
	w.sidecar = &sidecar{w: w, suspects: map[task.Key]int{}}
	return &run{w: w, key: task.NewKey("k")}, &incarnation{s: w.sidecar, values: map[uint64]*pyValue{}}
}

func answer(t testing.TB, parts ...any) []byte {
	b, err := msgpack.Append(nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnswersOfTheSidecar(t *testing.T) {
	r, inc := aRun()
	if err := r.ran(inc, 2, &pyproc.Message{Body: answer(t, 0, 1.5, 2.5, 7, 28, "int", []byte("T"), true, 5)}); err != nil {
		t.Fatal(err)
	}
	if v, _ := r.result.Live(); v != int64(5) || r.nbytes != 28 || r.typeName != "int" || r.start != 1_500_000_000 || r.stop != 2_500_000_000 {
		t.Errorf("%v %+v", v, r)
	}
	if string(r.w.pyTypes.of("int")) != "T" {
		t.Error("the class is not remembered")
	}
	r, inc = aRun()
	if err := r.ran(inc, 4, &pyproc.Message{Body: answer(t, 0, 1.5, 2.5, 7, 28, "X", []byte("T"), false, nil)}); err != nil {
		t.Fatal(err)
	}
	if v, ok := r.result.Remote().(*pyValue); !ok || v.handle != 4 || inc.values[4] != v || r.result.Type() != "X" {
		t.Errorf("%+v", r.result)
	}
	if lost := inc.lose(); len(lost) != 1 || lost[0].key != r.key {
		t.Errorf("lost %v", lost)
	}
	header := answerHeader(t)
	err := r.ran(inc, 6, &pyproc.Message{Body: answer(t, 1, 1.5, 2.5, 7, "E('x')", "trace", 2, 0), Frames: [][]byte{header, []byte("e")}})
	if f := failure(err); f.ExceptionText != "E('x')" || f.TracebackText != "trace" || f.Exception.(*wire.Serialized).Size() == 0 || f.Traceback != nil {
		t.Errorf("%v: %+v", err, f)
	}
	if err := r.ran(inc, 8, &pyproc.Message{Body: answer(t, 2, 1.5, 2.5, 7)}); err != task.ErrReschedule {
		t.Error(err)
	}
}

func answerHeader(t testing.TB) []byte {
	b, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "num-sub-frames", 1))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What a sidecar says is what its users' code made of it: nothing of it takes the worker
// down, and nothing of it is believed that cannot be.
func FuzzAnswersOfTheSidecar(f *testing.F) {
	f.Add(answer(f, 0, 1.5, 2.5, 7, 28, "int", []byte("T"), true, 5), answerHeader(f))
	f.Add(answer(f, 0, 1.5, 2.5, 7, -1, "int", []byte("T"), false, nil), answerHeader(f))
	f.Add(answer(f, 1, 1.5, 2.5, 7, "E('x')", "trace", 1, 0), answerHeader(f))
	f.Add(answer(f, 1, 1.5, 2.5, 7, "E('x')", "trace", 1<<60, 1<<60), []byte{})
	f.Add(answer(f, 2, 1e300, -1.0, 7), []byte{0xc1})
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, body, frame []byte) {
		r, inc := aRun()
		err := r.ran(inc, 2, &pyproc.Message{Body: body, Frames: [][]byte{frame}})
		if err == nil && (r.result == nil || r.nbytes < 0 || r.stop < r.start) {
			t.Errorf("%x: %+v", body, r)
		}
		if err != nil {
			_ = failure(err)
		}
		var a sideArgs
		_ = a.read(body)
		_ = failedPlugins(body)
		_, _ = serializedOf([][]byte{frame})
	})
}

func TestKilledWorker(t *testing.T) {
	f := failure(killedWorker(task.NewKey("k"), "tcp://a:1", 3))
	s, ok := f.Exception.(*wire.Serialized)
	if !ok || !strings.Contains(f.ExceptionText, "4 times") {
		t.Fatalf("%+v", f)
	}
	v, err := s.Decode(wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := v.([]byte)
	if !bytes.Contains(b, []byte("KilledWorker")) || !bytes.Contains(b, []byte("tcp://a:1")) {
		t.Errorf("%q", b)
	}
	var _ *state.Failure = f
}

func TestKeyPrefix(t *testing.T) {
	for key, want := range map[string]string{"inc-1234": "inc", "x": "x", "-a": "-a", "a-b-c": "a-b"} {
		if got := keyPrefix(task.NewKey(key)); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
