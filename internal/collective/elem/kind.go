package elem

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// Kind is the type of the elements of a collective.
type Kind uint8

// Kinds of elements. They are sent between processes, so their numbers must not change.
const (
	Int8 Kind = 1 + iota
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float16, BFloat16, Float32, Float64}
}

var kindNames = [...]string{Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64", Uint8: "uint8",
	Uint16: "uint16", Uint32: "uint32",
	Uint64: "uint64", Float16: "float16", BFloat16: "bfloat16", Float32: "float32", Float64: "float64"}

var kindSizes = [...]int{Int8: 1, Int16: 2, Int32: 4, Int64: 8, Uint8: 1, Uint16: 2, Uint32: 4, Uint64: 8, Float16: 2,
	BFloat16: 2, Float32: 4, Float64: 8}

// Valid reports whether k is one of the kinds above.
func (k Kind) Valid() bool { return k >= Int8 && k <= Float64 }

// Size returns the size of an element in bytes, 0 for an unknown kind.
func (k Kind) Size() int {
	if !k.Valid() {
		return 0
	}
	return kindSizes[k]
}

// String returns the NumPy name of the kind.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// F16 is an IEEE 754 half-precision number, as its bits.
type F16 uint16

// BF16 is the upper half of a float32, as its bits.
type BF16 uint16

// Number is the constraint of elements. It includes F16 and BF16.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~uint | ~float32 | ~float64
}

// KindOf returns the kind of a Go type. int and uint have 64 bits, or 32 where those of Go do.
func KindOf[T Number]() Kind {
	var zero T
	switch any(zero).(type) {
	case F16:
		return Float16
	case BF16:
		return BFloat16
	}
	size := unsafe.Sizeof(zero)
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[uintptr]Kind{1: Int8, 2: Int16, 4: Int32, 8: Int64}[size]
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	}
	return map[uintptr]Kind{1: Uint8, 2: Uint16, 4: Uint32, 8: Uint64}[size]
}

// View returns the memory of a slice of elements.
func View[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// ToF16 rounds to nearest, ties to even; values that are too large become infinite.
func ToF16(f float32) F16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: quiet, with the upper bits of its payload
		return F16(sign | 0x7e00 | uint16(b>>13&0x3ff))
	case b >= 0x477ff000: // rounds to 65536 or more
		return F16(sign | 0x7c00)
	case b < 0x38800000: // subnormal or zero: a float32 addition rounds at the right bit
		r := math.Float32bits(math.Float32frombits(b) + 0.5)
		return F16(sign | uint16(r-0x3f000000))
	}
	b += 0xfff + b>>13&1 - 0x38000000
	return F16(sign | uint16(b>>13))
}

// Float32 returns the value as a float32.
func (h F16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f:
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp == 0: // frac · 2⁻²⁴, exact in a float32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToBF16 rounds to nearest, ties to even.
func ToBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BF16(b>>16 | 0x40)
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 returns the value as a float32.
func (h BF16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }
