package task

import (
	"cmp"
	"reflect"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// SizeOf returns an estimate of the memory of a value in bytes, like Dask's sizeof, for the accounts of the scheduler
// and the memory limits. It samples the elements of long containers.
func SizeOf(v any) int64 {
	switch v := v.(type) {
	case nil:
		return 16
	case bool, int, int64, float64, uint64, int32, uint32, float32:
		return 16
	case string:
		return 16 + int64(len(v))
	case []byte:
		return 24 + int64(cap(v))
	case []float64:
		return 24 + 8*int64(cap(v))
	case []int:
		return 24 + 8*int64(cap(v))
	case *wire.NDArray:
		if v != nil {
			return 96 + int64(len(v.Data))
		}
		return 16
	case *wire.DeviceArray:
		if v != nil {
			return 96 + int64(v.Frame.Len())
		}
		return 16
	case *mem.Buffer:
		if v != nil {
			return 96 + int64(v.Len())
		}
		return 16
	case *wire.Serialized:
		return v.Size()
	case *wire.Object:
		n := int64(96)
		for _, f := range v.Frames {
			n += int64(f.Len())
		}
		return n
	case interface{ SizeOf() int64 }:
		return v.SizeOf()
	}
	budget := 1000
	n := sizeOf(reflect.ValueOf(v), &budget, 0) + 16
	if mayCount(reflect.TypeOf(v)) {
		eachCounted(v, func(x any) { // reflection does not see their memory
			switch x := x.(type) {
			case *wire.DeviceArray:
				n += int64(x.Frame.Len())
			case *mem.Buffer:
				n += int64(x.Len())
			}
		})
	}
	return n
}

// sizeOf returns the size of a value and of the memory that it refers to.
func sizeOf(v reflect.Value, budget *int, depth int) int64 {
	t := v.Type()
	return int64(t.Size()) + sizeBehind(v, budget, depth)
}

// sizeBehind returns the size of the memory that a value refers to.
func sizeBehind(v reflect.Value, budget *int, depth int) int64 {
	if *budget--; *budget < 0 || depth > 20 {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return sizeOf(v.Elem(), budget, depth+1)
	case reflect.Slice:
		n := int64(v.Cap()) * int64(v.Type().Elem().Size())
		return n + sampleSize(v, budget, depth)
	case reflect.Array:
		return sampleSize(v, budget, depth)
	case reflect.Map:
		per, n := int64(0), 0
		for it := v.MapRange(); n < 10 && it.Next(); n++ {
			per += sizeOf(it.Key(), budget, depth+1) + sizeOf(it.Value(), budget, depth+1)
		}
		if n == 0 {
			return 48
		}
		return 48 + per*int64(v.Len())/int64(n)
	case reflect.Struct:
		var n int64
		for i := range v.NumField() {
			n += sizeBehind(v.Field(i), budget, depth+1)
		}
		return n
	}
	return 0
}

// sampleSize returns an estimate of the memory that the elements of a list refer to, from ten of them.
func sampleSize(v reflect.Value, budget *int, depth int) int64 {
	switch v.Type().Elem().Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Struct, reflect.Array:
	default:
		return 0
	}
	const most = 10
	n := min(v.Len(), most)
	if n == 0 {
		return 0
	}
	var sum int64
	for i := range n {
		sum += sizeBehind(v.Index(i*v.Len()/n), budget, depth+1)
	}
	return sum * int64(v.Len()) / int64(n)
}

// TypeName returns the name of the type of a value, as in Python if Python has such a type.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return "int"
	case float64, float32:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case *wire.NDArray:
		return "numpy.ndarray"
	case *wire.DeviceArray:
		if v == nil {
			return "NoneType"
		}
		return cmp.Or(v.Class, wire.CuPyArray)
	case *mem.Buffer:
		return wire.RMMBuffer
	case *wire.Object:
		return v.Type
	}
	return fullName(reflect.TypeOf(v))
}
