package task

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unsafe"

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

// maxBody is the maximum length of a string in the body of a message.
const maxBody = 1 << 10

// AppendBody appends a value that the body of a message can contain directly: nil, bool, numbers and short strings.
// Dask decodes it to the value itself, so that it needs no frames. It reports whether the value is of this kind.
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

// ReadBody decodes a value that AppendBody has encoded, or any other plain value of a body, to a T.
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
		return out, &SpecError{Reason: "value in a message", Err: err}
	}
	err = convert(v, reflect.ValueOf(&out).Elem())
	return out, err
}

// EncodeValue returns the frames of a value: in the Python form if there is one (None, bool, int, float, str, bytes,
// numpy arrays for slices of numbers, Arrow tables, RMM buffers for buffers, and the types of package wire), otherwise
// a pickle of dicts and lists whose header has the Go type in "go-type": Python receives a dict. The frames borrow the
// memory of the value, or have their own references if it is counted. Slices, maps and structs that contain Arrow data,
// device arrays or other types of package wire are sent like Dask's lists and dicts, each such value in its own frames.
//
// Times and durations keep their nanoseconds: those that Python types cannot represent are sent as text and as a count
// of nanoseconds.
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
	if c, ok := collect(tree); ok {
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

// DecodeInto decodes a value into dst. The decoded value shares no memory with the frames, except for Arrow and GPU
// values, which take references.
func DecodeInto[T any](s *wire.Serialized, dst *T) error { return decodeAs(s, dst, wire.Clone) }

// DecodeOwned is DecodeInto for frames that no other value uses: long bytes, slices of numbers, arrays and tables on
// the Go heap keep the memory of their frames.
func DecodeOwned[T any](s *wire.Serialized, dst *T) error {
	if s.Size() >= shareFrom && ownNumbers(s, dst) {
		return nil
	}
	return decodeAs(s, dst, share(s.Frames))
}

// ownNumbers sets a slice of numbers to the memory of an array, and reports whether it did.
func ownNumbers(s *wire.Serialized, dst any) bool {
	switch p := dst.(type) {
	case *[]float64:
		return ownElements(s, p)
	case *[]float32:
		return ownElements(s, p)
	case *[]int64:
		return ownElements(s, p)
	case *[]int32:
		return ownElements(s, p)
	case *[]int:
		var v []int64
		if strconv.IntSize != 64 || !ownElements(s, &v) {
			return false
		}
		*p = unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
		return true
	}
	return false
}

// ownElements sets dst to the elements of a long array of one dimension in the memory of the frames, and reports
// whether it did. Other values, and their errors, are left to decodeAs.
func ownElements[E wire.Element](s *wire.Serialized, dst *[]E) bool {
	if slices.ContainsFunc(s.Frames, func(f wire.Frame) bool { return f.Buffer() != nil }) {
		return false // memory of a pool
	}
	x, err := s.Decode(wire.DecodeOptions{})
	if err != nil {
		return false
	}
	a, ok := x.(*wire.NDArray)
	if !ok || len(a.Shape) != 1 || len(a.Data) < shareFrom || !a.COrder() {
		return false
	}
	v, err := wire.Elements[E](a)
	if err != nil {
		return false
	}
	*dst = v
	return true
}

func decodeAs[T any](s *wire.Serialized, dst *T, own func(any) any) error {
	if len(s.Frames) == 1 && !s.Frames[0].OnDevice() && bytes.Equal(s.Header, pickleHeader) {
		if ok := scalar.Into(s.Frames[0].Bytes(), dst); ok {
			return nil
		}
	}
	return decodeInto(s, reflect.ValueOf(dst).Elem(), own)
}

// shareFrom is the length in bytes from which decoded bytes may share the memory of their frame. Smaller values often
// share one frame, which they would keep alive.
const shareFrom = 64 << 10

// share is wire.Clone for immutable values: long bytes, arrays and tables on the Go heap are not copied.
func share(frames []wire.Frame) func(any) any {
	for _, f := range frames {
		if f.Buffer() != nil {
			return wire.Clone // its memory returns to a pool
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

// decodeInto decodes by reflection; own makes decoded values independent of the frames.
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
		return fmt.Sprintf("a Python object (%s %s)", o.Header.GetString("serializer"), o.Type)
	}
	return fmt.Sprintf("a %T", x)
}

// goType returns the type that a header names, if this process has it.
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

// numberArray returns a slice of numbers as a numpy array, nil for other values.
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

// isExact reports whether a Python datetime or timedelta can represent a time or duration.
func isExact(ns int64) bool { return ns%int64(time.Microsecond) == 0 }
