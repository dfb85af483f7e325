package pickle

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
)

// converter is a value that returns its tree: a result of Decode.
type converter interface {
	pickleTree(protocol int) (Value, error)
}

// goValue writes values that are not nodes: Go types, and results of Decode.
func (w *writer) goValue(v any) error {
	switch x := v.(type) {
	case converter:
		tree, err := x.pickleTree(w.opts.Protocol)
		if err != nil {
			return err
		}
		return w.uncounted(tree)
	case []any:
		w.op(opEmptyList)
		return w.marked(x, opAppends)
	case map[string]any:
		w.op(opEmptyDict)
		return w.stringMap(x)
	case complex128:
		return w.value(Call(Global{"builtins", "complex"}, real(x), imag(x)))
	case time.Time:
		tree, err := datetimeTree(x)
		if err != nil {
			return err
		}
		return w.value(tree)
	case time.Duration:
		return w.value(timedeltaTree(x))
	case *big.Rat:
		if x == nil {
			w.op(opNone)
			return nil
		}
		return w.value(rationalTree(x))
	case error:
		return w.value(NewException("builtins", "Exception", x.Error()))
	}
	return w.reflected(reflect.ValueOf(v))
}

func (w *writer) stringMap(m map[string]any) error {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	w.op(opMark)
	for _, k := range keys {
		w.string(k)
		if err := w.value(m[k]); err != nil {
			return err
		}
	}
	w.op(opSetItems)
	return nil
}

// reflected writes values by their kind.
func (w *writer) reflected(r reflect.Value) error {
	switch r.Kind() {
	case reflect.Bool:
		return w.value(r.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.int(r.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.big(new(big.Int).SetUint64(r.Uint()))
	case reflect.Float32, reflect.Float64:
		w.float(r.Float())
	case reflect.Complex64, reflect.Complex128:
		return w.value(r.Complex())
	case reflect.String:
		w.string(r.String())
	case reflect.Pointer, reflect.Interface:
		if r.IsNil() {
			w.op(opNone)
			return nil
		}
		if r.Kind() == reflect.Pointer && r.Elem().Kind() == reflect.Struct {
			return fmt.Errorf("cannot convert a %s to Python", r.Type())
		}
		return w.uncounted(r.Elem().Interface())
	case reflect.Slice, reflect.Array:
		if r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8 {
			w.bytes(r.Bytes())
			return nil
		}
		w.op(opEmptyList)
		if r.Len() == 0 {
			return nil
		}
		w.op(opMark)
		for i := range r.Len() {
			if err := w.uncounted(r.Index(i).Interface()); err != nil {
				return err
			}
		}
		w.op(opAppends)
	case reflect.Map:
		return w.reflectedMap(r)
	default:
		return fmt.Errorf("cannot convert a %s to Python", r.Type())
	}
	return nil
}

func (w *writer) reflectedMap(r reflect.Value) error {
	w.op(opEmptyDict)
	if r.Len() == 0 {
		return nil
	}
	keys := r.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { // any order will do, if it is always the same
		return strings.Compare(fmt.Sprintf("%T %v", a.Interface(), a.Interface()),
			fmt.Sprintf("%T %v", b.Interface(), b.Interface()))
	})
	w.op(opMark)
	for _, k := range keys {
		if err := w.value(k.Interface()); err != nil {
			return err
		}
		if err := w.uncounted(r.MapIndex(k).Interface()); err != nil {
			return err
		}
	}
	w.op(opSetItems)
	return nil
}
