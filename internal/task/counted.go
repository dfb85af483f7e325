package task

import (
	"reflect"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Memory of GPUs and of pools is counted, and the garbage collector does not free it. The owners of references are:
//
//   - A task borrows its arguments until it returns. To keep one longer it must retain it (DeviceArray.Retain,
//     Buffer.Retain).
//   - A task passes on its result, with one reference for each array or buffer in it. The result is immutable from then
//     on. An argument that is returned unchanged, as the same *DeviceArray, is recognized: see Handover.
//   - A Value owns the references of its live value, and releases them in Release.
//   - Values that a client has gathered belong to the caller: see Release.

var (
	deviceArrayType = reflect.TypeFor[*wire.DeviceArray]()
	bufferType      = reflect.TypeFor[*mem.Buffer]()
	serializedType  = reflect.TypeFor[*wire.Serialized]()
)

// Release releases the counted memory that a value holds: device arrays and buffers, also within slices, maps and
// structs. Call it once for results that were gathered. Values without such memory are not changed.
func Release(v any) {
	eachCounted(v, func(x any) {
		switch x := x.(type) {
		case *wire.DeviceArray:
			x.Release()
		case *mem.Buffer:
			x.Release()
		case *wire.Object:
			for _, f := range x.Frames {
				f.Release()
			}
		case *wire.Serialized:
			x.Release()
		}
	})
}

// retain adds a reference to one counted object.
func retain(x any) {
	switch x := x.(type) {
	case *wire.DeviceArray:
		x.Frame.Retain()
	case *mem.Buffer:
		x.Retain()
	case *wire.Object:
		for _, f := range x.Frames {
			f.Retain()
		}
	case *wire.Serialized:
		x.Retain()
	}
}

// Handover adds references to a result that contains device arrays of the arguments, so that a function may return its
// argument.
func Handover(result any, args []*Value) {
	var mine []*wire.DeviceArray
	eachCounted(result, func(x any) {
		if a, ok := x.(*wire.DeviceArray); ok && a.Buffer() != nil {
			mine = append(mine, a)
		}
	})
	if len(mine) == 0 {
		return
	}
	lent := map[*wire.DeviceArray]bool{}
	for _, v := range args {
		if live, ok := v.Live(); ok {
			eachCounted(live, func(x any) {
				if a, ok := x.(*wire.DeviceArray); ok {
					lent[a] = true
				}
			})
		}
	}
	for _, a := range mine {
		if lent[a] {
			retain(a) // the array is the same object: its frame is counted twice
		}
	}
}

// eachCounted calls f with each counted object in a value.
func eachCounted(v any, f func(any)) {
	switch x := v.(type) {
	case nil, bool, int, int64, int32, float64, float32, uint64, uint32, string, []byte, []float64, []float32, []int,
		[]int64, *wire.NDArray:
		return // the most common types
	case *wire.DeviceArray:
		if x != nil {
			f(x)
		}
		return
	case *mem.Buffer:
		if x != nil {
			f(x)
		}
		return
	}
	if rv := reflect.ValueOf(v); mayCount(rv.Type()) {
		walkCounted(rv, f, 0)
	}
}

func walkCounted(v reflect.Value, f func(any), depth int) {
	if depth > maxDepth {
		return
	}
	switch t := v.Type(); {
	case t == deviceArrayType || t == bufferType || t == objectType || t == serializedType:
		if !v.IsNil() {
			f(v.Interface())
		}
		return
	case !mayCount(t):
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			walkCounted(v.Elem(), f, depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walkCounted(v.Index(i), f, depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walkCounted(it.Value(), f, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walkCounted(v.Field(i), f, depth+1)
			}
		}
	}
}

var counting sync.Map // reflect.Type to bool

// mayCount reports whether values of a type can contain counted memory.
func mayCount(t reflect.Type) bool {
	if known, ok := counting.Load(t); ok {
		return known.(bool)
	}
	may := couldCount(t, map[reflect.Type]bool{})
	counting.Store(t, may)
	return may
}

// couldCount checks the parts of a type, each once: a type may contain itself.
func couldCount(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t {
	case deviceArrayType, bufferType, objectType, serializedType:
		return true
	}
	if isWire(t) && t.Kind() != reflect.Slice || seen[t] {
		return false // no counted memory within, or checked further up
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return t.NumMethod() == 0 // any
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return couldCount(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && couldCount(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
