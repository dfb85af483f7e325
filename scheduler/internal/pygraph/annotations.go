package pygraph

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// Annotations reads the dict of annotations that a client pickles together with its graph. They apply to all of its
// tasks.
//
// ok is false if only Python can evaluate them: a callable has to be called with each key. The error is for values that
// Dask would reject too.
func Annotations(tree pickle.Value) (a taskgraph.Annotations, ok bool, err error) {
	d, isDict := tree.(*pickle.Dict)
	if !isDict {
		return a, false, nil
	}
	if a.Raw, err = appendPlain(nil, d, plainDepth); err != nil {
		return taskgraph.Annotations{}, false, nil
	}
	if d.Len() == 0 {
		a.Raw = nil
		return a, true, nil
	}
	for k, v := range d.All() {
		name, isText := k.(string)
		if !isText {
			return taskgraph.Annotations{}, false, nil
		}
		if v == nil {
			continue
		}
		if err := annotation(&a, name, v); err != nil {
			return taskgraph.Annotations{}, false, fmt.Errorf("annotation %.40s: %w", name, err)
		}
	}
	return a, true, nil
}

// annotation reads an annotation that is known to the scheduler. Dask has two names for some.
func annotation(a *taskgraph.Annotations, name string, v pickle.Value) (err error) {
	switch name {
	case "workers", "restrictions":
		a.Workers, err = workers(v)
	case "allow_other_workers", "loose_restrictions":
		a.AllowOtherWorkers, err = truth(v)
	case "resources":
		a.Resources, err = resources(v)
	case "priority":
		a.HasPriority = true
		if a.Priority, err = number(v); err == nil && math.IsNaN(a.Priority) {
			err = errors.New("not a number")
		}
	case "retries":
		n, isInt := v.(int64)
		if b, isBool := v.(bool); isBool {
			isInt = true
			if b {
				n = 1
			}
		}
		if !isInt || n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("%.40s is not a count", pickle.Repr(v))
		}
		a.Retries = int(n)
	}
	return err
}

// workers reads one worker or several. Names are numbers if clusters of Dask have assigned them.
func workers(v pickle.Value) ([]string, error) {
	var list []pickle.Value
	switch x := v.(type) {
	case *pickle.List:
		list = x.Items
	case pickle.Tuple:
		list = x
	case *pickle.Set:
		list = x.Items
	default:
		list = []pickle.Value{v}
	}
	out := make([]string, 0, len(list))
	for _, w := range list {
		switch w := w.(type) {
		case string:
			out = append(out, w)
		case int64:
			out = append(out, strconv.FormatInt(w, 10))
		default:
			return nil, fmt.Errorf("%.40s is not a worker", pickle.Repr(w))
		}
	}
	return out, nil
}

// truth reads a bool, or a value that Python accepts as one.
func truth(v pickle.Value) (bool, error) {
	switch x := v.(type) {
	case bool:
		return x, nil
	case int64:
		return x != 0, nil
	}
	return false, fmt.Errorf("%.40s is not a bool", pickle.Repr(v))
}

func number(v pickle.Value) (float64, error) {
	switch x := v.(type) {
	case int64:
		return float64(x), nil
	case float64:
		return x, nil
	case bool:
		if x {
			return 1, nil
		}
		return 0, nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(x).Float64()
		return f, nil
	}
	return 0, fmt.Errorf("%.40s is not a number", pickle.Repr(v))
}

func resources(v pickle.Value) (map[string]float64, error) {
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, fmt.Errorf("%.40s is not a dict", pickle.Repr(v))
	}
	out := make(map[string]float64, d.Len())
	for k, v := range d.All() {
		name, ok := k.(string)
		amount, err := number(v)
		if !ok || err != nil || !(amount >= 0) {
			return nil, fmt.Errorf("invalid amount %.40s of resource %.40s", pickle.Repr(v), pickle.Repr(k))
		}
		out[name] = amount
	}
	return out, nil
}

// Bounds of annotations, which are sent with every task.
const (
	plainDepth = 32
	plainBytes = 1 << 20
)

// errPlain is returned for values that msgpack cannot encode.
var errPlain = errors.New("not plain data")

// appendPlain appends plain data as msgpack; a set becomes a list.
func appendPlain(dst []byte, v pickle.Value, depth int) (_ []byte, err error) {
	if depth == 0 || len(dst) > plainBytes {
		return dst, errPlain
	}
	list := func(items []pickle.Value) ([]byte, error) {
		dst = msgpack.AppendArrayHeader(dst, len(items))
		for _, item := range items {
			if dst, err = appendPlain(dst, item, depth-1); err != nil {
				return dst, err
			}
		}
		return dst, nil
	}
	switch x := v.(type) {
	case nil:
		return msgpack.AppendNil(dst), nil
	case bool:
		return msgpack.AppendBool(dst, x), nil
	case int64:
		return msgpack.AppendInt(dst, x), nil
	case float64:
		return msgpack.AppendFloat(dst, x), nil
	case string:
		if !utf8.ValidString(x) {
			return dst, errPlain
		}
		return msgpack.AppendString(dst, x), nil
	case []byte:
		return msgpack.AppendBytes(dst, x), nil
	case pickle.Tuple:
		return list(x)
	case *pickle.List:
		return list(x.Items)
	case *pickle.Set:
		return list(x.Items)
	case *pickle.FrozenSet:
		return list(x.Items)
	case *pickle.Dict:
		dst = msgpack.AppendMapHeader(dst, x.Len())
		for k, v := range x.All() {
			if dst, err = appendPlain(dst, k, depth-1); err != nil {
				return dst, err
			}
			if dst, err = appendPlain(dst, v, depth-1); err != nil {
				return dst, err
			}
		}
		return dst, nil
	}
	return dst, errPlain
}
