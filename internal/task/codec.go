package task

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"go.millstream.dev/internal/wire/msgpack"
)

// codec encodes and decodes arguments of one type. It is chosen once, when the function is registered; for common types
// it uses no reflection.
type codec[T any] struct {
	append func(b *Builder, v T) error
	read   func(r *reader) (T, error)
	typ    reflect.Type
}

var codecs sync.Map // reflect.Type to *codec of it

// codecFor returns the codec of a type.
func codecFor[T any]() *codec[T] {
	t := reflect.TypeFor[T]()
	if c, ok := codecs.Load(t); ok {
		return c.(*codec[T])
	}
	c := makeCodec[T]()
	c.typ = t
	codecs.Store(t, c)
	return c
}

func makeCodec[T any]() *codec[T] {
	var c any
	switch any((*T)(nil)).(type) {
	case *bool:
		c = &codec[bool]{append: appendBool, read: (*reader).readBool}
	case *int:
		c = &codec[int]{append: appendInt[int], read: readInt[int]}
	case *int8:
		c = &codec[int8]{append: appendInt[int8], read: readInt[int8]}
	case *int16:
		c = &codec[int16]{append: appendInt[int16], read: readInt[int16]}
	case *int32:
		c = &codec[int32]{append: appendInt[int32], read: readInt[int32]}
	case *int64:
		c = &codec[int64]{append: appendInt[int64], read: readInt[int64]}
	case *uint:
		c = &codec[uint]{append: appendUint[uint], read: readUint[uint]}
	case *uint8:
		c = &codec[uint8]{append: appendUint[uint8], read: readUint[uint8]}
	case *uint16:
		c = &codec[uint16]{append: appendUint[uint16], read: readUint[uint16]}
	case *uint32:
		c = &codec[uint32]{append: appendUint[uint32], read: readUint[uint32]}
	case *uint64:
		c = &codec[uint64]{append: appendUint[uint64], read: readUint[uint64]}
	case *float64:
		c = &codec[float64]{append: appendFloat, read: (*reader).readFloat}
	case *string:
		c = &codec[string]{append: appendText, read: (*reader).readText}
	case *[]byte:
		c = &codec[[]byte]{append: appendBytes, read: (*reader).readBytes}
	case *[]int:
		c = &codec[[]int]{append: appendNumbers[int], read: readNumbers[int]}
	case *[]int64:
		c = &codec[[]int64]{append: appendNumbers[int64], read: readNumbers[int64]}
	case *[]int32:
		c = &codec[[]int32]{append: appendNumbers[int32], read: readNumbers[int32]}
	case *[]float64:
		c = &codec[[]float64]{append: appendNumbers[float64], read: readNumbers[float64]}
	case *[]float32:
		c = &codec[[]float32]{append: appendNumbers[float32], read: readNumbers[float32]}
	case *time.Duration:
		c = &codec[time.Duration]{append: appendInt[time.Duration], read: readInt[time.Duration]}
	}
	if c == nil {
		return reflectCodec[T]()
	}
	return c.(*codec[T])
}

// reflectCodec returns the codec of all other types: a plan that is created once for the type.
func reflectCodec[T any]() *codec[T] {
	p := planOf(reflect.TypeFor[T]())
	return &codec[T]{
		append: func(b *Builder, v T) error { return p.append(b, reflect.ValueOf(&v).Elem()) },
		read: func(r *reader) (T, error) {
			var v T
			err := p.read(r, reflect.ValueOf(&v).Elem())
			return v, err
		},
	}
}

func appendBool(b *Builder, v bool) error { b.args = msgpack.AppendBool(b.args, v); return nil }

func (r *reader) readBool() (bool, error) { return r.ReadBool() }

type signed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64
}

type unsigned interface {
	~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

func appendInt[T signed](b *Builder, v T) error {
	b.args = msgpack.AppendInt(b.args, int64(v))
	return nil
}

func readInt[T signed](r *reader) (T, error) {
	n, err := r.ReadInt()
	if err == nil && int64(T(n)) != n {
		err = fmt.Errorf("%d does not fit into %T", n, T(0))
	}
	return T(n), err
}

func appendUint[T unsigned](b *Builder, v T) error {
	b.args = msgpack.AppendUint(b.args, uint64(v))
	return nil
}

func readUint[T unsigned](r *reader) (T, error) {
	n, err := r.ReadUint()
	if err == nil && uint64(T(n)) != n {
		err = fmt.Errorf("%d does not fit into %T", n, T(0))
	}
	return T(n), err
}

func appendFloat(b *Builder, v float64) error { b.args = msgpack.AppendFloat(b.args, v); return nil }

func (r *reader) readFloat() (float64, error) { return r.ReadFloat() }

// A Go string may have any bytes: as msgpack bytes it is unchanged.
func appendText(b *Builder, v string) error {
	b.args = append(msgpack.AppendBytesHeader(b.args, len(v)), v...)
	return nil
}

func (r *reader) readText() (string, error) {
	p, err := r.ReadBytes()
	return string(p), err
}

func appendBytes(b *Builder, v []byte) error {
	if len(v) > math.MaxUint32 {
		return tooLargeError(reflect.TypeFor[[]byte]())
	}
	if v == nil {
		b.args = msgpack.AppendNil(b.args)
	} else {
		b.args = msgpack.AppendBytes(b.args, v)
	}
	return nil
}

// readBytes returns a copy: the arguments of functions are on the Go heap.
func (r *reader) readBytes() ([]byte, error) {
	if r.TryNil() {
		return nil, nil
	}
	p, err := r.ReadBytes()
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(p)), p...), nil
}

func tooLargeError(t reflect.Type) error {
	return &EncodeError{Type: t, Reason: "the value has more than 4 GiB; scatter it and pass the future"}
}

type number interface {
	~int | ~int32 | ~int64 | ~float32 | ~float64
}

// appendNumbers appends the memory of a slice: Millstream supports only little-endian machines.
func appendNumbers[T number](b *Builder, v []T) error {
	if v == nil {
		b.args = msgpack.AppendNil(b.args)
		return nil
	}
	var zero T
	n := len(v) * int(unsafe.Sizeof(zero))
	if n > math.MaxUint32 {
		return tooLargeError(reflect.TypeFor[[]T]())
	}
	b.args = msgpack.AppendBytesHeader(b.args, n)
	if n > 0 {
		b.args = append(b.args, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), n)...)
	}
	return nil
}

func readNumbers[T number](r *reader) ([]T, error) {
	if r.TryNil() {
		return nil, nil
	}
	p, err := r.ReadBytes()
	if err != nil {
		return nil, err
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	if len(p)%size != 0 {
		return nil, fmt.Errorf("%d bytes cannot be decoded to %T", len(p), []T(nil))
	}
	out := make([]T, len(p)/size)
	if len(p) > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), len(p)), p)
	}
	return out, nil
}

// The memory of numbers is sent unchanged: a big-endian machine would need a conversion.
var _ = func() bool {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		panic("task: big-endian machines are not supported")
	}
	return true
}()
