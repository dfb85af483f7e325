package collective

import (
	"math"
	"unsafe"
)

// fold sets dst to a ∘ b, element by element. dst may be a or b. All three have one length, a multiple of the element's.
//
// The order of operands is kept and every step rounds to the element's type, so that the result has the same bits
// whoever computes it: with C or without.
func fold(dst, a, b []byte, k Kind, op opCode) {
	if len(dst) == 0 {
		return
	}
	if op == opAvg || op == opPreMulSum {
		op = opSum
	}
	if foldNative(dst, a, b, k, op) {
		return
	}
	foldGo(dst, a, b, k, op)
}

func foldGo(dst, a, b []byte, k Kind, op opCode) {
	switch k {
	case Int8:
		foldInts(of[int8](dst), of[int8](a), of[int8](b), op)
	case Int16:
		foldInts(of[int16](dst), of[int16](a), of[int16](b), op)
	case Int32:
		foldInts(of[int32](dst), of[int32](a), of[int32](b), op)
	case Int64:
		foldInts(of[int64](dst), of[int64](a), of[int64](b), op)
	case Uint8:
		foldInts(of[uint8](dst), of[uint8](a), of[uint8](b), op)
	case Uint16:
		foldInts(of[uint16](dst), of[uint16](a), of[uint16](b), op)
	case Uint32:
		foldInts(of[uint32](dst), of[uint32](a), of[uint32](b), op)
	case Uint64:
		foldInts(of[uint64](dst), of[uint64](a), of[uint64](b), op)
	case Float16:
		foldHalves(of[F16](dst), of[F16](a), of[F16](b), op, F16.Float32, ToF16)
	case BFloat16:
		foldHalves(of[BF16](dst), of[BF16](a), of[BF16](b), op, BF16.Float32, ToBF16)
	case Float32:
		foldFloats(of[float32](dst), of[float32](a), of[float32](b), op)
	case Float64:
		foldFloats(of[float64](dst), of[float64](a), of[float64](b), op)
	}
}

// of views bytes as elements. Every machine that Go's Linux runs on here reads them at any address.
func of[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func foldInts[T integer](dst, a, b []T, op opCode) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case opSum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case opProd:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case opMin:
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	case opMax:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	}
}

func foldFloats[T float32 | float64](dst, a, b []T, op opCode) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case opSum:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case opProd:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case opMin:
		for i := range dst {
			dst[i] = lesser(a[i], b[i])
		}
	case opMax:
		for i := range dst {
			dst[i] = greater(a[i], b[i])
		}
	}
}

// lesser is NaN if one of them is; of equal ones (the two zeros) it is the left.
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

func foldHalves[T F16 | BF16](dst, a, b []T, op opCode, wide func(T) float32, narrow func(float32) T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := wide(a[i]), wide(b[i])
		switch op {
		case opSum:
			x += y
		case opProd:
			x *= y
		case opMin:
			x = lesser(x, y)
		case opMax:
			x = greater(x, y)
		}
		dst[i] = narrow(x)
	}
}

// foldAll sets dst to ((s0 ∘ s1) ∘ s2) ∘ …, in pieces that stay in the first cache. dst may be one of the sources if
// it is the first.
func foldAll(dst []byte, sources [][]byte, k Kind, op opCode) {
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
		fold(d, sources[0][at:end], sources[1][at:end], k, op)
		for _, s := range sources[2:] {
			fold(d, d, s[at:end], k, op)
		}
	}
}

// prepare sets dst to what this rank contributes: src, multiplied by its scale for PreMulSum. dst may be src.
func prepare(dst, src []byte, k Kind, op Op) {
	if op.code != opPreMulSum {
		if len(src) > 0 && &dst[0] != &src[0] {
			copy(dst, src)
		}
		return
	}
	switch k {
	case Int8:
		times(of[int8](dst), of[int8](src), int8(op.scale))
	case Int16:
		times(of[int16](dst), of[int16](src), int16(op.scale))
	case Int32:
		times(of[int32](dst), of[int32](src), int32(op.scale))
	case Int64:
		times(of[int64](dst), of[int64](src), int64(op.scale))
	case Uint8:
		times(of[uint8](dst), of[uint8](src), uint8(op.scale))
	case Uint16:
		times(of[uint16](dst), of[uint16](src), uint16(op.scale))
	case Uint32:
		times(of[uint32](dst), of[uint32](src), uint32(op.scale))
	case Uint64:
		times(of[uint64](dst), of[uint64](src), op.scale)
	case Float16:
		f := F16(op.scale).Float32()
		d := of[F16](dst)
		for i, x := range of[F16](src) {
			d[i] = ToF16(x.Float32() * f)
		}
	case BFloat16:
		f := BF16(op.scale).Float32()
		d := of[BF16](dst)
		for i, x := range of[BF16](src) {
			d[i] = ToBF16(x.Float32() * f)
		}
	case Float32:
		times(of[float32](dst), of[float32](src), math.Float32frombits(uint32(op.scale)))
	case Float64:
		times(of[float64](dst), of[float64](src), math.Float64frombits(op.scale))
	}
}

func times[T integer | float32 | float64](dst, src []T, f T) {
	for i, x := range src {
		dst[i] = x * f
	}
}

// conclude turns the sum of n ranks into the result: Avg divides.
func conclude(b []byte, k Kind, op opCode, n int) {
	if op != opAvg || n == 1 {
		return
	}
	switch k {
	case Int8:
		over(of[int8](b), n)
	case Int16:
		over(of[int16](b), n)
	case Int32:
		over(of[int32](b), n)
	case Int64:
		over(of[int64](b), n)
	case Uint8:
		over(of[uint8](b), n)
	case Uint16:
		over(of[uint16](b), n)
	case Uint32:
		over(of[uint32](b), n)
	case Uint64:
		over(of[uint64](b), n)
	case Float16:
		h := of[F16](b)
		for i, x := range h {
			h[i] = ToF16(x.Float32() / float32(n))
		}
	case BFloat16:
		h := of[BF16](b)
		for i, x := range h {
			h[i] = ToBF16(x.Float32() / float32(n))
		}
	case Float32:
		h := of[float32](b)
		for i, x := range h {
			h[i] = x / float32(n)
		}
	case Float64:
		h := of[float64](b)
		for i, x := range h {
			h[i] = x / float64(n)
		}
	}
}

// over divides in 64 bits: n may be more than a small integer holds.
func over[T integer](b []T, n int) {
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
