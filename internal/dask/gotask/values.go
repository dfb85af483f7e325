package gotask

import (
	"errors"
	"fmt"
	"math/big"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/bridge"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// maxDepth bounds the nesting of arguments.
const maxDepth = 200

// maxValues bounds the number of values of one call with shared parts counted each time: a few bytes can represent many
// values.
const maxValues = 1 << 22

var (
	errDeep = errors.New("value is nested too deeply, or contains itself")
	errMany = fmt.Errorf("more than %d values; scatter the argument and pass the future", maxValues)
)

// bigOf returns an int of the body of a message as a node.
func bigOf(v uint64) pickle.Value {
	if v <= 1<<63-1 {
		return int64(v)
	}
	return new(big.Int).SetUint64(v)
}

// KeyOf returns the key of a Dask key: a str, bytes, int, float or tuple.
func KeyOf(v pickle.Value) (task.Key, error) {
	x, err := plainKey(v, 0)
	if err != nil {
		return "", err
	}
	return task.KeyOf(x)
}

func plainKey(v pickle.Value, depth int) (any, error) {
	switch x := v.(type) {
	case string, []byte, int64, float64, bool:
		return x, nil
	case *big.Int:
		if x.IsUint64() {
			return x.Uint64(), nil
		}
	case pickle.Tuple:
		if depth > maxDepth {
			return nil, errDeep
		}
		out := make([]any, len(x))
		for i, e := range x {
			var err error
			if out[i], err = plainKey(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s cannot be the key of a task", pickle.TypeName(v))
}

// Values returns the arguments for the function. get returns the results of Deps. An argument that is itself a
// reference is that result, unchanged; nested references are replaced by plain values. An encoded call has no values:
// it is run like any call of a Go client.
//
// The values share no memory with the pickle of the tree.
func (c *Call) Values(get func(task.Key) (*task.Value, error)) ([]*task.Value, error) {
	out := make([]*task.Value, len(c.Args))
	r := resolver{get: get, left: maxValues}
	for i, a := range c.Args {
		if k, ok := pickle.RefKey(a); ok {
			key, err := KeyOf(k)
			if err == nil {
				out[i], err = get(key)
			}
			if err != nil {
				return nil, &Error{c.Name, fmt.Sprintf("argument %d: %v", i, err)}
			}
			continue
		}
		v, err := r.value(a, 0)
		if err != nil {
			return nil, &Error{c.Name, fmt.Sprintf("argument %d: %v", i, err)}
		}
		out[i] = task.NewValue(wire.Clone(v))
	}
	return out, nil
}

// resolver converts nodes to values of types of package wire.
type resolver struct {
	get  func(task.Key) (*task.Value, error)
	left int
}

func (r *resolver) value(v pickle.Value, depth int) (any, error) {
	if r.left--; r.left < 0 {
		return nil, errMany
	}
	if depth > maxDepth {
		return nil, errDeep
	}
	switch x := v.(type) {
	case nil, bool, int64, float64, string, []byte, *big.Int:
		return x, nil
	case *pickle.ByteArray:
		return wire.ByteArray(x.Data), nil
	case *pickle.List:
		return r.list(x.Items, depth)
	case pickle.Tuple:
		l, err := r.list(x, depth)
		return wire.Tuple(l), err
	case *pickle.Set:
		l, err := r.list(x.Items, depth)
		return wire.Set(l), err
	case *pickle.FrozenSet:
		l, err := r.list(x.Items, depth)
		return wire.FrozenSet(l), err
	case *pickle.Dict:
		d := make(wire.Dict, 0, x.Len())
		for k, v := range x.All() {
			var err error
			if d, err = r.pair(d, k, v, depth); err != nil {
				return nil, err
			}
		}
		return d, nil
	case *pickle.Object:
		return r.object(x, depth)
	case pickle.Global:
		return nil, fmt.Errorf("class or function %s cannot be converted to a Go value", x)
	}
	if y, ok := bridge.FromPickle(v); ok {
		return y, nil
	}
	return nil, fmt.Errorf("%s cannot be converted to a Go value", pickle.TypeName(v))
}

func (r *resolver) list(in []pickle.Value, depth int) ([]any, error) {
	if len(in) > r.left {
		return nil, errMany
	}
	out := make([]any, len(in))
	for i, v := range in {
		var err error
		if out[i], err = r.value(v, depth+1); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return out, nil
}

func (r *resolver) pair(d wire.Dict, k, v pickle.Value, depth int) (wire.Dict, error) {
	key, err := r.value(k, depth+1)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	x, err := r.value(v, depth+1)
	if err != nil {
		return nil, fmt.Errorf("value of %.60q: %w", pickle.Repr(k), err)
	}
	return append(d, wire.Pair{Key: key, Value: x}), nil
}

// object converts a reference, a Dask container, or an object that has a Go type.
func (r *resolver) object(o *pickle.Object, depth int) (any, error) {
	if k, ok := pickle.RefKey(o); ok {
		return r.reference(k)
	}
	if t, ok := pickle.AsTask(o); ok {
		return r.node(t, depth)
	}
	v, err := pickle.Decode(o)
	if err != nil {
		return nil, err
	}
	if y, ok := bridge.FromPickle(v); ok {
		return y, nil
	}
	return nil, fmt.Errorf("%s cannot be converted to a Go value; pass numbers, text, bytes, lists, dicts, dates, "+
		"numpy arrays or Arrow tables, or compute it in a Python task", pickle.TypeName(o))
}

func (r *resolver) reference(k pickle.Value) (any, error) {
	key, err := KeyOf(k)
	if err != nil {
		return nil, err
	}
	v, err := r.get(key)
	if err != nil {
		return nil, err
	}
	return task.As[any](v)
}

// node converts a Dask graph node among the arguments.
func (r *resolver) node(t *pickle.Task, depth int) (any, error) {
	switch t.Class {
	case "DataNode":
		return r.value(t.Value, depth+1)
	case "List":
		return r.list(t.Args, depth)
	case "Tuple":
		l, err := r.list(t.Args, depth)
		return wire.Tuple(l), err
	case "Set":
		l, err := r.list(t.Args, depth)
		return wire.Set(l), err
	case "Dict":
		if len(t.Args)%2 != 0 {
			break
		}
		d := make(wire.Dict, 0, min(len(t.Args)/2, r.left))
		for i := 0; i < len(t.Args); i += 2 {
			var err error
			if d, err = r.pair(d, t.Args[i], t.Args[i+1], depth); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	name, _ := pickle.FuncName(t.Func)
	return nil, fmt.Errorf("nested call of Python function %s; compute it in a separate task and pass that", name)
}
