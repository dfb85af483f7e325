package task

import (
	"fmt"
	"math/big"
	"reflect"
	"time"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Plain converts a Go value to a value that the body of a message can contain, as variables and queues require: nil,
// bool, numbers, strings, bytes, lists and maps. Structs become maps by the names of their fields, times strings and
// durations nanoseconds. FromPlain is the inverse.
func Plain(v any) (any, error) {
	tree, err := toTree(reflect.ValueOf(v), 0)
	if err != nil {
		return nil, err
	}
	return plain(tree, reflect.TypeOf(v))
}

func plain(x any, t reflect.Type) (any, error) {
	switch x := x.(type) {
	case nil, bool, int64, uint64, float64, string, []byte:
		return x, nil
	case time.Time:
		return x.Format(time.RFC3339Nano), nil
	case time.Duration:
		return int64(x), nil
	case *big.Int:
		if x.IsInt64() {
			return x.Int64(), nil
		}
		if x.IsUint64() {
			return x.Uint64(), nil
		}
	case *pickle.List:
		return plainList(x.Items, t)
	case pickle.Tuple:
		return plainList(x, t)
	case *pickle.Dict:
		out := make(wire.Dict, 0, len(x.Items()))
		for k, v := range x.All() {
			pk, err := plain(k, t)
			if err != nil {
				return nil, err
			}
			pv, err := plain(v, t)
			if err != nil {
				return nil, err
			}
			out = append(out, wire.Pair{Key: pk, Value: pv})
		}
		return out, nil
	case *pickle.Array:
		return plainArray(&wire.NDArray{DType: wire.DType(x.DType.String()), Shape: x.Shape, Strides: x.Strides,
			Data: x.Data}, t)
	case *wire.NDArray:
		return plainArray(x, t)
	}
	return nil, &EncodeError{Type: t, Reason: fmt.Sprintf("a %T in the value cannot be sent in the body of a message; "+
		"return it from a task and use the future", x)}
}

func plainList(items []any, t reflect.Type) (any, error) {
	out := make([]any, len(items))
	for i, it := range items {
		var err error
		if out[i], err = plain(it, t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func plainArray(a *wire.NDArray, t reflect.Type) (any, error) {
	items, err := elements(a)
	if err != nil {
		return nil, &EncodeError{Type: t, Reason: err.Error()}
	}
	out := make([]any, items.Len())
	for i := range out {
		switch v := items.Index(i); {
		case v.CanInt():
			out[i] = v.Int()
		case v.CanUint():
			out[i] = v.Uint()
		case v.CanFloat():
			out[i] = v.Float()
		case v.Kind() == reflect.Bool:
			out[i] = v.Bool()
		default:
			return nil, &EncodeError{Type: t, Reason: "numbers of this type cannot be sent in the body of a message"}
		}
	}
	return out, nil
}

// FromPlain converts a value of the body of a message to a T. It returns a *TypeError if that is not possible.
func FromPlain[T any](x any) (T, error) {
	var out T
	err := convert(x, reflect.ValueOf(&out).Elem())
	return out, err
}
