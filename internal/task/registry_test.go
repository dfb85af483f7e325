package task

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func panics(t *testing.T, f func()) string {
	t.Helper()
	var text string
	func() {
		defer func() {
			if p := recover(); p != nil {
				text, _ = p.(string)
			}
		}()
		f()
		t.Error("no panic")
	}()
	return text
}

func TestRegistry(t *testing.T) {
	if f, ok := Lookup("t.inc"); !ok || f != incF || f.Params() != 1 || f.Result() != reflect.TypeFor[int]() {
		t.Errorf("%v %v", f, ok)
	}
	if _, ok := Lookup("nobody"); ok {
		t.Error("Lookup of an unknown name: got true, want false")
	}
	text := panics(t, func() { Register0("t.inc", func(context.Context) (int, error) { return 0, nil }) })
	if !strings.Contains(text, `"t.inc" registered twice`) || !strings.Contains(text, ".go:") {
		t.Errorf("registered twice: got %s, want both lines", text)
	}
	panics(t, func() { Register0("", func(context.Context) (int, error) { return 0, nil }) })
	panics(t, func() {
		Register0(strings.Repeat("x", MaxName+1), func(context.Context) (int, error) { return 0, nil })
	})
	before := Hash()
	Register0("t.late", func(context.Context) (int, error) { return 0, nil })
	if Hash() == before || len(before) < 32+2 {
		t.Errorf("hash %s after a new function, %s before", Hash(), before)
	}
}

func TestSignature(t *testing.T) {
	type a struct{ X int }
	type b struct{ Y int }
	sig := func(t reflect.Type) string { return signature([]reflect.Type{t}, nil) }
	if sig(reflect.TypeFor[a]()) == sig(reflect.TypeFor[b]()) {
		t.Error("different structs have the same signature")
	}
	s := sig(reflect.TypeFor[tree]())
	if !strings.Contains(s, "Kids []*") || !strings.Contains(s, "Tags map[string]") {
		t.Errorf("signature: got %s, want the fields", s)
	}
}

func TestMethods(t *testing.T) {
	type state struct{ n int }
	RegisterMethod("t.obj.add", func(_ context.Context, s *state, n int) (int, error) {
		if n < 0 {
			panic("negative")
		}
		s.n += n
		return s.n, nil
	})
	ctx, s := context.Background(), &state{1}
	if v, err := CallMethod(ctx, "t.obj.add", s, []*Value{NewValue(2)}); v != 3 || err != nil {
		t.Error(v, err)
	}
	var pe *PanicError
	if _, err := CallMethod(ctx, "t.obj.add", s, []*Value{NewValue(-1)}); !errors.As(err, &pe) {
		t.Error(err)
	}
	var te *TypeError
	if _, err := CallMethod(ctx, "t.obj.add", 5, []*Value{NewValue(1)}); !errors.As(err, &te) {
		t.Error(err)
	}
	for _, name := range []string{"nobody", "t.inc"} {
		if _, err := CallMethod(ctx, name, s, nil); err == nil {
			t.Errorf("%s is a method", name)
		}
	}
	if _, err := CallMethod(ctx, "t.obj.add", s, nil); err == nil {
		t.Error("call without its argument: got nil, want an error")
	}
}

func TestInfo(t *testing.T) {
	ctx := context.Background()
	if FromContext(ctx) != nil || CurrentKey(ctx) != "" || !errors.Is(Secede(ctx), ErrOutside) ||
		!errors.Is(Rejoin(ctx), ErrOutside) {
		t.Error("FromContext outside of a task: got an Info, want nil")
	}
	h := new(Host)
	made, closed := 0, 0
	thing := func() (any, error) {
		return h.Shared("k", func() (any, func() error, error) {
			made++
			if made == 1 {
				return nil, nil, errors.New("not yet")
			}
			return made, func() error { closed++; return nil }, nil
		})
	}
	if _, err := thing(); err == nil {
		t.Error("no error")
	}
	for range 2 {
		if v, err := thing(); v != 2 || err != nil {
			t.Error(v, err)
		}
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil || closed != 1 {
		t.Error(err, closed)
	}
	if _, err := thing(); !errors.Is(err, ErrHostClosed) {
		t.Error(err)
	}
	in := WithInfo(ctx, &Info{Key: NewKey("me"), Thread: thread{}})
	if CurrentKey(in) != NewKey("me") || Secede(in) != nil || Rejoin(in) != nil {
		t.Error("FromContext within a task: got another Info")
	}
}
