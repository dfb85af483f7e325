package execution

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/sidecar"
)

// typed is an error that selects its Python class.
type typed struct{}

func (typed) Error() string      { return "wrong key" }
func (typed) PythonType() string { return "KeyError" }

// An error is raised in Python with the most specific class.
func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err         error
		class, text string
	}{
		{errors.New("plain"), "", "plain"},
		{fmt.Errorf("outer: %w", typed{}), "KeyError", "wrong key"},
		{&task.UnknownFuncError{Name: "f"}, "LookupError", "f"},
		{&rpc.Exception{Type: "OSError", Message: "disk"}, "OSError", "disk"},
	} {
		f := Failure(c.err)
		s, ok := f.Exception.(*wire.Serialized)
		if !ok || !strings.Contains(f.ExceptionText, c.text) {
			t.Errorf("%v: %+v", c.err, f)
			continue
		}
		v, err := s.Decode(wire.DecodeOptions{})
		b, _ := v.([]byte)
		if err != nil || !strings.Contains(string(b), c.class) || !strings.Contains(string(b), c.text) {
			t.Errorf("%v: got exception %q, %v, want %s", c.err, b, err, c.class)
		}
	}
	own := &state.Failure{ExceptionText: "E()"}
	if got := Failure(fmt.Errorf("it: %w", &sidecar.Error{Failure: own})); got != own {
		t.Errorf("failure of a Python task: got %+v, want it unchanged", got)
	}
}

// The stack of a panic is the traceback.
func TestWithStack(t *testing.T) {
	f := Failure(&task.PanicError{Value: "over the edge", Stack: []byte("goroutine 1:\nfield.go:7")})
	if !strings.Contains(f.TracebackText, "field.go:7") || !strings.Contains(f.ExceptionText, "over the edge") {
		t.Errorf("got %+v", f)
	}
	plain := errors.New("plain")
	if WithStack(plain) != plain {
		t.Error("error without a stack: got another error")
	}
	var panicked *rpc.PanicError
	if !errors.As(WithStack(&task.PanicError{Value: 1}), &panicked) {
		t.Error("got no rpc.PanicError")
	}
}

func TestTimeoutAnnotation(t *testing.T) {
	for _, c := range []struct {
		value any
		want  time.Duration
		fails bool
	}{
		{msgpack.MapOf("timeout", 2), 2 * time.Second, false},
		{msgpack.MapOf("priority", 1, "timeout", 0.5), 500 * time.Millisecond, false},
		{msgpack.MapOf("priority", 1), 0, false},
		{msgpack.Map{}, 0, false},
		{msgpack.MapOf("timeout", 0), 0, true},
		{msgpack.MapOf("timeout", -1.5), 0, true},
		{msgpack.MapOf("timeout", 1e12), 0, true},
		{msgpack.MapOf("timeout", "soon"), 0, true},
		{[]any{1}, 0, true},
	} {
		b, err := msgpack.Append(nil, c.value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := timeout(b); got != c.want || (err != nil) != c.fails {
			t.Errorf("%v: got %v, %v; want %v", c.value, got, err, c.want)
		}
	}
}
