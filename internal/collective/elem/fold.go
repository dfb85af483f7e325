package elem

import (
	"math"
	"unsafe"
)

// Fold sets dst to a ∘ b, element by element. dst may be a or b. All three have the same length, a multiple of the
// element size.
//
// The order of operands is kept and every step rounds to the element type, so that results are bitwise equal with and
// without C.
func Fold(dst, a, b []byte, k Kind, op OpCode) {
	if len(dst) == 0 {
		return
	}
	if op == OpAvg || op == OpPreMulSum {
		op = OpSum
	}
	if foldNative(dst, a, b, k, op) {
		return
	}
	foldGo(dst, a, b, k, op)
}

func foldGo(dst, a, b []byte, k Kind, op OpCode) {
	switch k {
	case Int8:
		foldInts(Slice[int8](dst), Slice[int8](a), Slice[int8](b), op)
	case Int16:
		foldInts(Slice[int16](dst), Slice[int16](a), Slice[int16](b), op)
	case Int32:
		foldInts(Slice[int32](dst), Slice[int32](a), Slice[int32](b), op)
	case Int64:
		foldInts(Slice[int64](dst), Slice[int64](a), Slice[int64](b), op)
	case Uint8:
		foldInts(Slice[uint8](dst), Slice[uint8](a), Slice[uint8](b), op)
	case Uint16:
		foldInts(Slice[uint16](dst), Slice[uint16](a), Slice[uint16](b), op)
	case Uint32:
		foldInts(Slice[uint32](dst), Slice[uint32](a), Slice[uint32](b), op)
	case Uint64:
		foldInts(Slice[uint64](dst), Slice[uint64](a), Slice[uint64](b), op)
	case Float16:
		foldHalves(Slice[F16](dst), Slice[F16](a), Slice[F16](b), op, F16.Float32, ToF16)
	case BFloat16:
		foldHalves(Slice[BF16](dst), Slice[BF16](a), Slice[BF16](b), op, BF16.Float32, ToBF16)
	case Float32:
		foldFloats(Slice[float32](dst), Slice[float32](a), Slice[float32](b), op)
	case Float64:
		foldFloats(Slice[float64](dst), Slice[float64](a), Slice[float64](b), op)
	}
}

// Slice returns a view of bytes as elements. All supported machines can load elements from unaligned addresses.
func Slice[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func foldInts[T integer](dst, a, b []T, op OpCode) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case OpSum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case OpProd:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case OpMin:
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	case OpMax:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	}
}

func foldFloats[T float32 | float64](dst, a, b []T, op OpCode) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case OpSum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case OpProd:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case OpMin:
		for i := range dst {
			dst[i] = lesser(a[i], b[i])
		}
	case OpMax:
		for i := range dst {
			dst[i] = greater(a[i], b[i])
		}
	}
}

// lesser returns the smaller number, NaN if one of them is NaN, and a if they are equal (0 and -0).
func lesser[T float32 | float64](a, b T) T {
	if b < a || b != b {
		return b
	}
	return a
}

func greater[T float32 | float64](a, b T) T {
	if b > a || b != b {
		return b
	}
	return a
}

func foldHalves[T F16 | BF16](dst, a, b []T, op OpCode, wide func(T) float32, narrow func(float32) T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := wide(a[i]), wide(b[i])
		switch op {
		case OpSum:
			x += y
		case OpProd:
			x *= y
		case OpMin:
			x = lesser(x, y)
		case OpMax:
			x = greater(x, y)
		}
		dst[i] = narrow(x)
	}
}

// FoldAll sets dst to ((s0 ∘ s1) ∘ s2) ∘ …, in pieces that fit into the L1 cache. dst may be the first source.
func FoldAll(dst []byte, sources [][]byte, k Kind, op OpCode) {
	const piece = 8 << 10
	if len(sources) == 1 {
		if len(dst) > 0 && &dst[0] != &sources[0][0] {
			copy(dst, sources[0])
		}
		return
	}
	for at := 0; at < len(dst); at += piece {
		end := min(at+piece, len(dst))
		d := dst[at:end]
		Fold(d, sources[0][at:end], sources[1][at:end], k, op)
		for _, s := range sources[2:] {
			Fold(d, d, s[at:end], k, op)
		}
	}
}

// Prepare sets dst to the contribution of this rank: src, multiplied by the scale of PreMulSum. dst may be src.
func Prepare(dst, src []byte, k Kind, op Op) {
	if op.code != OpPreMulSum {
		if len(src) > 0 && &dst[0] != &src[0] {
			copy(dst, src)
		}
		return
	}
	switch k {
	case Int8:
		multiply(Slice[int8](dst), Slice[int8](src), int8(op.scale))
	case Int16:
		multiply(Slice[int16](dst), Slice[int16](src), int16(op.scale))
	case Int32:
		multiply(Slice[int32](dst), Slice[int32](src), int32(op.scale))
	case Int64:
		multiply(Slice[int64](dst), Slice[int64](src), int64(op.scale))
	case Uint8:
		multiply(Slice[uint8](dst), Slice[uint8](src), uint8(op.scale))
	case Uint16:
		multiply(Slice[uint16](dst), Slice[uint16](src), uint16(op.scale))
	case Uint32:
		multiply(Slice[uint32](dst), Slice[uint32](src), uint32(op.scale))
	case Uint64:
		multiply(Slice[uint64](dst), Slice[uint64](src), op.scale)
	case Float16:
		f := F16(op.scale).Float32()
		d := Slice[F16](dst)
		for i, x := range Slice[F16](src) {
			d[i] = ToF16(x.Float32() * f)
		}
	case BFloat16:
		f := BF16(op.scale).Float32()
		d := Slice[BF16](dst)
		for i, x := range Slice[BF16](src) {
			d[i] = ToBF16(x.Float32() * f)
		}
	case Float32:
		multiply(Slice[float32](dst), Slice[float32](src), math.Float32frombits(uint32(op.scale)))
	case Float64:
		multiply(Slice[float64](dst), Slice[float64](src), math.Float64frombits(op.scale))
	}
}

func multiply[T integer | float32 | float64](dst, src []T, f T) {
	for i, x := range src {
		dst[i] = x * f
	}
}

// Conclude converts the reduction of n ranks into the result: Avg divides by n.
func Conclude(b []byte, k Kind, op OpCode, n int) {
	if op != OpAvg || n == 1 {
		return
	}
	switch k {
	case Int8:
		divide(Slice[int8](b), n)
	case Int16:
		divide(Slice[int16](b), n)
	case Int32:
		divide(Slice[int32](b), n)
	case Int64:
		divide(Slice[int64](b), n)
	case Uint8:
		divide(Slice[uint8](b), n)
	case Uint16:
		divide(Slice[uint16](b), n)
	case Uint32:
		divide(Slice[uint32](b), n)
	case Uint64:
		divide(Slice[uint64](b), n)
	case Float16:
		h := Slice[F16](b)
		for i, x := range h {
			h[i] = ToF16(x.Float32() / float32(n))
		}
	case BFloat16:
		h := Slice[BF16](b)
		for i, x := range h {
			h[i] = ToBF16(x.Float32() / float32(n))
		}
	case Float32:
		h := Slice[float32](b)
		for i, x := range h {
			h[i] = x / float32(n)
		}
	case Float64:
		h := Slice[float64](b)
		for i, x := range h {
			h[i] = x / float64(n)
		}
	}
}

// divide divides in 64 bits, because n may exceed the range of a small integer.
func divide[T integer](b []T, n int) {
	if ^T(0) > 0 {
		for i, x := range b {
			b[i] = T(uint64(x) / uint64(n))
		}
		return
	}
	for i, x := range b {
		b[i] = T(int64(x) / int64(n))
	}
}
