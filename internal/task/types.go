package task

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/libcodec"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

var (
	bigIntType = reflect.TypeFor[*big.Int]()
	objectType = reflect.TypeFor[*wire.Object]()
)

// hasCodec reports whether a codec of package wire encodes values of a type, such as an Arrow table if the program
// imports package frame.
func hasCodec(t reflect.Type) bool {
	if t == nil {
		return false
	}
	for _, c := range libcodec.Types() {
		if t.Implements(c) {
			return true
		}
	}
	return false
}

// types maps names to the types that a value of type any may have: basic Go types, those of registered functions, and
// those of RegisterType.
var types struct {
	sync.RWMutex
	byName map[string]reflect.Type
}

// RegisterType registers a type by its name, so that its values can be passed to parameters of type any. Basic types
// and the parameter and result types of functions are already registered.
func RegisterType[T any]() { noteType(reflect.TypeFor[T]()) }

// noteType registers a type and its parts.
func noteType(t reflect.Type) {
	types.Lock()
	defer types.Unlock()
	note(t)
}

// note is noteType for callers that hold the lock.
func note(t reflect.Type) {
	if t == nil || t.Kind() == reflect.Interface {
		return
	}
	if t == deviceArrayType || t == bufferType { // predefined, without their fields
		return
	}
	name := fullName(t)
	if _, ok := types.byName[name]; ok {
		return
	}
	if types.byName == nil {
		types.byName = make(map[string]reflect.Type)
	}
	types.byName[name] = t
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		note(t.Elem())
	case reflect.Map:
		note(t.Key())
		note(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				note(f.Type)
			}
		}
	}
}

// typeByName returns a type: a registered one, or slices of and pointers to one.
func typeByName(name []byte) (reflect.Type, bool) {
	types.RLock()
	defer types.RUnlock()
	return findType(name, 3)
}

// findType recurses only a few levels: reflect never frees a type.
func findType(name []byte, depth int) (reflect.Type, bool) {
	if t, ok := types.byName[string(name)]; ok || depth == 0 {
		return t, ok
	}
	if elem, ok := bytes.CutPrefix(name, []byte("[]")); ok {
		if t, ok := findType(elem, depth-1); ok {
			return reflect.SliceOf(t), true
		}
	}
	if elem, ok := bytes.CutPrefix(name, []byte("*")); ok {
		if t, ok := findType(elem, depth-1); ok {
			return reflect.PointerTo(t), true
		}
	}
	return nil, false
}

// ambiguous reports whether another type is registered with the same name, which is possible for types within
// functions.
func ambiguous(t reflect.Type) bool {
	known, ok := typeByName([]byte(fullName(t)))
	return ok && known != t
}

// fullName returns the name of a type with the paths of packages: the same in every process.
func fullName(t reflect.Type) string {
	if n := typeName(t); n != "" {
		return n
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + fullName(t.Elem())
	case reflect.Slice:
		return "[]" + fullName(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), fullName(t.Elem()))
	case reflect.Map:
		return "map[" + fullName(t.Key()) + "]" + fullName(t.Elem())
	}
	return t.String()
}

func init() {
	for _, v := range []any{
		false, 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), uintptr(0),
		float32(0), float64(0), complex64(0), complex128(0), "", time.Time{}, time.Duration(0),
		[]bool(nil), []int(nil), []int8(nil), []int16(nil), []int32(nil), []int64(nil), []uint(nil), []byte(nil),
		[]uint16(nil),
		[]uint32(nil), []uint64(nil), []float32(nil), []float64(nil), []complex64(nil), []complex128(nil),
		[]string(nil), []any(nil),
		[][]byte(nil), [][]float64(nil), [][]int(nil), [][]string(nil),
		map[string]any(nil), map[string]string(nil), map[string]int(nil), map[string]int64(nil),
		map[string]float64(nil), map[int]int(nil), map[int]string(nil),
		(*wire.NDArray)(nil), (*wire.DeviceArray)(nil), (*mem.Buffer)(nil), (*wire.Object)(nil), wire.Dict(nil),
		wire.Tuple(nil), wire.Set(nil), wire.FrozenSet(nil),
		wire.ByteArray(nil), wire.NaiveTime{}, wire.Date{}, wire.TimeOfDay{}, (*big.Int)(nil),
	} {
		t := reflect.TypeOf(v)
		if isWire(t) || t == bufferType { // without their fields
			types.byName[fullName(t)] = t
			continue
		}
		noteType(t)
	}
}

// appendAny encodes the name of the dynamic type and the value.
func appendAny(b *Builder, v reflect.Value) error {
	if v.IsNil() {
		b.args = msgpack.AppendNil(b.args)
		return nil
	}
	v = v.Elem()
	name := fullName(v.Type())
	switch known, ok := typeByName([]byte(name)); {
	case ok && known != v.Type():
		return &EncodeError{Type: v.Type(),
			Reason: "another type with this name is registered, which is possible for types within two functions " +
				"of one package; declare the type at package level, or rename it"}
	case !ok:
		return &EncodeError{Type: v.Type(), Reason: fmt.Sprintf("the other process cannot decode the type of this "+
			"any; call task.RegisterType[%v]() in an init function, or use the type as a parameter or result "+
			"of a function", v.Type())}
	}
	if err := b.descend(v.Type()); err != nil {
		return err
	}
	b.args = msgpack.AppendString(b.args, name)
	err := planOf(v.Type()).append(b, v)
	b.depth--
	return err
}

func readAny(r *reader, v reflect.Value) error {
	if r.TryNil() {
		v.SetZero()
		return nil
	}
	name, err := r.ReadStringBytes()
	if err != nil {
		return err
	}
	t, ok := typeByName(name)
	if !ok {
		if len(name) > MaxName {
			name = name[:MaxName]
		}
		return &SpecError{Reason: fmt.Sprintf("value of the unregistered type %s; call "+
			"task.RegisterType for the type in an init function", name)}
	}
	if err := r.descend(); err != nil {
		return err
	}
	x := reflect.New(t).Elem()
	if err := planOf(t).read(r, x); err != nil {
		return err
	}
	r.depth--
	v.Set(x)
	return nil
}

// wirePlan returns the plan of values that only package wire can encode.
func wirePlan(t reflect.Type) (func(*Builder, reflect.Value) error, func(*reader, reflect.Value) error) {
	return func(b *Builder, v reflect.Value) error {
			switch v.Kind() {
			case reflect.Pointer, reflect.Interface, reflect.Slice:
				if v.IsNil() {
					b.args = msgpack.AppendNil(b.args)
					return nil
				}
			}
			s, err := wire.EncodeValue(v.Interface(), wire.EncodeOptions{})
			if err != nil {
				return &EncodeError{Type: t, Reason: err.Error()}
			}
			defer s.Release()
			return b.encodeSerialized(t, s)
		}, func(r *reader, v reflect.Value) error {
			if r.TryNil() {
				v.SetZero()
				return nil
			}
			s, err := r.decodeSerialized()
			if err != nil {
				return err
			}
			x, err := s.Decode(wire.DecodeOptions{})
			if err != nil {
				return err
			}
			return setFrom(v, wire.Clone(x))
		}
}

// encodeSerialized encodes header and frames.
func (b *Builder) encodeSerialized(t reflect.Type, s *wire.Serialized) error {
	b.args = msgpack.AppendArrayHeader(b.args, 1+len(s.Frames))
	b.args = msgpack.AppendBytes(b.args, s.Header)
	for _, f := range s.Frames {
		if f.OnDevice() {
			return &EncodeError{Type: t, Reason: "the value is in GPU memory; scatter it and pass the future"}
		}
		if f.Len() > msgpack.MaxLen {
			return tooLargeError(t)
		}
		b.args = msgpack.AppendBytes(b.args, f.Bytes())
	}
	return nil
}

func (r *reader) decodeSerialized() (*wire.Serialized, error) {
	n, err := r.ReadArrayLen()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &SpecError{Reason: "serialized value without a header"}
	}
	s := new(wire.Serialized)
	for i := range n {
		p, err := r.ReadBytes()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.Header = p
		} else {
			s.Frames = append(s.Frames, wire.HeapFrame(p))
		}
	}
	return s, nil
}

// setFrom sets v to a decoded value of a type of package wire.
func setFrom(v reflect.Value, x any) error {
	if x == nil {
		v.SetZero()
		return nil
	}
	if xv := reflect.ValueOf(x); xv.Type().AssignableTo(v.Type()) {
		v.Set(xv)
		return nil
	}
	return fromTree(x, v, 0)
}
