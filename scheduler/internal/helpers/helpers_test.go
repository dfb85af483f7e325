package helpers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// TestOff checks that without Python nothing is searched for or started, and that each error has the reason.
func TestOff(t *testing.T) {
	h := New(Config{Log: slog.New(slog.DiscardHandler), Off: true, Interpreter: "/nonexistent/python"})
	if !h.Off() || h.Known() != nil {
		t.Errorf("Off: got %t, Known %v, want true and nil", h.Off(), h.Known())
	}
	if _, err := h.Interpreter(t.Context()); !errors.Is(err, ErrNoPython) {
		t.Errorf("Interpreter: got error %v, want %v", err, ErrNoPython)
	}
	var raised *rpc.Exception
	if _, err := h.Call(t.Context(), Service, "run", nil, nil); !errors.As(err, &raised) ||
		raised.Type != "NotImplementedError" || !strings.HasPrefix(raised.Message, "run needs Python") {
		t.Errorf("Call: got error %v, want NotImplementedError", err)
	}
	h.Close()
	h.Close()
}

// TestNoInterpreter checks that a missing Python is an error of every call, and is searched for again.
func TestNoInterpreter(t *testing.T) {
	h := New(Config{Log: slog.New(slog.DiscardHandler), Interpreter: "/nonexistent/python"})
	for range 2 {
		if _, err := h.Call(t.Context(), Service, "run", nil, nil); err == nil ||
			!strings.Contains(err.Error(), "/nonexistent/python") {
			t.Errorf("Call: got error %v, want one with the interpreter", err)
		}
	}
	if h.Known() != nil {
		t.Errorf("Known: got %v, want nil", h.Known())
	}
}

// TestUploads checks that files are kept by name, the latest last, up to a number and a size.
func TestUploads(t *testing.T) {
	h := New(Config{Log: slog.New(slog.DiscardHandler)})
	names := func() (out []string) {
		for _, u := range h.uploads {
			out = append(out, fmt.Sprintf("%s:%s", u.Filename, u.Data))
		}
		return out
	}
	for _, u := range []Upload{{Filename: "a.py", Data: []byte("1")}, {Filename: "b.py", Data: []byte("2")},
		{Filename: "a.py", Data: []byte("333")}} {
		if n, err := h.Upload(t.Context(), u, nil); err != nil || n != len(u.Data) {
			t.Errorf("%s: got %d bytes, error %v", u.Filename, n, err)
		}
	}
	if got := strings.Join(names(), " "); got != "b.py:2 a.py:333" {
		t.Errorf("kept files: got %s, want b.py:2 a.py:333", got)
	}
	for i := range maxUploads - 2 {
		if _, err := h.Upload(t.Context(), Upload{Filename: fmt.Sprint(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var full *rpc.Exception
	if _, err := h.Upload(t.Context(), Upload{Filename: "more"}, nil); !errors.As(err, &full) ||
		full.Type != "MemoryError" {
		t.Errorf("file %d: got error %v, want a MemoryError", maxUploads+1, err)
	}
	if len(h.uploads) != maxUploads {
		t.Errorf("kept files: got %d, want %d", len(h.uploads), maxUploads)
	}
	if _, err := h.Upload(t.Context(), Upload{Filename: "a.py", Data: []byte("4")}, nil); err != nil {
		t.Errorf("new content of a file: got error %v, want none", err)
	}
}

// TestSandbox checks that graphs have no network, functions of clients have; and that hidden paths are absolute and not
// empty.
func TestSandbox(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	here, err := filepath.Abs("token")
	if err != nil {
		t.Fatal(err)
	}
	h := New(Config{Hide: []string{"", "token", "/etc/secret"}, AllowUnsafe: true})
	for module, network := range map[string]bool{Service: true, Shuffle: false, Materializer: false} {
		c := h.Sandbox(pyproc.Interpreter{Path: "/usr/bin/python3"}, module)
		if c.Network != network || !c.Isolate || c.Module != module || c.Python != "/usr/bin/python3" ||
			!c.AllowUnsafe ||
			fmt.Sprint(c.Hide) != fmt.Sprintf("[%s /etc/secret]", here) {
			t.Errorf("%s: got %+v", module, c)
		}
	}
}

// TestLogSandbox checks that missing protections are logged as a warning, once for each module.
func TestLogSandbox(t *testing.T) {
	var log bytes.Buffer
	h := New(Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	lines := func(module string, in pyproc.Isolation) string {
		log.Reset()
		h.logSandbox(context.Background(), module, in)
		return log.String()
	}
	whole, part := pyproc.Isolation{UID: 5}, pyproc.Isolation{UID: 5, Missing: []string{"seccomp"}}
	for i, c := range []struct {
		module string
		in     pyproc.Isolation
		want   string
	}{{"a", whole, "level=INFO"}, {"a", part, ""}, {"b", part, "level=WARN"}, {"b", whole, ""}} {
		got := lines(c.module, c.in)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("log %d: got %q, want %q", i, got, c.want)
		}
	}
}

// TestBodies checks that the body of a reply is a map, and that a message has frames.
func TestBodies(t *testing.T) {
	good, err := msgpack.Append(nil, msgpack.MapOf("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	var m msgpack.Map
	if err := Args(&pyproc.Message{Op: "x", Body: good}, &m); err != nil || len(m) != 1 {
		t.Errorf("got %v, %v, want a map of one entry", m, err)
	}
	var in struct{ A, B int }
	if err := Args(&pyproc.Message{Op: "x", Body: good}, &in); err != nil || in.A != 1 || in.B != 0 {
		t.Errorf("got %+v, %v, want A to be 1", in, err)
	}
	var wrong struct{ A string }
	if err := Args(&pyproc.Message{Op: "x", Body: good}, &wrong); err == nil ||
		!strings.HasPrefix(err.Error(), `x: "a": `) {
		t.Errorf("a field of another type: got %v, want an error that names op and field", err)
	}
	list, err := msgpack.Append(nil, []any{1})
	if err != nil {
		t.Fatal(err)
	}
	if err := Args(&pyproc.Message{Op: "x", Body: list}, &in); err == nil || err.Error() != "x: body is not a map" {
		t.Errorf("list as a body: got error %v", err)
	}
	if err := Args(&pyproc.Message{Op: "x", Body: []byte{0xc1}}, &in); err == nil {
		t.Error("invalid msgpack as a body: got no error")
	}
	if _, err := Message(nil); !errors.Is(err, ErrNoBody) {
		t.Errorf("no frames: got error %v, want %v", err, ErrNoBody)
	}
	if m, err := Message([][]byte{{1}, {2, 3}}); err != nil || len(m.Frames) != 2 || m.Frames[1].Len() != 2 {
		t.Errorf("message: got %v, error %v, want 2 frames", m, err)
	}
	plain := errors.New("plain")
	if got := Raised(plain); got != plain {
		t.Errorf("Raised: got %v, want %v", got, plain)
	}
	if Raised(nil) != nil {
		t.Error("Raised(nil): got an error")
	}
	var raised *rpc.Exception
	if err := Raised(&pyproc.Exception{}); !errors.As(err, &raised) || raised.Type != "RuntimeError" {
		t.Errorf("invalid exception: got error %v, want a RuntimeError", err)
	}
}
