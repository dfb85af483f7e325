package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var arities = []*Func{
	Register0("func_test.0", func(context.Context) (string, error) { return "", nil }),
	Register1("func_test.1", func(_ context.Context, a int) (string, error) { return fmt.Sprint(a), nil }),
	Register2("func_test.2", func(_ context.Context, a, b int) (string, error) { return fmt.Sprint(a, b), nil }),
	Register3("func_test.3", func(_ context.Context, a, b, c int) (string, error) { return fmt.Sprint(a, b, c), nil }),
	Register4("func_test.4", func(_ context.Context, a, b, c, d int) (string, error) {
		return fmt.Sprint(a, b, c, d), nil
	}),
}

// callOf encodes a call of a function of ints.
func callOf(t *testing.T, f *Func, args ...Arg[int]) []byte {
	t.Helper()
	var b Builder
	b.Begin(f)
	for _, a := range args {
		if err := NewParam[int]().Arg(&b, a); err != nil {
			t.Fatal(err)
		}
	}
	return b.Append(nil)
}

// Functions of every arity receive each argument at its position, as values and as references, and errors have the
// position.
func TestArities(t *testing.T) {
	for n, f := range arities {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprint(10+i))
		}
		for refs := range 1 << n { // which of the arguments are references
			var args []Arg[int]
			var deps []*Value
			for i := range n {
				if refs>>i&1 == 0 {
					args = append(args, Val(10+i))
					continue
				}
				args = append(args, RefTo[int](NewKey(fmt.Sprint("k", i))))
				deps = append(deps, NewValue(10+i))
			}
			got, err := runSpec(t, callOf(t, f, args...), deps...)
			if got != strings.Join(want, " ") || err != nil {
				t.Errorf("%s, references %b: got %v, %v, want %v", f.Name(), refs, got, err, want)
			}
		}
		for bad := range n {
			var args []Arg[int]
			for i := range n {
				if args = append(args, Val(i)); i == bad {
					args[i] = RefTo[int](NewKey("k"))
				}
			}
			_, err := runSpec(t, callOf(t, f, args...), NewValue("text"))
			var te *TypeError
			if !errors.As(err, &te) || te.Arg != bad || te.Func != f.Name() {
				t.Errorf("%s, argument %d is a text: got %v, want a TypeError of that argument", f.Name(), bad, err)
			}
			spec := callOf(t, f, args...)
			call, err := ParseCall(spec)
			if err != nil {
				t.Fatal(err)
			}
			call.args = call.args[:2*bad] // values of ints have two bytes
			_, err = call.Run(t.Context(), []*Value{NewValue(1)})
			var se *SpecError
			if at := fmt.Sprintf("argument %d of %s (int)", bad, f.Name()); !errors.As(err, &se) ||
				!strings.Contains(err.Error(), at) {
				t.Errorf("%s, cut before argument %d: got %v, want %q", f.Name(), bad, err, at)
			}
		}
		if got, err := f.Invoke(t.Context(), make([]*Value, n+1)); err == nil {
			t.Errorf("%s with %d values: got %v, want an error", f.Name(), n+1, got)
		}
	}
}

// Values of a worker become arguments like those of a call.
func TestInvoke(t *testing.T) {
	f := arities[2]
	for _, c := range []struct {
		args []*Value
		want any
		err  string
	}{
		{[]*Value{NewValue(1), NewValue(int64(2))}, "1 2", ""},
		{[]*Value{NewValue(uint8(1)), NewEncoded(encodedOf(t, 2))}, "1 2", ""},
		{[]*Value{NewValue(1), NewValue(2.5)}, nil, "argument 1 of func_test.2 must be int"},
		{[]*Value{NewValue(nil), NewValue(2)}, nil, "argument 0 of func_test.2 must be int, and is nothing (None)"},
		{[]*Value{NewValue(1), nil}, nil, "the result of reference 1 is missing"},
		{[]*Value{NewValue(1)}, nil, "with 1 arguments, want 2"},
	} {
		got, err := f.Invoke(t.Context(), c.args)
		if got != c.want && c.err == "" || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("got %v, %v, want %v, %q", got, err, c.want, c.err)
		}
	}
	var pe *PanicError
	got, err := panicF.Invoke(t.Context(), nil)
	if got != nil || !errors.As(err, &pe) || pe.Func != "t.panic" || len(pe.Stack) == 0 || pe.Unwrap().Error() != "oh" {
		t.Errorf("a panic: got %v, %v, want a PanicError with function, stack and cause", got, err)
	}
}

func TestNilArgument(t *testing.T) {
	var b Builder
	b.Begin(incF)
	var ee *EncodeError
	if err := NewParam[int]().Arg(&b, nil); !errors.As(err, &ee) || !strings.Contains(err.Error(), "use Val") {
		t.Errorf("got %v, want an EncodeError that names Val", err)
	}
	if b.nargs != 0 {
		t.Errorf("%d arguments after one that was refused, want 0", b.nargs)
	}
}
