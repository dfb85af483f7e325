package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// slowPackage is a package whose __init__ first imports a submodule, takes some time, and then registers what the
// submodule needs, as dask.array does with dask.array.core and its dispatch tables.
var slowPackage = map[string]string{
	// begun reports to the test that an import has begun, and takes some time.
	"begun.py":            "import os, time\nopen(os.environ['BEGUN'], 'w').close()\ntime.sleep(1)\n",
	"slowpkg/__init__.py": "from slowpkg import core\nimport begun\nfrom slowpkg import backends\n",
	"slowpkg/core.py": "table = {}\ndef convert(x):\n    if type(x) not in table:\n        raise " +
		"TypeError(f'No dispatch for {type(x)}')\n    return table[type(x)](x)\n",
	"slowpkg/other.py":       "from slowpkg.core import convert\n",
	"slowpkg/inner/other.py": "from slowpkg.inner.leaf import first\n",
	"slowpkg/backends.py":    "from slowpkg.core import table\ntable[int] = lambda x: x + 1\n",
	"slowpkg/inner/__init__.py": "from slowpkg.inner import leaf\nimport importlib, " +
		"begun\nimportlib.reload(begun)\nleaf.ready.append(1)\n",
	"slowpkg/inner/leaf.py": "ready = []\ndef first(x):\n    return x + ready[0]\n",
	"threadedpkg/__init__.py": "import threading, begun\nt = threading.Thread(target=lambda: " +
		"__import__('threadedpkg.leaf', fromlist=['value']))\nt.start()\nt.join()\n",
	"threadedpkg/leaf.py":  "def value(x):\n    return x + 1\n",
	"circle_a/__init__.py": "from circle_a import x\nimport begun\nimport circle_b.x\nready = 1\n",
	"circle_a/x.py":        "def value(x):\n    return x + 1\n",
	"circle_b/__init__.py": "from circle_b import x\nimport time\ntime.sleep(0.2)\nimport circle_a.x\nready = 1\n",
	"circle_b/x.py":        "def value(x):\n    return x + 1\n",
}

// Threads that import a package for the first time concurrently all get the whole package, whether they unpickle a
// function of a submodule or import it in a task. Each round has a new worker.
func TestSidecarFirstImports(t *testing.T) {
	root := t.TempDir()
	for name, text := range slowPackage {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const threads = 8
	d := direct(t, "tcp://127.0.0.1:0")
	p := python(t)
	p.Env = append(os.Environ(), "PYTHONPATH="+root)
	rounds := []struct {
		name string
		make func(i int, key string) any
	}{
		{"unpickled", func(i int, key string) any {
			return pyCall(key, []string{"slowpkg.other", "slowpkg.core"}[min(i, 1)], "convert", int64(i))
		}},
		{"unpickled, two levels", func(i int, key string) any {
			return pyCall(key, []string{"slowpkg.inner.other", "slowpkg.inner.leaf"}[min(i, 1)], "first", int64(i))
		}},
		{"imported in the task", func(i int, key string) any {
			return pyTask(t, key, "lambda x: __import__('slowpkg.core', fromlist=['convert']).convert(x)", int64(i))
		}},
		{"imported by name", func(i int, key string) any {
			return pyTask(t, key, "lambda x: __import__('importlib').import_module('slowpkg.core').convert(x)",
				int64(i))
		}},
		{"one of each", func(i int, key string) any {
			if i%2 == 0 {
				return pyCall(key, "slowpkg.core", "convert", int64(i))
			}
			return pyTask(t, key, "lambda x: (exec('from slowpkg.core import convert', globals()), convert(x))[1]",
				int64(i))
		}},
		{"a package that imports itself in a thread", func(i int, key string) any {
			return pyTask(t, key, "lambda x: __import__('threadedpkg').leaf.value(x)", int64(i))
		}},
		{"packages that import each other", func(i int, key string) any {
			return pyCall(key, []string{"circle_a.x", "circle_b.x"}[i%2], "value", int64(i))
		}},
	}
	run := int64(0)
	for n, round := range rounds {
		t.Run(round.name, func(t *testing.T) {
			p, begun := p, filepath.Join(t.TempDir(), "begun")
			p.Env = append(slices.Clone(p.Env), "BEGUN="+begun)
			w, seen := d.worker(t, worker.Config{Threads: threads, Python: p})
			var orders []msgpack.Map
			for i := range threads {
				run++
				key := fmt.Sprintf("task-%d-%d", n, i)
				m := compute(key, run, nil, nil)
				m.Set("run_spec", round.make(i, key))
				orders = append(orders, m)
			}
			seen.send(t, orders[0])
			until(t, "the import has begun", func() bool { _, err := os.Stat(begun); return err == nil })
			seen.send(t, orders[1:]...)
			for range threads {
				m := seen.receiveAny(t, "task-finished", "task-erred")
				if m.GetString("op") == "task-erred" {
					t.Errorf("%s: got %s, want a result\n%s", m.GetString("key"), m.GetString("exception_text"),
						m.GetString("traceback_text"))
					continue
				}
				var round, i int
				if _, err := fmt.Sscanf(m.GetString("key"), "task-%d-%d", &round, &i); err != nil {
					t.Fatal(err)
				}
				key := m.GetString("key")
				if v := value(t, d.fetch(t, w.Address(), key), key); v != int64(i+1) {
					t.Errorf("%s: got %v, want %d", key, v, i+1)
				}
			}
		})
	}
}

// pyCall returns the call of a function that Python imports when the task is unpickled.
func pyCall(key, module, name string, args ...any) wire.ToPickle {
	items := []pickle.Value{key, pickle.Global{Module: module, Name: name}}
	items = append(items, args...)
	return wire.ToPickle{Value: pickle.Call(pickle.Global{Module: "dask._task_spec", Name: "Task"}, items...)}
}

// Exceptions that end a Python process end the sidecar and count as its crash; other exceptions, whatever happens when
// they are pickled, are the error of the task.
func TestSidecarFatalExceptions(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	p := python(t)
	p.AllowedFailures = 1
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "exits.py"), []byte("async def coroutine():\n    raise SystemExit(1)\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	p.Env = append(os.Environ(), "PYTHONPATH="+root)
	w, seen := d.worker(t, worker.Config{Threads: 2, Python: p})
	throw := func(e string) string { return "lambda: (_ for _ in ()).throw(" + e + ")" }
	run := int64(0)
	for _, c := range []struct{ name, source string }{
		{"SystemExit", "lambda: __import__('sys').exit(3)"},
		{"KeyboardInterrupt", throw("KeyboardInterrupt()")},
		{"coroutine", ""},
		{"exception whose repr exits",
			throw("type('Mine', (Exception,), {'__repr__': lambda s: __import__('sys').exit()})()")},
	} {
		t.Run(c.name, func(t *testing.T) {
			order := compute(c.name, 0, nil, nil)
			order.Set("run_spec", pyCall(c.name, "exits", "coroutine"))
			if c.source != "" {
				order.Set("run_spec", pyTask(t, c.name, c.source))
			}
			tell := func(want string) msgpack.Map {
				run++
				order.Set("run_id", run)
				seen.send(t, order)
				m := seen.receiveAny(t, "reschedule", "task-erred", "task-finished")
				if got := m.GetString("op"); m.GetString("key") != c.name || got != want {
					t.Errorf("got %v, want %s of %s", m, want, c.name)
				}
				return m
			}
			tell("reschedule")
			if c.name == "SystemExit" {
				x, _ := tell("task-erred").Get("exception")
				if text := fmt.Sprintf("%s", x); !strings.Contains(text, "KilledWorker") {
					t.Errorf("second crash: got %s, want KilledWorker", text)
				}
			}
		})
	}
	for _, c := range []struct{ name, source, want string }{
		{"GeneratorExit", throw("GeneratorExit('g')"), "GeneratorExit"},
		{"CancelledError", throw("__import__('asyncio').CancelledError('c')"), "CancelledError"},
		{"BaseException", throw("BaseException('b')"), "BaseException"},
		{"does not unpickle", throw("type('Mine', (Exception,), {'__reduce__': lambda s: (int, ('x',))})('m')"),
			"Mine"},
		{"does not pickle", throw("type('Mine', (Exception,), {'__reduce__': lambda s: 1 / 0})('m')"), "Mine"},
		{"repr raises", throw("type('Mine', (Exception,), {'__repr__': lambda s: 1 / 0})('m')"), "Mine"},
		{"repr raises BaseException",
			throw("type('Mine', (Exception,), {'__repr__': lambda s: (_ for _ in ()).throw(GeneratorExit)})('m')"),
			"Mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run++
			seen.send(t, pyCompute(t, c.name, run, c.source))
			m := seen.receiveAny(t, "reschedule", "task-erred", "task-finished")
			if got := m.GetString("exception_text"); m.GetString("op") != "task-erred" ||
				!strings.Contains(got, c.want) {
				t.Errorf("got %v, want an error that names %s", m, c.want)
			}
		})
	}
	if v := d.run(t, w.Address(), "lambda: 1"); v != int64(1) {
		t.Errorf("run after that: got %v, want 1", v)
	}
	dump := func(v pickle.Value) []byte {
		b, err := pickle.Dump(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	exit := pickle.Global{Module: "sys", Name: "exit"}
	if err := d.pool.Call(testContext(t), w.Address(), "run", msgpack.MapOf("function", dump(exit), "args",
		dump(pickle.Tuple{}), "kwargs", dump(pickle.NewDict()), "wait", true), new(msgpack.Map)); err == nil ||
		!strings.Contains(err.Error(), "died") {
		t.Errorf("client.run(sys.exit): got %v, want an error about the end of the process", err)
	}
	if v := d.run(t, w.Address(), "lambda: 2"); v != int64(2) {
		t.Errorf("run after the exit: got %v, want 2", v)
	}
}
