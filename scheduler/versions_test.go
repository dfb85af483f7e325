package scheduler

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// releases are the packages of a peer with Python and this release of Dask.
func releases(dask string, more ...any) msgpack.Map {
	p := msgpack.MapOf("python", "3.11.7.final.0", "dask", dask, "distributed", dask, "lz4", nil)
	return msgpack.MapOf("host", msgpack.Map{}, "packages", append(p, msgpack.MapOf(more...)...))
}

// hello registers a client and returns the scheduler's first message.
func hello(t *testing.T, s *Scheduler, name string, versions any) msgpack.Map {
	t.Helper()
	p := newPeer(t, s.Address())
	if err := rpc.Notify(t.Context(), p.comm, "register-client",
		msgpack.MapOf("client", name, "versions", versions)); err != nil {
		t.Fatal(err)
	}
	go p.read()
	return p.expectOp("stream-start")
}

// logBuffer keeps a log of a scheduler.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// Peers of unsupported releases are rejected with an error; for unknown newer ones, all sides are warned.
func TestReleases(t *testing.T) {
	var log logBuffer
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Python: PythonConfig{Off: true}})
	for _, c := range []struct {
		name             string
		Versions         any
		warning, failure string
		log              string
	}{
		{"good", releases("2026.7.1"), "", "", ""},
		{"go", msgpack.MapOf("packages", msgpack.Map{}), "", "", ""},
		{"bare", msgpack.Map{}, "", "", ""},
		{"none", nil, "", "", ""},
		{"odd", "UNKNOWN", "", "", ""},
		{"old", releases("2025.4.1"), "", "2025.7.0 to", "client old has Dask 2025.4.1"},
		{"ancient", releases("2023.1.0"), "", "2025.7.0 to", "client ancient has Dask 2023.1.0"},
		{"new", releases("2031.1.0"), "newer than all", "", "client new has Dask 2031.1.0"},
		{"strange", releases("main"), "", "", "which is not a release"},
		{"silent", msgpack.MapOf("packages", msgpack.MapOf("python", "3.11.7.final.0")), "", "",
			"client silent reports no release"},
	} {
		h := hello(t, s, c.name, c.Versions)
		if w := h.GetString("warning"); !strings.Contains(w, c.warning) || c.warning == "" && w != "" {
			t.Errorf("%s: got warning %q", c.name, w)
		}
		if e := h.GetString("error"); !strings.Contains(e, c.failure) || c.failure == "" && e != "" {
			t.Errorf("%s: got error %q", c.name, e)
		}
		if c.log != "" && !log.has(c.log) {
			t.Errorf("%s: log: got no line with %q", c.name, c.log)
		}
	}
	for _, c := range []struct{ name, release, status, text string }{
		{"old", "2025.4.1", "error", "2025.7.0 to"},
		{"new", "2031.1.0", "OK", "newer than all"},
		{"good", "2026.7.1", "OK", "Mismatched versions"},
	} {
		w := serveWorker(t, s, c.name)
		r := w.register(with("versions", releases(c.release)))
		if r.GetString("status") != c.status || !strings.Contains(r.GetString("message")+r.GetString("warning"),
			c.text) {
			t.Errorf("worker %s: got %v", c.name, r)
		}
	}
}

// A client is warned of packages that differ from those of the workers, as by Dask's scheduler; workers without Python
// are ignored.
func TestMismatch(t *testing.T) {
	s := start(t, Config{Python: PythonConfig{Off: true}})
	for name, v := range map[string]any{"a": releases("2026.7.1", "numpy", "2.0.0"),
		"b": releases("2026.7.1", "numpy", "1.9.0"), "go": msgpack.MapOf("packages", msgpack.Map{})} {
		serveWorker(t, s, name).register(with("versions", v))
	}
	w := hello(t, s, "c", releases("2026.8.0", "numpy", "2.0.0")).GetString("warning")
	for _, want := range []string{"Mismatched versions found",
		"| dask        | 2026.8.0 | -         | 2026.7.1           |",
		"| numpy       | 2.0.0    | -         | {'1.9.0', '2.0.0'} |"} {
		if !strings.Contains(w, want) {
			t.Errorf("no %q in the warning\n%s", want, w)
		}
	}
	if strings.Contains(w, "lz4") || strings.Contains(w, "python") {
		t.Errorf("warning: got equal packages in\n%s", w)
	}
}

// The scheduler's own Python opens the graphs of clients: a release that is too old is not used, an untested one causes
// a warning.
func TestOwnPython(t *testing.T) {
	for release, c := range map[string]struct{ failure, log string }{
		"2026.7.1":  {"", ""},
		"2025.4.1":  {"Python, PATH, has Dask 2025.4.1, and Millstream works with 2025.7.0 to", ""},
		"2031.10.0": {"", "has Dask 2031.10.0, which is newer than all"},
		"unknown":   {"", "which is not a release"},
	} {
		t.Run(release, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "python")
			if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho 3.11.7 %s %s\n", release, release),
				0o755); err != nil {
				t.Fatal(err)
			}
			var log logBuffer
			s := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Python: PythonConfig{Interpreter: path}})
			in, err := s.helpers.Interpreter(t.Context())
			switch want := strings.ReplaceAll(c.failure, "PATH", path); {
			case want == "" && (err != nil || in.Distributed != release):
				t.Errorf("interpreter: got %+v, error %v", in, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got %+v, %v, want %q", in, err, want)
			}
			if !log.has(c.log) {
				t.Errorf("log: got no line with %q", c.log)
			}
		})
	}
}
