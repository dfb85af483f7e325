package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

type actorState struct{ calls []string }

func (s *actorState) note(args ...any) (string, error) {
	s.calls = append(s.calls, fmt.Sprint(args...))
	return fmt.Sprintf("%T%v", args, args), nil
}

var actorMethods = []*Func{
	RegisterMethod0("actor_test.0", func(_ context.Context, s *actorState) (string, error) { return s.note() }),
	RegisterMethod("actor_test.1", func(_ context.Context, s *actorState, a int) (string, error) { return s.note(a) }),
	RegisterMethod2("actor_test.2", func(_ context.Context, s *actorState, a int, b string) (string, error) {
		return s.note(a, b)
	}),
	RegisterMethod3("actor_test.3", func(_ context.Context, s *actorState, a int, b string, c []byte) (string, error) {
		return s.note(a, b, string(c))
	}),
}

// Every method receives each argument at its position, and the error names the argument of another type.
func TestMethodArguments(t *testing.T) {
	good := []any{7, "text", []byte("bytes")}
	for n, f := range actorMethods {
		if f.Params() != n+1 {
			t.Errorf("%s: got %d parameters, want the state and %d", f.Name(), f.Params(), n)
		}
		s := new(actorState)
		args := make([]*Value, n)
		for i := range args {
			args[i] = NewValue(good[i])
		}
		want := []any{}
		for i := range n {
			if b, ok := good[i].([]byte); ok {
				want = append(want, string(b))
			} else {
				want = append(want, good[i])
			}
		}
		got, err := CallMethod(t.Context(), f.Name(), s, args)
		if text := fmt.Sprintf("[]interface {}%v", want); got != text || err != nil || len(s.calls) != 1 {
			t.Errorf("%s: got %v, %v after %d calls, want %s after one", f.Name(), got, err, len(s.calls), text)
		}
		for i := range n {
			bad := append([]*Value(nil), args...)
			bad[i] = NewValue(map[string]bool{"x": true})
			var te *TypeError
			if got, err := CallMethod(t.Context(), f.Name(), s, bad); !errors.As(err, &te) || got != nil {
				t.Errorf("%s, argument %d of another type: got %v, %v, want a TypeError", f.Name(), i, got, err)
			}
		}
		for _, count := range []int{n - 1, n + 1} {
			if count < 0 {
				continue
			}
			var se *SpecError
			if _, err := CallMethod(t.Context(), f.Name(), s, make([]*Value, count)); !errors.As(err, &se) ||
				!strings.Contains(err.Error(), fmt.Sprintf("%d arguments, want %d", count, n)) {
				t.Errorf("%s with %d arguments: got %v, want a SpecError that says so", f.Name(), count, err)
			}
		}
		if len(s.calls) != 1 {
			t.Errorf("%s: the method ran %d times, want once", f.Name(), len(s.calls))
		}
	}
}

// A method cannot be called as a task, nor a task as a method.
func TestMethodsAreNotTasks(t *testing.T) {
	var se *SpecError
	for _, f := range actorMethods {
		args := make([]*Value, f.Params())
		for i := range args {
			args[i] = NewValue(0)
		}
		if _, err := f.Invoke(t.Context(), args); !errors.As(err, &se) || !strings.Contains(err.Error(), "method") {
			t.Errorf("%s as a task: got %v, want a SpecError", f.Name(), err)
		}
	}
	if _, err := CallMethod(t.Context(), "t.inc", 1, nil); !errors.As(err, &se) {
		t.Errorf("a function as a method: got %v, want a SpecError", err)
	}
	var ue *UnknownFuncError
	if _, err := CallMethod(t.Context(), "actor_test.none", 1, nil); !errors.As(err, &ue) ||
		ue.Name != "actor_test.none" {
		t.Errorf("unknown method: got %v, want an UnknownFuncError with its name", err)
	}
	var te *TypeError
	if _, err := CallMethod(t.Context(), "actor_test.0", actorState{}, nil); !errors.As(err, &te) ||
		te.Want != "*task.actorState" || te.Got != "a task.actorState" {
		t.Errorf("another state: got %v, want a TypeError that names both types", err)
	}
}
