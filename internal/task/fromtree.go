package task

import (
	"bytes"
	"cmp"
	"encoding"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"time"

	"go.millstream.dev/wire"
)

// fromTree sets v to a decoded value: it converts Python types to the types of the Go program. It copies the value.
func fromTree(x any, v reflect.Value, depth int) error {
	t := v.Type()
	if depth > maxDepth {
		return fmt.Errorf("value is nested too deeply")
	}
	if reflect.PointerTo(t).Implements(refType) {
		return fromTree(x, v.Addr().Interface().(treeRef).treeValue(), depth+1)
	}
	if x == nil {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
			v.SetZero()
			return nil
		}
		return mismatch(x, t)
	}
	switch t {
	case timeType:
		return timeFrom(x, v)
	case bigIntType:
		if n, ok := wholeNumber(x); ok {
			v.Set(reflect.ValueOf(new(big.Int).Set(n)))
			return nil
		}
		return mismatch(x, t)
	case reflect.TypeFor[time.Duration]():
		if d, ok := x.(time.Duration); ok {
			v.SetInt(int64(d))
			return nil
		}
	}
	if xt := reflect.TypeOf(x); xt.AssignableTo(t) {
		v.Set(reflect.ValueOf(wire.Clone(x)))
		return nil
	}
	if a, ok := x.(*wire.DeviceArray); ok && t == bufferType {
		v.Set(reflect.ValueOf(arrayBuffer(a)))
		return nil
	}
	pt := reflect.PointerTo(t)
	if b, ok := x.([]byte); ok && t.Kind() != reflect.Pointer && pt.Implements(unmarshalerType) &&
		pt.Implements(marshalerType) {
		return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(bytes.Clone(b))
	}
	return kindFrom(x, v, depth)
}

func mismatch(x any, t reflect.Type) error {
	if x == nil {
		return fmt.Errorf("cannot convert None to %v", t)
	}
	return fmt.Errorf("%s cannot be converted to %v", describe(x), t)
}

func timeFrom(x any, v reflect.Value) error {
	switch x := x.(type) {
	case time.Time:
		v.Set(reflect.ValueOf(x))
	case wire.NaiveTime:
		v.Set(reflect.ValueOf(x.Time))
	case string:
		t, err := time.Parse(time.RFC3339Nano, x)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(t))
	default:
		return mismatch(x, timeType)
	}
	return nil
}

func kindFrom(x any, v reflect.Value, depth int) error {
	t := v.Type()
	switch t.Kind() {
	case reflect.Bool:
		if b, ok := x.(bool); ok {
			v.SetBool(b)
			return nil
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := wholeNumber(x); ok && n.IsInt64() && !v.OverflowInt(n.Int64()) {
			v.SetInt(n.Int64())
			return nil
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n, ok := wholeNumber(x); ok && n.IsUint64() && !v.OverflowUint(n.Uint64()) {
			v.SetUint(n.Uint64())
			return nil
		}
	case reflect.Float32, reflect.Float64:
		if f, ok := realNumber(x); ok {
			v.SetFloat(f)
			return nil
		}
	case reflect.Complex64, reflect.Complex128:
		if c, ok := x.(complex128); ok {
			v.SetComplex(c)
			return nil
		}
		if f, ok := realNumber(x); ok {
			v.SetComplex(complex(f, 0))
			return nil
		}
	case reflect.String:
		switch x := x.(type) {
		case string:
			v.SetString(x)
			return nil
		case []byte:
			v.SetString(string(x))
			return nil
		}
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return fromTree(x, v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return listFrom(x, v, depth)
	case reflect.Map:
		return mapFrom(x, v, depth)
	case reflect.Struct:
		return structFrom(x, v, depth)
	}
	return mismatch(x, t)
}

// wholeNumber returns an integer of any type that messages can have; a float is not an integer.
func wholeNumber(x any) (*big.Int, bool) {
	switch x := x.(type) {
	case *big.Int:
		return x, x != nil
	}
	v := reflect.ValueOf(x)
	switch {
	case v.CanInt():
		return big.NewInt(v.Int()), true
	case v.CanUint():
		return new(big.Int).SetUint64(v.Uint()), true
	}
	if s, ok := x.(interface{ Value() any }); ok { // a numpy scalar
		if y := s.Value(); y != nil {
			return wholeNumber(y)
		}
	}
	return nil, false
}

// realNumber returns a float, or an integer that a float represents exactly.
func realNumber(x any) (float64, bool) {
	if v := reflect.ValueOf(x); v.CanFloat() {
		return v.Float(), true
	}
	if n, ok := wholeNumber(x); ok {
		f, acc := new(big.Float).SetInt(n).Float64()
		return f, acc == big.Exact && !math.IsInf(f, 0)
	}
	if s, ok := x.(interface{ Value() any }); ok {
		if f, ok := s.Value().(float64); ok {
			return f, true
		}
	}
	return 0, false
}

func listFrom(x any, v reflect.Value, depth int) error {
	t := v.Type()
	var items []any
	switch x := x.(type) {
	case []byte:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesFrom(x, v)
		}
		return mismatch(x, t)
	case wire.ByteArray:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesFrom(x, v)
		}
		return mismatch(x, t)
	case *wire.NDArray:
		return arrayFrom(x, v)
	case []any:
		items = x
	case wire.Tuple:
		items = x
	case wire.Set:
		items = x
	case wire.FrozenSet:
		items = x
	default:
		return mismatch(x, t)
	}
	if t.Kind() == reflect.Array {
		if len(items) != t.Len() {
			return fmt.Errorf("%d elements for a %v", len(items), t)
		}
	} else {
		v.Set(reflect.MakeSlice(t, len(items), len(items)))
	}
	for i, it := range items {
		if err := fromTree(it, v.Index(i), depth+1); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func bytesFrom(x []byte, v reflect.Value) error {
	if v.Kind() == reflect.Slice {
		v.SetBytes(append(make([]byte, 0, len(x)), x...))
		return nil
	}
	if len(x) != v.Len() {
		return fmt.Errorf("%d bytes for a %v", len(x), v.Type())
	}
	reflect.Copy(v, reflect.ValueOf(x))
	return nil
}

// arrayFrom copies a numpy array of one dimension to a slice: as memory if the types are equal, otherwise element by
// element.
func arrayFrom(a *wire.NDArray, v reflect.Value) error {
	t := v.Type()
	if len(a.Shape) != 1 {
		return fmt.Errorf("array of %d dimensions cannot be converted to %v", len(a.Shape), t)
	}
	if t.Kind() == reflect.Slice {
		ok, err := sameMemory(a, v)
		if ok || err != nil {
			return err
		}
	}
	items, err := elements(a)
	if err != nil {
		return err
	}
	if t.Kind() == reflect.Array && items.Len() != t.Len() {
		return fmt.Errorf("%d elements for a %v", items.Len(), t)
	}
	if t.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(t, items.Len(), items.Len()))
	}
	for i := range items.Len() {
		if err := fromTree(items.Index(i).Interface(), v.Index(i), 0); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// sameMemory copies an array to a slice with the same type of elements. It reports whether the types are equal.
func sameMemory(a *wire.NDArray, v reflect.Value) (bool, error) {
	elem := v.Type().Elem()
	if elem.Kind() == reflect.Int || elem.Kind() == reflect.Uint {
		if a.DType != wire.Int64 && a.DType != wire.Uint64 || (a.DType == wire.Int64) != (elem.Kind() == reflect.Int) {
			return false, nil
		}
	}
	items, err := elements(a)
	if err != nil {
		return false, err
	}
	if items.Type().Elem().Kind() == elem.Kind() || elem.Kind() == reflect.Int || elem.Kind() == reflect.Uint {
		out := reflect.MakeSlice(v.Type(), items.Len(), items.Len())
		if items.Type().Elem() == elem {
			reflect.Copy(out, items)
		} else {
			for i := range items.Len() {
				out.Index(i).Set(items.Index(i).Convert(elem))
			}
		}
		v.Set(out)
		return true, nil
	}
	return false, nil
}

// maxBroadcast is how many bytes an array may have beyond its memory when its repeated elements are copied.
const maxBroadcast = 256 << 20

// elements returns the elements of an array as a slice of their type.
func elements(a *wire.NDArray) (reflect.Value, error) {
	if err := a.Check(); err != nil {
		return reflect.Value{}, err
	}
	if size := a.DType.ItemSize(); size > 0 && a.Len() > (len(a.Data)+maxBroadcast)/size {
		return reflect.Value{}, fmt.Errorf("array that repeats %d bytes %d times is too large for a slice; use "+
			"*wire.NDArray", len(a.Data), a.Len())
	}
	switch a.DType {
	case wire.Float64:
		return slice(wire.Elements[float64](a))
	case wire.Float32:
		return slice(wire.Elements[float32](a))
	case wire.Int64:
		return slice(wire.Elements[int64](a))
	case wire.Int32:
		return slice(wire.Elements[int32](a))
	case wire.Int16:
		return slice(wire.Elements[int16](a))
	case wire.Int8:
		return slice(wire.Elements[int8](a))
	case wire.Uint64:
		return slice(wire.Elements[uint64](a))
	case wire.Uint32:
		return slice(wire.Elements[uint32](a))
	case wire.Uint16:
		return slice(wire.Elements[uint16](a))
	case wire.Uint8:
		return slice(wire.Elements[uint8](a))
	case wire.Bool:
		return slice(wire.Elements[bool](a))
	case wire.Complex64:
		return slice(wire.Elements[complex64](a))
	case wire.Complex128:
		return slice(wire.Elements[complex128](a))
	}
	return reflect.Value{}, fmt.Errorf("array of %s cannot be converted to a slice", a.DType)
}

func slice[T any](v []T, err error) (reflect.Value, error) { return reflect.ValueOf(v), err }

// asKey returns the key of a map with tuples instead of lists: a dict has no lists as keys, but the body of a message
// has no tuples.
func asKey(x any) any {
	list, ok := x.([]any)
	if !ok {
		return x
	}
	out := make(wire.Tuple, len(list))
	for i, item := range list {
		out[i] = asKey(item)
	}
	return out
}

func mapFrom(x any, v reflect.Value, depth int) error {
	t := v.Type()
	d, ok := x.(wire.Dict)
	if !ok {
		return mismatch(x, t)
	}
	out := reflect.MakeMap(t)
	for _, p := range d {
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if err := fromTree(asKey(p.Key), k, depth+1); err != nil {
			return fmt.Errorf("key %v: %w", p.Key, err)
		}
		if !k.Comparable() {
			return fmt.Errorf("key %v cannot be compared", p.Key)
		}
		if err := fromTree(p.Value, e, depth+1); err != nil {
			return fmt.Errorf("value of %v: %w", p.Key, err)
		}
		out.SetMapIndex(k, e)
	}
	v.Set(out)
	return nil
}

// structFrom sets the fields that the dict has, or all fields from a tuple of keyTree. An unknown field is an error,
// because it would be lost.
func structFrom(x any, v reflect.Value, depth int) error {
	t := v.Type()
	fields, err := fieldsOf(t)
	if err != nil {
		return err
	}
	if key, ok := x.(wire.Tuple); ok && len(key) == len(fields) { // a key of a map
		for i, f := range fields {
			if err := fromTree(key[i], v.Field(f.index), depth+1); err != nil {
				return fmt.Errorf("field %s: %w", f.name, err)
			}
		}
		return nil
	}
	d, ok := x.(wire.Dict)
	if !ok {
		return mismatch(x, t)
	}
	for _, p := range d {
		name, _ := p.Key.(string)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return fmt.Errorf("%v has no field %v", t, p.Key)
		}
		if err := fromTree(p.Value, v.Field(fields[i].index), depth+1); err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	return nil
}

// sortedMapKeys returns the keys of a map in a deterministic order.
func sortedMapKeys(v reflect.Value) []reflect.Value {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch {
		case a.CanInt():
			return cmp.Compare(a.Int(), b.Int())
		case a.CanUint():
			return cmp.Compare(a.Uint(), b.Uint())
		case a.CanFloat():
			return cmp.Compare(a.Float(), b.Float())
		case a.Kind() == reflect.String:
			return cmp.Compare(a.String(), b.String())
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return keys
}
