package pickle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const tblib = "tblib.pickling_support"

func TestExceptionText(t *testing.T) {
	for want, v := range map[string]Value{
		"ValueError":           call("builtins", "ValueError"),
		"ValueError: bad":      call("builtins", "ValueError", "bad"),
		"KeyError: 'k'":        call("builtins", "KeyError", "k"),
		"ValueError: ('a', 1)": call("builtins", "ValueError", "a", int64(1)),
		"FileNotFoundError: [Errno 2] gone: '/f'":  call("builtins", "FileNotFoundError", int64(2), "gone", "/f"),
		"OSError: [Errno 5] broken":                call("builtins", "OSError", int64(5), "broken"),
		"KeyboardInterrupt":                        call("builtins", "KeyboardInterrupt"),
		"my.mod.OddError: x":                       call("my.mod", "OddError", "x").WithState(NewDict("extra", 1)),
		"distributed.scheduler.KilledWorker: task": call("distributed.scheduler", "KilledWorker", "task"),
		"StopIteration: 3": call(tblib, "unpickle_exception",
			Global{"builtins", "StopIteration"}, Tuple{int64(3)}, nil, nil),
		"ValueError: in attrs": call(tblib, "unpickle_exception_with_attrs",
			Global{"builtins", "ValueError"}, NewDict("args", Tuple{"in attrs"}), nil, nil, nil, false, nil, Tuple{}),
	} {
		got, err := Decode(v)
		if e, ok := got.(*Exception); err != nil || !ok || e.Error() != want {
			t.Errorf("%s: %v, want %s", Repr(v), got, want)
		}
		if again, err := Dump(got); err != nil || !Equal(load(t, string(again)), v) &&
			!strings.Contains(want, "OddError") {
			t.Errorf("%s is written as %q, %v", Repr(v), again, err)
		}
	}
}

func TestExceptionCauses(t *testing.T) {
	traced := func(cause, context Value) *Object {
		return call(tblib, "unpickle_exception", Global{"builtins", "ValueError"}, Tuple{"v"}, cause, nil, context,
			false, nil)
	}
	inner := call("builtins", "KeyError", "k")
	for _, v := range []Value{traced(inner, nil), traced(nil, inner), traced(inner, traced(nil, nil))} {
		e, ok := AsException(v)
		var cause *Exception
		if !ok || e.Cause == nil || e.Cause.Type != "KeyError" || !errors.As(errors.Unwrap(e), &cause) {
			t.Errorf("%s: %+v", Repr(v), e)
		}
	}
	if e, _ := AsException(traced(nil, nil)); errors.Unwrap(e) != nil {
		t.Error("a cause from nowhere")
	}
	// In circles, with itself and with another, and in its own arguments.
	self := traced(nil, nil)
	self.Args[2] = self
	a, b := traced(nil, nil), traced(nil, nil)
	a.Args[2], b.Args[2] = b, a
	inArgs := call("builtins", "ValueError", nil)
	inArgs.Args[0] = &List{Items: []Value{inArgs}}
	for _, v := range []Value{self, a, inArgs} {
		e, ok := AsException(v)
		if !ok || e.Type != "ValueError" {
			t.Errorf("%+v", e)
		}
		// Only what passes through a list can be written, and only that can be read.
		if _, err := Dump(e); (err == nil) != (v == Value(inArgs)) {
			t.Error(err)
		}
	}
}

func TestAsException(t *testing.T) {
	e, ok := AsException(call("my.mod", "Oops", "text"))
	if !ok || e.Error() != "my.mod.Oops: text" {
		t.Errorf("%+v", e)
	}
	for _, v := range []Value{nil, "x", Global{"builtins", "ValueError"}, Call(call("m", "f")),
		call(tblib, "unpickle_exception"), call(tblib, "unpickle_exception", "x", Tuple{}, nil, nil),
		call(tblib, "unpickle_exception", Global{"m", "E"}, "x", nil, nil),
		call(tblib, "unpickle_exception_with_attrs", Global{"m", "E"}, "x", nil, nil)} {
		if e, ok := AsException(v); ok {
			t.Errorf("%s is %+v", Repr(v), e)
		}
	}
}

func TestGoErrorsAreExceptions(t *testing.T) {
	tree := again(t, fmt.Errorf("wrapped: %w", errors.New("inner")), Options{})
	if !Equal(tree, call("builtins", "Exception", "wrapped: inner")) {
		t.Error(Repr(tree))
	}
	tree = again(t, NewException("builtins", "TypeError", "no"), Options{})
	if !Equal(tree, call("builtins", "TypeError", "no")) {
		t.Error(Repr(tree))
	}
}

func TestTraceback(t *testing.T) {
	frame := func(file, name string) Value {
		code := New(Global{"tblib", "Code"}).WithState(NewDict("co_filename", file, "co_name", name))
		return New(Global{"tblib", "Frame"}).WithState(Tuple{nil, NewDict("f_code", code)})
	}
	last := New(Global{"tblib", "Traceback"}).WithState(NewDict("tb_frame", frame("b.py", "inner"), "tb_lineno",
		int64(7), "tb_next", nil))
	got := Traceback(call(tblib, "unpickle_traceback", frame("a.py", "outer"), int64(3), last))
	if len(got) != 2 || got[0] != (TraceFrame{"a.py", 3, "outer"}) || got[1] != (TraceFrame{"b.py", 7, "inner"}) {
		t.Errorf("%+v", got)
	}
	for _, v := range []Value{nil, "x", call("m", "f"), call(tblib, "unpickle_traceback")} {
		if got := Traceback(v); got != nil {
			t.Errorf("%s: %+v", Repr(v), got)
		}
	}
	loop := call(tblib, "unpickle_traceback", nil, nil, nil)
	loop.Args[2] = loop
	if got := Traceback(loop); len(got) != maxFrames {
		t.Errorf("%d frames", len(got))
	}
}
