package task

import (
	"bytes"
	"fmt"
	"reflect"
	"time"

	"go.millstream.dev/internal/task/internal/scalar"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Headers of the most common families. Nothing in them depends on the value.
var (
	pickleHeader = mustHeader(wire.NewDict("serializer", "pickle", "writeable", []any{}, "num-sub-frames", 1))
	bytesHeader  = mustHeader(wire.NewDict("serializer", "dask", "type", "bytes", "sub-header", wire.Dict{},
		"type-serialized", pickle.AppendGlobal(nil, "builtins", "bytes"), "num-sub-frames", 1))
)

func mustHeader(h wire.Dict) []byte {
	b, err := msgpack.Append(nil, h)
	if err != nil {
		panic(err)
	}
	return b
}

// maxBody is the longest text that travels in a message's body.
const maxBody = 1 << 10

// AppendBody appends a value that a message's body can carry as it is: nil, bool, numbers
// and short text. Dask reads it as the value itself, and so it needs no frames of its own.
// It tells whether the value is one.
func AppendBody(dst []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return msgpack.AppendNil(dst), true
	case bool:
		return msgpack.AppendBool(dst, v), true
	case int:
		return msgpack.AppendInt(dst, int64(v)), true
	case int64:
		return msgpack.AppendInt(dst, v), true
	case int32:
		return msgpack.AppendInt(dst, int64(v)), true
	case int16:
		return msgpack.AppendInt(dst, int64(v)), true
	case int8:
		return msgpack.AppendInt(dst, int64(v)), true
	case uint:
		return msgpack.AppendUint(dst, uint64(v)), true
	case uint64:
		return msgpack.AppendUint(dst, v), true
	case uint32:
		return msgpack.AppendUint(dst, uint64(v)), true
	case uint16:
		return msgpack.AppendUint(dst, uint64(v)), true
	case uint8:
		return msgpack.AppendUint(dst, uint64(v)), true
	case float64:
		return msgpack.AppendFloat(dst, v), true
	case float32:
		return msgpack.AppendFloat(dst, float64(v)), true
	case string:
		if len(v) <= maxBody && validText(v) {
			return msgpack.AppendString(dst, v), true
		}
	}
	return dst, false
}

// ReadBody reads what AppendBody wrote, or any other plain value of a body, into a T.
func ReadBody[T any](raw []byte) (T, error) {
	var out T
	r := msgpack.NewReader(raw)
	var err error
	switch p := any(&out).(type) {
	case *int:
		if r.Kind() == msgpack.Int {
			var n int64
			n, err = r.ReadInt()
			*p = int(n)
			return out, err
		}
	case *float64:
		if r.Kind() == msgpack.Float {
			*p, err = r.ReadFloat()
			return out, err
		}
	case *string:
		if r.Kind() == msgpack.Str {
			*p, err = r.ReadString()
			return out, err
		}
	case *bool:
		if r.Kind() == msgpack.Bool {
			*p, err = r.ReadBool()
			return out, err
		}
	}
	v, err := msgpack.Decode(raw)
	if err != nil {
		return out, &SpecError{Reason: "a value in a message", Err: err}
	}
	err = convert(v, reflect.ValueOf(&out).Elem())
	return out, err
}

// EncodeValue makes the frames of a value: as Python knows it where Python has such a value
// (None, bool, int, float, str, bytes, numpy arrays for slices of numbers, Arrow tables, buffers
// as RMM's, and package wire's types), else a pickle of dicts and lists whose header names the Go
// type in "go-type": Python sees a dict. The frames borrow the value's memory, or have references
// of their own where it is counted. Slices, maps and structs with Arrow data, device arrays or other
// types of package wire in them travel as Dask's lists and dicts do, each such value in frames of
// its own.
//
// Times and durations keep their nanoseconds: those that Python's types cannot hold travel
// as text and as a count of nanoseconds.
func EncodeValue(v any) (*wire.Serialized, error) {
	switch x := v.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return encodeScalar(v)
	case string:
		if validText(x) {
			return encodeScalar(v)
		}
	case []byte:
		if x != nil {
			return &wire.Serialized{Header: bytesHeader, Frames: []wire.Frame{wire.HeapFrame(x)}}, nil
		}
	case *wire.Serialized:
		return x.Retain(), nil
	case *mem.Buffer:
		if x != nil {
			return encodeWire(bufferArray(x))
		}
	}
	if v != nil {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Pointer && (isWire(t) || t == bufferType) && reflect.ValueOf(v).IsNil() {
			return encodeScalar(nil)
		}
		if isWire(t) || hasCodec(t) {
			return encodeWire(v)
		}
		if a := numberArray(v); a != nil {
			return encodeWire(a)
		}
	}
	return encodeTree(v)
}

func encodeScalar(v any) (*wire.Serialized, error) {
	b, err := pickle.Append(make([]byte, 0, 16), v, pickle.Options{})
	if err != nil {
		return nil, &EncodeError{Type: reflect.TypeOf(v), Reason: err.Error()}
	}
	return &wire.Serialized{Header: pickleHeader, Frames: []wire.Frame{wire.HeapFrame(b)}}, nil
}

func encodeWire(v any) (*wire.Serialized, error) {
	s, err := wire.EncodeValue(v, wire.EncodeOptions{ShardSize: 1 << 62})
	if err != nil {
		return nil, &EncodeError{Type: reflect.TypeOf(v), Reason: err.Error()}
	}
	return s, nil
}

// encodeTree pickles a Go value by reflection, with the memory of arrays out of band.
func encodeTree(v any) (*wire.Serialized, error) {
	tree, err := toTree(reflect.ValueOf(v), 0)
	if err != nil {
		return nil, err
	}
	if c, ok := collected(tree); ok {
		return encodeCollected(c, reflect.TypeOf(v))
	}
	var bufs [][]byte
	data, err := pickle.Append(nil, tree, pickle.Options{Protocol: 5, Buffers: &bufs})
	if err != nil {
		return nil, &EncodeError{Type: reflect.TypeOf(v), Reason: err.Error()}
	}
	frames := make([]wire.Frame, 0, 1+len(bufs))
	frames = append(frames, wire.HeapFrame(data))
	writeable := make([]any, len(bufs))
	for i, b := range bufs {
		frames = append(frames, wire.HeapFrame(b))
		writeable[i] = true
	}
	h := wire.NewDict("serializer", "pickle", "writeable", writeable)
	if t := reflect.TypeOf(v); !ambiguous(t) {
		h.Set("go-type", fullName(t))
	}
	h.Set("num-sub-frames", len(frames))
	header, err := msgpack.Append(nil, h)
	if err != nil {
		return nil, err
	}
	return &wire.Serialized{Header: header, Frames: frames}, nil
}

// DecodeInto opens a value into what dst points to. What it makes shares no memory with the
// frames, except for values of Arrow and of GPUs, which take references.
func DecodeInto[T any](s *wire.Serialized, dst *T) error { return decodeAs(s, dst, wire.Clone) }

func decodeAs[T any](s *wire.Serialized, dst *T, own func(any) any) error {
	if len(s.Frames) == 1 && !s.Frames[0].OnDevice() && bytes.Equal(s.Header, pickleHeader) {
		if ok := scalar.Into(s.Frames[0].Bytes(), dst); ok {
			return nil
		}
	}
	return decodeInto(s, reflect.ValueOf(dst).Elem(), own)
}

// shareFrom is the length in bytes from which decoded bytes may share the memory of their
// frame. Smaller ones lie together in frames that they would keep alive.
const shareFrom = 64 << 10

// share is wire.Clone for values that nobody changes: long bytes, arrays and tables in memory
// of Go's heap stay where they are.
func share(frames []wire.Frame) func(any) any {
	for _, f := range frames {
		if f.Buffer() != nil {
			return wire.Clone // it goes back to its pool one day
		}
	}
	return func(x any) any {
		switch v := x.(type) {
		case []byte:
			if len(v) >= shareFrom {
				return v[:len(v):len(v)]
			}
		case *wire.NDArray:
			if len(v.Data) >= shareFrom {
				return v
			}
		default:
			if hasCodec(reflect.TypeOf(x)) && len(frames) > 0 && frames[0].Len() >= shareFrom {
				return v
			}
		}
		return wire.Clone(x)
	}
}

// decodeInto decodes by reflection; own makes what it sets independent of the frames.
func decodeInto(s *wire.Serialized, dst reflect.Value, own func(any) any) error {
	if dst.Type() == objectType {
		o, err := s.Object(wire.DecodeOptions{})
		if err != nil {
			return err
		}
		dst.Set(reflect.ValueOf(own(o)))
		return nil
	}
	x, err := s.Decode(wire.DecodeOptions{})
	if err != nil {
		return err
	}
	if dst.Type() == reflect.TypeFor[any]() {
		if t, ok := goType(s.Header); ok {
			v := reflect.New(t).Elem()
			if err := fromTree(x, v, 0); err != nil {
				return &TypeError{Want: t.String(), Got: describe(x), Err: err}
			}
			dst.Set(v)
			return nil
		}
		dst.Set(reflect.ValueOf(&x).Elem())
		return setAny(dst, own(x))
	}
	if x == nil {
		return convert(nil, dst)
	}
	if reflect.TypeOf(x).AssignableTo(dst.Type()) {
		dst.Set(reflect.ValueOf(own(x)))
		return nil
	}
	if err := fromTree(x, dst, 0); err != nil {
		return &TypeError{Want: dst.Type().String(), Got: describe(x), Err: err}
	}
	return nil
}

func setAny(dst reflect.Value, x any) error {
	if x == nil {
		dst.SetZero()
	} else {
		dst.Set(reflect.ValueOf(x))
	}
	return nil
}

func describe(x any) string {
	if o, ok := x.(*wire.Object); ok {
		return fmt.Sprintf("an object of Python's (%s %s)", o.Header.GetString("serializer"), o.Type)
	}
	return fmt.Sprintf("a %T", x)
}

// goType is the type that a header names, if this process knows it.
func goType(header []byte) (reflect.Type, bool) {
	r := msgpack.NewReader(header)
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, false
	}
	for range n {
		k, err := r.ReadName()
		if err != nil {
			return nil, false
		}
		if string(k) == "go-type" {
			name, err := r.ReadStringBytes()
			if err != nil {
				return nil, false
			}
			return typeByName(name)
		}
		if r.Skip() != nil {
			return nil, false
		}
	}
	return nil, false
}

// numberArray is a slice of numbers as numpy's array, nil for others.
func numberArray(v any) *wire.NDArray {
	switch v := v.(type) {
	case []float64:
		return arrayOf(v)
	case []float32:
		return arrayOf(v)
	case []int64:
		return arrayOf(v)
	case []int32:
		return arrayOf(v)
	case []int16:
		return arrayOf(v)
	case []int8:
		return arrayOf(v)
	case []uint64:
		return arrayOf(v)
	case []uint32:
		return arrayOf(v)
	case []uint16:
		return arrayOf(v)
	case []bool:
		return arrayOf(v)
	case []complex128:
		return arrayOf(v)
	case []complex64:
		return arrayOf(v)
	case []int:
		return arrayOf(asInt64(v))
	case []uint:
		return arrayOf(asUint64(v))
	}
	return nil
}

func arrayOf[T wire.Element](v []T) *wire.NDArray {
	if v == nil {
		return nil
	}
	return wire.NewNDArray(v)
}

// exact tells whether Python's datetime can hold a time, timedelta a duration.
func exact(ns int64) bool { return ns%int64(time.Microsecond) == 0 }
