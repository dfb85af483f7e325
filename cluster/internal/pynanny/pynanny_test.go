package pynanny

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/testkit/peerpython"
	"go.millstream.dev/internal/wire/msgpack"
)

// root is the folder of the repository.
const root = "../../.."

// pickled returns the pickle of a Python expression that uses distributed.diagnostics.plugin.
func pickled(t *testing.T, expression string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), peerpython.Path(t, root), "-c", `
import base64, cloudpickle, sys
from distributed.diagnostics.plugin import *
sys.stdout.write(base64.b64encode(cloudpickle.dumps(`+expression+`)).decode())`).Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// record stores calls of functions of the nanny, and log lines.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

// Write stores the lines of a log.
func (r *record) Write(b []byte) (int, error) {
	r.add(string(bytes.TrimSpace(b)))
	return len(b), nil
}

func helper(t *testing.T, calls *record, preload string, argv ...string) *Helper {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		Interpreter: peerpython.Path(t, root), Env: os.Environ(), PreloadArgv: argv,
		Settings: func() msgpack.Map {
			return msgpack.MapOf("scheduler", "tcp://127.0.0.1:1", "address", "tcp://127.0.0.1:2", "host", "127.0.0.1",
				"name", "alice", "nthreads", 2, "memory_limit", 1<<30, "directory", dir, "resources",
				msgpack.Map{}, "security", msgpack.Map{}, "death_timeout", 0.0, "preload", []string{}, "preload_argv",
				[]string{})
		},
		Nanny: Nanny{
			Info: func() msgpack.Map {
				return msgpack.MapOf("address", "tcp://127.0.0.1:3", "pid", 5, "state", "running", "directory", "")
			},
			Kill:    func(_ context.Context, reason string) error { calls.add("kill " + reason); return nil },
			Restart: func(_ context.Context, reason string) error { calls.add("restart " + reason); return nil },
			Ready:   func(context.Context) error { return nil },
			End:     func(_ bool, reason string) { calls.add("end " + reason) },
		},
		Logger: slog.New(slog.NewTextHandler(calls, nil)),
		Keep:   func(level, text string) { calls.add("kept " + level + " " + text) },
	}
	if preload != "" {
		cfg.Preload = []string{filepath.Join(t.TempDir(), "pre.py")}
		if err := os.WriteFile(cfg.Preload[0], []byte(preload), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := New(cfg)
	t.Cleanup(func() { h.Close(time.Minute) })
	return h
}

const changingPreload = `
import os
def dask_setup(nanny):
    nanny.nthreads = 3
    nanny.resources = {"GPU": 1}
    nanny.name = "bob"
    os.environ["OF_PRELOAD"] = nanny.worker_address
def dask_teardown(nanny):
    nanny.close_gracefully(reason="torn down")
`

// Preloads and plugins change the next worker process, also after the Python process was killed.
func TestHelper(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	calls := &record{}
	h := helper(t, calls, changingPreload)
	if s := h.WorkerSettings(ctx); s.Env != nil || s.Threads != nil || h.super.Current() != nil {
		t.Errorf("before the start: got %+v, want no settings and no process", s)
	}
	if err := h.Start(ctx); err != nil {
		t.Fatal(err)
	}
	plugin := pickled(t, `Environ({"OF_PLUGIN": "x"})`)
	if err := h.AddPlugins(ctx, []Plugin{{"env", plugin}, {"broken", []byte("no pickle")}}); err == nil {
		t.Error("AddPlugins of no pickle: got nil, want an error")
	}
	check := func() {
		t.Helper()
		s := h.WorkerSettings(ctx)
		for _, want := range []string{"OF_PRELOAD=tcp://127.0.0.1:3", "OF_PLUGIN=x"} {
			if !slices.Contains(s.Env, want) {
				t.Errorf("environment: got %q, want %q in it", s.Env, want)
			}
		}
		if s.Threads == nil || *s.Threads != 3 || s.Resources["GPU"] != 1 || s.Name == nil || *s.Name != "bob" ||
			s.MemoryLimit != nil {
			t.Errorf("settings: got %+v, want 3 threads, a GPU, the name bob and the memory limit unchanged", s)
		}
	}
	check()
	if got := h.Plugins(); !slices.Equal(got, []string{"env"}) {
		t.Errorf("plugins: got %q, want env", got)
	}
	p := h.super.Current()
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if err := h.Start(ctx); err != nil { // WorkerSettings does not wait as long
		t.Fatal(err)
	}
	check() // in a new process
	if now := h.super.Current(); now == nil || now.PID() == p.PID() {
		t.Error("no new process after the first was killed")
	}
	h.Close(time.Minute)
	text := calls.text()
	for _, want := range []string{"end torn down", "kept INFO Starting Nanny plugin env", "died"} {
		if !strings.Contains(text, want) {
			t.Errorf("calls: got\n%s\nwant %q in it", text, want)
		}
	}
	if strings.Contains(text, "restart nanny-plugin") {
		t.Errorf("a plugin of the registration has restarted the worker:\n%s", text)
	}
	if err := h.Start(ctx); err == nil {
		t.Error("Start after Close: got nil, want an error")
	}
}

// A preload that cannot be imported is an error of Start.
func TestHelperPreloadFails(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := helper(t, &record{}, "import no_such_module_of_a_test\n")
	if err := h.Start(ctx); err == nil || !strings.Contains(err.Error(), "no_such_module_of_a_test") {
		t.Errorf("Start: got %v, want the module that is missing", err)
	}
}

func TestReadSettings(t *testing.T) {
	encode := func(m msgpack.Map) []byte {
		b, err := msgpack.Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s, err := readSettings(encode(msgpack.MapOf("env", msgpack.MapOf("B", "2", "A", "1", "", "x", "C=D", "x", "E",
		"a\x00b"), "memory_limit", 5, "preload", []any{"m"}, "unknown", 1)))
	if err != nil || !slices.Equal(s.Env, []string{"A=1", "B=2"}) || s.MemoryLimit == nil || *s.MemoryLimit != 5 ||
		!slices.Equal(s.Preload, []string{"m"}) || s.Threads != nil {
		t.Errorf("got %+v, %v", s, err)
	}
	for name, bad := range map[string][]byte{
		"no message": {0xc1}, "wrong type": encode(msgpack.MapOf("env", 1)),
		"threads": encode(msgpack.MapOf("env", msgpack.Map{}, "nthreads", "many")),
	} {
		if _, err := readSettings(bad); err == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
}

func FuzzReadSettings(f *testing.F) {
	f.Add([]byte{0x81, 0xa3, 'e', 'n', 'v', 0x81, 0xa1, 'A', 0xa1, '1'})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readSettings(b)
		if err != nil {
			return
		}
		for _, v := range s.Env {
			if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
				t.Errorf("variable %q", v)
			}
		}
	})
}
