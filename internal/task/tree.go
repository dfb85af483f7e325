package task

import (
	"encoding"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
	"unsafe"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func validText(s string) bool { return utf8.ValidString(s) }

// Millstream supports only machines with 64-bit int.
func asInt64(v []int) []int64 {
	if len(v) == 0 {
		if v == nil {
			return nil
		}
		return []int64{}
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(&v[0])), len(v))
}

func asUint64(v []uint) []uint64 {
	if len(v) == 0 {
		if v == nil {
			return nil
		}
		return []uint64{}
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&v[0])), len(v))
}

const _ = uint(unsafe.Sizeof(int(0)) - 8) // does not compile if int is shorter

// toTree converts a Go value to a tree that package pickle can encode.
func toTree(v reflect.Value, depth int) (any, error) {
	if !v.IsValid() {
		return nil, nil
	}
	t := v.Type()
	if depth > maxDepth {
		return nil, &EncodeError{Type: t, Reason: tooDeep}
	}
	if reflect.PointerTo(t).Implements(refType) {
		return toTree(addressable(v).Addr().Interface().(treeRef).treeValue(), depth+1)
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x = x.Round(0); isExact(int64(x.Nanosecond())) {
			return x, nil
		}
		return x.Format(time.RFC3339Nano), nil
	case time.Duration:
		if isExact(int64(x)) {
			return x, nil
		}
		return int64(x), nil
	case []byte:
		if x == nil {
			return nil, nil
		}
		return x, nil
	case wire.Date, wire.NaiveTime, wire.TimeOfDay, wire.Tuple:
		return x, nil
	case *wire.NDArray:
		if x == nil {
			return nil, nil
		}
		return pickledArray(x)
	case *wire.DeviceArray:
		if x == nil {
			return nil, nil
		}
		return x, nil
	case *mem.Buffer:
		if x == nil {
			return nil, nil
		}
		return bufferArray(x), nil
	}
	if isWire(t) && t != bigIntType || t == serializedType || hasCodec(t) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice:
			if v.IsNil() {
				return nil, nil
			}
		}
		return v.Interface(), nil // collect handles it
	}
	if t == bigIntType {
		return v.Interface(), nil
	}
	if a := numberArray(v.Interface()); a != nil {
		return pickledArray(a)
	}
	pt := reflect.PointerTo(t)
	if t.Kind() != reflect.Pointer && pt.Implements(marshalerType) && pt.Implements(unmarshalerType) {
		data, err := addressable(v).Addr().Interface().(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			return nil, &EncodeError{Type: t, Reason: err.Error()}
		}
		if data == nil {
			data = []byte{}
		}
		return data, nil
	}
	return kindTree(v, depth)
}

// pickledArray returns an array within another value. An array with gaps or repeated elements is returned unchanged:
// collect puts it into its own frames.
func pickledArray(a *wire.NDArray) (any, error) {
	err := a.Check()
	size := a.Len() * a.DType.ItemSize()
	if err == nil && size > 0 && !a.COrder() && !a.FOrder() {
		return a, nil
	}
	var out *pickle.Array
	if err == nil {
		data := []byte{}
		if size > 0 {
			data = a.Data[a.Offset : a.Offset+size]
		}
		out, err = pickle.NewArray(string(a.DType), a.Shape, data)
	}
	if err != nil {
		return nil, &EncodeError{Type: reflect.TypeFor[*wire.NDArray](), Reason: err.Error()}
	}
	if size > 0 && !a.COrder() {
		out.Strides = a.Strides
	}
	return out, nil
}

func kindTree(v reflect.Value, depth int) (any, error) {
	t := v.Type()
	switch t.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Complex64, reflect.Complex128:
		return v.Complex(), nil
	case reflect.String:
		if s := v.String(); validText(s) {
			return s, nil
		}
		return []byte(v.String()), nil
	case reflect.Interface:
		if t.NumMethod() > 0 && !v.IsNil() {
			return nil, unsupportedType(t)
		}
		return toTree(v.Elem(), depth+1)
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return toTree(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return listTree(v, depth)
	case reflect.Map:
		return mapTree(v, depth)
	case reflect.Struct:
		return structTree(v, depth)
	}
	return nil, unsupportedType(t)
}

func listTree(v reflect.Value, depth int) (any, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, nil
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return v.Bytes(), nil
	}
	items := make([]any, v.Len())
	for i := range items {
		x, err := toTree(v.Index(i), depth+1)
		if err != nil {
			return nil, inPath(err, fmt.Sprintf("[%d]", i))
		}
		items[i] = x
	}
	return &pickle.List{Items: items}, nil
}

// mapTree converts a map with its keys in an order in which equal maps have equal bytes.
func mapTree(v reflect.Value, depth int) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	d := new(pickle.Dict)
	for _, k := range sortedMapKeys(v) {
		key, err := keyTree(k, depth+1)
		if err != nil {
			return nil, err
		}
		x, err := toTree(v.MapIndex(k), depth+1)
		if err != nil {
			return nil, inPath(err, fmt.Sprintf("[%v]", k))
		}
		d.Set(key, x)
	}
	return d, nil
}

// keyTree converts the key of a map to a key of a dict: arrays become tuples, and structs the tuples of their fields.
func keyTree(k reflect.Value, depth int) (any, error) {
	for k.Kind() == reflect.Pointer && !k.IsNil() {
		k = k.Elem()
	}
	t := k.Type()
	if k.Kind() == reflect.Struct && !isLeaf(t) {
		fields, err := fieldsOf(t)
		if err != nil {
			return nil, err
		}
		out := make(pickle.Tuple, len(fields))
		for i, f := range fields {
			if out[i], err = keyTree(k.Field(f.index), depth+1); err != nil {
				return nil, inPath(err, "."+f.name)
			}
		}
		return out, nil
	}
	if k.Kind() == reflect.Array {
		out := make(pickle.Tuple, k.Len())
		for i := range out {
			x, err := keyTree(k.Index(i), depth+1)
			if err != nil {
				return nil, inPath(err, fmt.Sprintf("[%d]", i))
			}
			out[i] = x
		}
		return out, nil
	}
	key, err := toTree(k, depth)
	if err != nil {
		return nil, err
	}
	if _, ok := key.(*pickle.Dict); ok { // a struct in an any: readers cannot determine its type
		return nil, &EncodeError{Type: t, Reason: "a struct in an interface cannot be the key of a map; give the map " +
			"a concrete key type"}
	}
	return key, nil
}

// isLeaf reports whether a type has its own encoding, independent of its fields.
func isLeaf(t reflect.Type) bool {
	pt := reflect.PointerTo(t)
	return t == timeType || isWire(t) || pt.Implements(refType) || pt.Implements(marshalerType) &&
		pt.Implements(unmarshalerType)
}

func structTree(v reflect.Value, depth int) (any, error) {
	fields, err := fieldsOf(v.Type())
	if err != nil {
		return nil, err
	}
	d := new(pickle.Dict)
	for _, f := range fields {
		x, err := toTree(v.Field(f.index), depth+1)
		if err != nil {
			return nil, inPath(err, "."+f.name)
		}
		d.Set(f.name, x)
	}
	return d, nil
}
