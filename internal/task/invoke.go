package task

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
)

// Invoke calls the function with values instead of an encoded call: what a worker does
// for a task of a Python graph. A value that is no Go value of the parameter's type is
// converted as one that came from Python. Panics are a *PanicError, other values than the
// function takes a *TypeError, and another number of them is a *SpecError.
func (f *Func) Invoke(ctx context.Context, args []*Value) (any, error) {
	if len(args) != len(f.params) {
		return nil, &SpecError{Reason: fmt.Sprintf("a call of %s with %d arguments, and it takes %d", f.name, len(args),
			len(f.params))}
	}
	// Every argument is a reference to a result that is there.
	refs := make([]byte, 0, 2*len(args))
	for i := range args {
		refs = msgpack.AppendUint(append(refs, nodeRef), uint64(i))
	}
	c := Call{Func: f, Deps: make([]Key, len(args)), args: refs}
	return c.Run(ctx, args)
}
