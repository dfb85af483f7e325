package task

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.millstream.dev/internal/wire/msgpack"
)

// Call is a parsed spec: a function of this process and its encoded arguments. It borrows from the spec.
type Call struct {
	// Func is the function to call.
	Func *Func
	// Deps are the keys of the results that Run needs, in this order.
	Deps []Key
	args []byte
}

// ParseCall parses a spec for a function of this process. It returns an *UnknownFuncError if the function is not
// registered, and a *SpecError if the bytes are malformed.
func ParseCall(spec []byte) (*Call, error) {
	c := new(Call)
	if err := c.Parse(spec); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse is ParseCall that reuses the memory of c.
func (c *Call) Parse(spec []byte) error {
	r, err := specReader(spec)
	if err != nil {
		return err
	}
	name, err := r.ReadStringBytes()
	if err != nil {
		return &SpecError{Reason: "call without a name", Err: err}
	}
	f, ok := lookupBytes(name)
	if !ok {
		if len(name) > MaxName {
			name = name[:MaxName]
		}
		return &UnknownFuncError{Name: string(name)}
	}
	deps, err := readDeps(&r)
	if err != nil {
		return err
	}
	n, err := r.ReadUint()
	if err != nil {
		return &SpecError{Reason: "call without its number of arguments", Err: err}
	}
	if n != uint64(len(f.params)) {
		return &SpecError{Reason: fmt.Sprintf("call of %s with %d arguments, want %d", f.name, n,
			len(f.params))}
	}
	*c = Call{Func: f, Deps: deps, args: spec[len(spec)-r.Remaining():]}
	return nil
}

// Run decodes the arguments and calls the function. deps are the results of Deps, in the same order. A panic of the
// function is returned as a *PanicError; invalid arguments as a *TypeError or *SpecError; other errors are those of the
// function.
func (c *Call) Run(ctx context.Context, deps []*Value) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &PanicError{Func: c.Func.name, Value: p, Stack: debug.Stack()}
		}
	}()
	if len(deps) != len(c.Deps) {
		return nil, &SpecError{Reason: fmt.Sprintf("call of %s with %[3]d of %[2]d results", c.Func.name, len(c.Deps),
			len(deps))}
	}
	return c.Func.run(ctx, c, deps)
}

// reader decodes arguments.
type reader struct {
	msgpack.Reader
	deps  []*Value
	depth int
}

func (c *Call) reader(deps []*Value) reader {
	return reader{Reader: msgpack.NewReader(c.args), deps: deps}
}

// argError adds the function and the argument to an error.
func (c *Call) argError(i int, err error) error {
	if t, ok := err.(*TypeError); ok && t.Func == "" {
		e := *t
		e.Func, e.Arg = c.Func.name, i
		return &e
	}
	return &SpecError{Reason: fmt.Sprintf("argument %d of %s (%v)", i, c.Func.name, c.Func.params[i]), Err: err}
}

// ref reads the index of a reference and returns the value.
func (r *reader) ref() (*Value, error) {
	i, err := r.ReadUint()
	if err != nil {
		return nil, err
	}
	if i >= uint64(len(r.deps)) {
		return nil, &SpecError{Reason: fmt.Sprintf("reference %d of %d", i, len(r.deps))}
	}
	if v := r.deps[i]; v != nil {
		return v, nil
	}
	return nil, &SpecError{Reason: fmt.Sprintf("the result of reference %d is missing", i)}
}

// Invoke calls the function with values instead of an encoded call, for tasks of Python graphs. A value that is not a
// Go value of the type of its parameter is converted like a Python value. A panic is returned as a *PanicError, a value
// of another type as a *TypeError, and a wrong number of values as a *SpecError.
func (f *Func) Invoke(ctx context.Context, args []*Value) (any, error) {
	if len(args) != len(f.params) {
		return nil, &SpecError{Reason: fmt.Sprintf("call of %s with %d arguments, want %d", f.name, len(args),
			len(f.params))}
	}
	// Every argument is a reference to a present result.
	refs := make([]byte, 0, 2*len(args))
	for i := range args {
		refs = msgpack.AppendUint(append(refs, nodeRef), uint64(i))
	}
	c := Call{Func: f, Deps: make([]Key, len(args)), args: refs}
	return c.Run(ctx, args)
}
