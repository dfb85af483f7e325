package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// python returns the configuration of the sidecar in tests.
func python(t testing.TB) worker.Python {
	t.Helper()
	path := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if path == "" {
		path = filepath.Join("..", ".local", "venv", "bin", "python")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no Python with distributed at %s; run scripts/setup peers", path)
	}
	return worker.Python{Enabled: true, Interpreter: path}
}

// of stands for the result of another task among arguments.
type of string

// pyTask returns a Python task as a Dask scheduler sends it: the call of a function that is given by its source.
func pyTask(t testing.TB, key, source string, args ...any) wire.ToPickle {
	t.Helper()
	spec := func(name string, args ...pickle.Value) *pickle.Object {
		return pickle.Call(pickle.Global{Module: "dask._task_spec", Name: name}, args...)
	}
	items := make([]pickle.Value, len(args))
	for i, a := range args {
		if r, ok := a.(of); ok {
			items[i] = spec("TaskRef", string(r))
		} else {
			items[i] = a
		}
	}
	function := spec("Task", nil, pickle.Global{Module: "builtins", Name: "eval"}, source)
	return wire.ToPickle{Value: spec("Task", key, pickle.Global{Module: "dask.utils", Name: "apply"}, function,
		spec("List", items...))}
}

// pyCompute returns the message that assigns a Python task.
func pyCompute(t testing.TB, key string, run int64, source string, args ...any) msgpack.Map {
	t.Helper()
	m := compute(key, run, nil, nil)
	m.Set("run_spec", pyTask(t, key, source, args...))
	deps := msgpack.Map{}
	for _, a := range args {
		if r, ok := a.(of); ok {
			deps.Set(string(r), []any{"tcp://127.0.0.1:1"})
		}
	}
	m.Set("who_has", deps)
	sizes := msgpack.Map{}
	for k := range deps.All() {
		sizes = append(sizes, msgpack.Pair{Key: k, Value: 100})
	}
	m.Set("nbytes", sizes)
	return m
}

// finished waits for the result of a task that must succeed.
func (w *directed) finished(t testing.TB, key string) msgpack.Map {
	t.Helper()
	for {
		m := w.receiveAny(t, "task-finished", "task-erred")
		if m.GetString("key") != key {
			continue
		}
		if m.GetString("op") == "task-erred" {
			t.Fatalf("%s erred: %s\n%s", key, m.GetString("exception_text"), m.GetString("traceback_text"))
		}
		return m
	}
}

// receiveAny waits for the next message with one of the ops.
func (w *directed) receiveAny(t testing.TB, ops ...string) msgpack.Map {
	t.Helper()
	ctx := testContext(t)
	var seen []string
	for {
		select {
		case m := <-w.ops:
			if slices.Contains(ops, m.GetString("op")) {
				return m
			}
			seen = append(seen, fmt.Sprint(m))
		case <-ctx.Done():
			t.Fatalf("got messages %v, want one of %v", seen, ops)
		}
	}
}

// run evaluates a function of the worker in the sidecar: Client.run.
func (d *director) run(t testing.TB, address, source string) any {
	t.Helper()
	dump := func(v pickle.Value) []byte {
		b, err := pickle.Dump(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var reply msgpack.Map
	function := pickle.Call(pickle.Global{Module: "builtins", Name: "eval"}, source)
	d.call(t, address, "run", msgpack.MapOf("function", dump(function), "args", dump(pickle.Tuple{}), "kwargs",
		dump(pickle.NewDict()), "wait", true), &reply)
	if reply.GetString("status") != "OK" {
		t.Fatalf("run: %v", reply)
	}
	x, _ := reply.Get("result")
	return x
}

// kill kills the sidecar of a worker, and returns its pid.
func (d *director) kill(t testing.TB, address string) int {
	t.Helper()
	pid := int(d.run(t, address, "lambda: __import__('os').getpid()").(int64))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the sidecar ends", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	})
	return pid
}
