package elem

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// number reads element i as a number.
func number(k Kind, b []byte, i int) float64 {
	switch k {
	case Int8:
		return float64(Slice[int8](b)[i])
	case Int16:
		return float64(Slice[int16](b)[i])
	case Int32:
		return float64(Slice[int32](b)[i])
	case Int64:
		return float64(Slice[int64](b)[i])
	case Uint8:
		return float64(Slice[uint8](b)[i])
	case Uint16:
		return float64(Slice[uint16](b)[i])
	case Uint32:
		return float64(Slice[uint32](b)[i])
	case Uint64:
		return float64(Slice[uint64](b)[i])
	case Float16:
		return float64(Slice[F16](b)[i].Float32())
	case BFloat16:
		return float64(Slice[BF16](b)[i].Float32())
	case Float32:
		return float64(Slice[float32](b)[i])
	}
	return Slice[float64](b)[i]
}

// numbers writes small whole numbers as elements.
func numbers(k Kind, from, n int) []byte {
	var out []byte
	for i := range n {
		op := PreMulSumOf(k, float64(1+(from+i*3)%5)) // rounds to the kind
		_, element, _ := op.Scale()
		out = append(out, element...)
	}
	return out
}

// TestFoldAll compares what any number of sources come to with a plain sum, product, least, greatest and average, for
// every kind and operation, below and above the sizes of pieces and of C.
func TestFoldAll(t *testing.T) {
	for _, k := range Kinds() {
		for op := OpSum; op <= OpPreMulSum; op++ {
			for _, sources := range []int{1, 2, 5} {
				for _, n := range []int{1, 65, 4200} {
					name := fmt.Sprintf("%v %v of %d sources of %d", k, op, sources, n)
					var list [][]byte
					for s := range sources {
						b := numbers(k, s, n)
						if op == OpPreMulSum {
							Prepare(b, b, k, PreMulSumOf(k, float64(1+s%2)))
						}
						list = append(list, b)
					}
					got := make([]byte, n*k.Size())
					FoldAll(got, list, k, op)
					Conclude(got, k, op, sources)
					for _, i := range []int{0, n / 2, n - 1} {
						want := 0.0
						for s := range sources {
							x := number(k, list[s], i)
							switch {
							case s == 0:
								want = x
							case op == OpProd:
								want *= x
							case op == OpMin:
								want = min(want, x)
							case op == OpMax:
								want = max(want, x)
							default:
								want += x
							}
						}
						if op == OpAvg {
							want = average(k, want, sources)
						}
						if op == OpProd && want > 127 {
							continue // it does not fit all kinds
						}
						if have := number(k, got, i); have != want {
							t.Fatalf("%s: element %d is %v, want %v", name, i, have, want)
						}
					}
					// In place: the first source is the target.
					again := make([][]byte, sources)
					for s := range list {
						again[s] = append([]byte(nil), list[s]...)
					}
					FoldAll(again[0], again, k, op)
					Conclude(again[0], k, op, sources)
					if string(again[0]) != string(got) {
						t.Fatalf("%s: other bits in place", name)
					}
				}
			}
		}
	}
}

// average divides as elements of a kind do.
func average(k Kind, sum float64, n int) float64 {
	switch k {
	case Float64:
		return sum / float64(n)
	case Float32:
		return float64(float32(sum) / float32(n))
	case Float16:
		return float64(ToF16(float32(sum) / float32(n)).Float32())
	case BFloat16:
		return float64(ToBF16(float32(sum) / float32(n)).Float32())
	}
	return math.Trunc(sum / float64(n))
}

// TestIntegersWrap: sums and products of integers keep the lowest bits, as big numbers do modulo 2ⁿ.
func TestIntegersWrap(t *testing.T) {
	for _, k := range []Kind{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64} {
		bits := uint(8 * k.Size())
		mod := new(big.Int).Lsh(big.NewInt(1), bits)
		largest := make([]byte, k.Size())
		for i := range largest {
			largest[i] = 0xff
		}
		if k <= Int64 {
			largest[len(largest)-1] = 0x7f
		}
		value := func(b []byte) *big.Int { // little endian, modulo 2ⁿ
			r := make([]byte, len(b))
			for i := range b {
				r[len(b)-1-i] = b[i]
			}
			return new(big.Int).SetBytes(r)
		}
		for _, op := range []OpCode{OpSum, OpProd} {
			for _, n := range []int{1, 300} {
				a := make([]byte, 0, n*k.Size())
				for range n {
					a = append(a, largest...)
				}
				got := make([]byte, len(a))
				Fold(got, a, a, k, op)
				want := new(big.Int).Add(value(largest), value(largest))
				if op == OpProd {
					want.Mul(value(largest), value(largest))
				}
				want.Mod(want, mod)
				if have := value(got[(n-1)*k.Size():]); have.Cmp(want) != 0 {
					t.Errorf("%v %v of %d: %v, want %v", k, op, n, have, want)
				}
			}
		}
	}
}

// TestScales: PreMulSum multiplies in each kind, rounds each product, and leaves its source alone.
func TestScales(t *testing.T) {
	for _, k := range Kinds() {
		src := numbers(k, 0, 40)
		before := string(src)
		dst := make([]byte, len(src))
		Prepare(dst, src, k, PreMulSumOf(k, 3))
		for i := range 40 {
			if got, want := number(k, dst, i), 3*number(k, src, i); got != want {
				t.Errorf("%v: element %d is %v, want %v", k, i, got, want)
			}
		}
		Prepare(dst, src, k, Sum)
		if string(dst) != before || string(src) != before {
			t.Errorf("%v: Sum changes what a rank contributes", k)
		}
		if code, scale, kind := CodeOf(PreMulSumOf(k, 2)), ScaleOf(PreMulSumOf(k, 2)), ScaleKind(PreMulSumOf(k,
			2)); code != OpPreMulSum ||
			NewOp(code, kind, scale) != PreMulSumOf(k, 2) || kind != k {
			t.Errorf("%v: %v %v %v", k, code, scale, kind)
		}
	}
	half := Slice[F16]([]byte{0, 0x3c, 0x01, 0x3c}) // 1, and the next after it
	Prepare(bytesOf(half), bytesOf(half), Float16, PreMulSumOf(Float16, 3))
	if half[0].Float32() != 3 || half[1].Float32() != 3.00390625 { // 3.0029296875 is halfway: to even
		t.Errorf("%v and %v", half[0].Float32(), half[1].Float32())
	}
}

func bytesOf[T Number](s []T) []byte { return View(s) }
