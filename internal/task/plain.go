package task

import (
	"fmt"
	"math/big"
	"reflect"
	"time"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Plain turns a Go value into what the body of a message carries, which variables, queues
// and the like take: nil, bool, numbers, text, bytes, lists and maps. Structs become maps by
// the names of their fields, times text and durations nanoseconds. FromPlain is the way back.
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
	return nil, &EncodeError{Type: t, Reason: fmt.Sprintf("a %T in it has no form in a message's body: put it into a "+
		"task's result and use its future", x)}
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
			return nil, &EncodeError{Type: t, Reason: "numbers of this kind have no form in a message's body"}
		}
	}
	return out, nil
}

// FromPlain makes a T of a value out of a message's body: a *TypeError if it is none.
func FromPlain[T any](x any) (T, error) {
	var out T
	err := convert(x, reflect.ValueOf(&out).Elem())
	return out, err
}
