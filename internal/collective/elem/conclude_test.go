package elem

import (
	"math"
	"math/big"
	"testing"
)

// extremes are the least and the greatest integers of a kind, and some between, as big numbers.
func extremes(k Kind) (list []*big.Int) {
	bits := uint(8 * k.Size())
	if k >= Uint8 && k <= Uint64 {
		top := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), bits), big.NewInt(1))
		return []*big.Int{big.NewInt(0), big.NewInt(1), big.NewInt(7), new(big.Int).Rsh(top, 1), top}
	}
	half := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return []*big.Int{new(big.Int).Neg(half), big.NewInt(-7), big.NewInt(-1), big.NewInt(0), big.NewInt(7),
		new(big.Int).Sub(half, big.NewInt(1))}
}

// wrapped is a big number as the bits of an integer kind.
func wrapped(k Kind, v *big.Int) uint64 {
	bits := uint(8 * k.Size())
	mod := new(big.Int).Lsh(big.NewInt(1), bits)
	return new(big.Int).Mod(v, mod).Uint64() // Mod is never negative
}

func putBits(k Kind, b []byte, i int, v uint64) {
	for j := range k.Size() {
		b[i*k.Size()+j] = byte(v >> (8 * j)) // little-endian, as every machine that this runs on
	}
}

func getBits(k Kind, b []byte, i int) (v uint64) {
	for j := range k.Size() {
		v |= uint64(b[i*k.Size()+j]) << (8 * j)
	}
	return v
}

// TestIntegers compares every operation on the extremes of every integer kind with big numbers: sums and products wrap
// around, averages are cut off towards zero.
func TestIntegers(t *testing.T) {
	for _, k := range Kinds()[:8] {
		all := extremes(k)
		for _, x := range all {
			for _, y := range all {
				for op := OpSum; op <= OpMax; op++ {
					want := new(big.Int)
					switch op {
					case OpSum:
						want.Add(x, y)
					case OpProd:
						want.Mul(x, y)
					case OpMin:
						want.Set(x)
						if y.Cmp(x) < 0 {
							want.Set(y)
						}
					case OpMax:
						want.Set(x)
						if y.Cmp(x) > 0 {
							want.Set(y)
						}
					}
					for _, n := range []int{1, 70} { // Go, and C where there is any
						a, b := make([]byte, n*k.Size()), make([]byte, n*k.Size())
						for i := range n {
							putBits(k, a, i, wrapped(k, x))
							putBits(k, b, i, wrapped(k, y))
						}
						Fold(a, a, b, k, op)
						if got := getBits(k, a, n-1); got != wrapped(k, want) {
							t.Errorf("%v %v of %v and %v: %#x, want %#x", k, op, x, y, got, wrapped(k, want))
						}
					}
				}
			}
			for _, ranks := range []int{1, 2, 3, 300} {
				b := make([]byte, k.Size())
				putBits(k, b, 0, wrapped(k, x))
				Conclude(b, k, OpAvg, ranks)
				want := new(big.Int).Quo(x, big.NewInt(int64(ranks)))
				if got := getBits(k, b, 0); got != wrapped(k, want) {
					t.Errorf("%v: the average of %v over %d is %#x, want %#x", k, x, ranks, got, wrapped(k, want))
				}
				putBits(k, b, 0, wrapped(k, x))
				if Conclude(b, k, OpSum, ranks); getBits(k, b, 0) != wrapped(k, x) {
					t.Errorf("%v: a sum was divided", k)
				}
			}
		}
	}
}

// TestScaled: PreMulSum multiplies with the rank's own scale, in place and into other memory, wrapping integers.
func TestScaled(t *testing.T) {
	for _, k := range Kinds() {
		for _, scale := range []float64{0, 1, 3, 100} {
			op := PreMulSumOf(k, scale)
			if ScaleKind(op) != k || CodeOf(op) != OpPreMulSum || op.String() != "premulsum" || !op.Valid() {
				t.Errorf("%v: %v of kind %v", k, op, ScaleKind(op))
			}
			if again := NewOp(CodeOf(op), k, ScaleOf(op)); again != op {
				t.Errorf("%v: %+v, want %+v", k, again, op)
			}
			src := numbers(k, 0, 9)
			dst := make([]byte, len(src))
			Prepare(dst, src, k, op)
			for i := range 9 {
				want := number(k, src, i) * scale
				if k <= Uint64 {
					b := make([]byte, k.Size())
					putBits(k, b, 0, wrapped(k, big.NewInt(int64(want))))
					want = number(k, b, 0)
				}
				if got := number(k, dst, i); got != want {
					t.Errorf("%v: %v times %v is %v, want %v", k, number(k, src, i), scale, got, want)
				}
			}
			Prepare(src, src, k, op)
			if string(src) != string(dst) {
				t.Errorf("%v times %v in place: %x, want %x", k, scale, src, dst)
			}
		}
		src := numbers(k, 1, 3)
		dst := make([]byte, len(src))
		if Prepare(dst, src, k, Max); string(dst) != string(src) {
			t.Errorf("%v: Max changes what a rank contributes", k)
		}
	}
	if op := PreMulSumOf(99, 1); op.kind != 0 || CodeOf(op) != OpPreMulSum {
		t.Errorf("a scale of no kind: %+v", op)
	}
}

// TestHalfAverages: averages of short floats are divided in float32 and rounded once.
func TestHalfAverages(t *testing.T) {
	for _, n := range []int{2, 3, 7} {
		for _, x := range []float32{1, -3, 65504, 1e-7, 0} {
			h, b := []F16{ToF16(x)}, []BF16{ToBF16(x)}
			wantH, wantB := ToF16(h[0].Float32()/float32(n)), ToBF16(b[0].Float32()/float32(n))
			Conclude(View(h), Float16, OpAvg, n)
			Conclude(View(b), BFloat16, OpAvg, n)
			if h[0] != wantH || b[0] != wantB {
				t.Errorf("%v over %d: %#x and %#x, want %#x and %#x", x, n, h[0], b[0], wantH, wantB)
			}
			f, d := []float32{x}, []float64{float64(x)}
			Conclude(View(f), Float32, OpAvg, n)
			Conclude(View(d), Float64, OpAvg, n)
			if f[0] != x/float32(n) || d[0] != float64(x)/float64(n) {
				t.Errorf("%v over %d: %v and %v", x, n, f[0], d[0])
			}
		}
	}
	// A product that a float32 holds and a float16 does not is infinite after each step.
	big := []F16{ToF16(300)}
	if Fold(View(big), View(big), View(big), Float16, OpProd); !math.IsInf(float64(big[0].Float32()), 1) {
		t.Errorf("300 times 300 is %v", big[0].Float32())
	}
}
