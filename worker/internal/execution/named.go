package execution

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/worker/internal/pyspec"
)

// Tasks of Python graphs are pickles. Some of them name a Go function: these run here, the others in the sidecar.

// callPickled runs a pickled task.
func (r *Run) callPickled() error {
	parts, err := pyspec.Split(r.spec)
	if err != nil {
		return err
	}
	named, err := recognize(parts[0], parts[1:], r.annotations)
	switch {
	case err != nil:
		return err
	case named == nil:
		return r.callPython(parts)
	case named.Spec != nil:
		if _, ok := task.Lookup(named.Name); ok { // otherwise callSpec returns the error
			if err := task.CheckHash(named.Registry); err != nil {
				return err
			}
		}
		return r.callSpec(named.Spec)
	}
	f, ok := task.Lookup(named.Name)
	if !ok {
		if named.Weak {
			return r.callPython(parts)
		}
		return &task.UnknownFuncError{Name: named.Name}
	}
	return r.invoke(named.Name, &namedCall{named: named, fn: f})
}

// recognize returns the call of a Go function that a pickled task names; nil if it names none.
func recognize(data []byte, buffers [][]byte, annotations []byte) (*gotask.Call, error) {
	if !gotask.Possible(data, annotations) {
		return nil, nil
	}
	node, err := pickle.Load(data, buffers, pickle.Limits{})
	if err != nil {
		// The sidecar reports what is wrong with the pickle.
		return nil, nil
	}
	return gotask.Recognize(node, annotations)
}

// namedCall is the call of a Go function that a Python graph names.
type namedCall struct {
	named *gotask.Call
	fn    *task.Func
	args  []*task.Value
}

func (c *namedCall) arrange(r *Run) error {
	if err := r.arrange(c.named.Deps); err != nil {
		return err
	}
	at := make(map[task.Key]int, len(c.named.Deps))
	for i, d := range c.named.Deps {
		at[d] = i
	}
	var err error
	c.args, err = c.named.Values(func(k task.Key) (*task.Value, error) {
		if i, ok := at[k]; ok {
			return r.values[i], nil
		}
		return nil, fmt.Errorf("task refers to %v, which is not among its dependencies", k)
	})
	return err
}

func (c *namedCall) call(ctx context.Context, _ *Run) (any, error) { return c.fn.Invoke(ctx, c.args) }
