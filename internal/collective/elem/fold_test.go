package elem

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestFoldHasOneResult: C and Go give the same bits, for every kind and operation, at any alignment and length.
func TestFoldHasOneResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	random := func(k Kind, n int) []byte {
		b := make([]byte, n*k.Size()+1)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if k == Float32 { // NaN keeps its payload or not, as the processor likes
			for i, x := range Slice[float32](b[1:]) {
				if x != x {
					Slice[float32](b[1:])[i] = float32(math.Inf(1))
				}
			}
		}
		if k == Float64 {
			for i, x := range Slice[float64](b[1:]) {
				if x != x {
					Slice[float64](b[1:])[i] = math.Inf(-1)
				}
			}
		}
		if k == BFloat16 {
			for i, x := range Slice[BF16](b[1:]) {
				if f := x.Float32(); f != f {
					Slice[BF16](b[1:])[i] = ToBF16(-1.5)
				}
			}
		}
		return b[1:] // off any boundary
	}
	for _, k := range Kinds() {
		for _, op := range []OpCode{OpSum, OpProd, OpMin, OpMax} {
			for _, n := range []int{1, 100, 513} {
				a, b := random(k, n), random(k, n)
				want, got := make([]byte, len(a)), make([]byte, len(a))
				foldGo(want, a, b, k, op)
				Fold(got, a, b, k, op)
				if !sameNumbers(k, got, want) {
					t.Errorf("%v %v of %d: other results", k, op, n)
				}
				Fold(a, a, b, k, op) // in place
				if !sameNumbers(k, a, want) {
					t.Errorf("%v %v of %d in place: other results", k, op, n)
				}
			}
		}
	}
}

// sameNumbers compares bits, but treats all NaNs as equal: the bits of the NaN of ∞-∞ and ∞·0 are not specified.
func sameNumbers(k Kind, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	nan := func(b []byte, i int) bool {
		switch k {
		case Float32:
			return math.IsNaN(float64(Slice[float32](b)[i]))
		case Float64:
			return math.IsNaN(Slice[float64](b)[i])
		case BFloat16:
			return math.IsNaN(float64(Slice[BF16](b)[i].Float32()))
		}
		return false
	}
	es := k.Size()
	for i := range len(a) / es {
		if !bytes.Equal(a[i*es:(i+1)*es], b[i*es:(i+1)*es]) && !(nan(a, i) && nan(b, i)) {
			return false
		}
	}
	return true
}

func TestMinMaxOfNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		op         OpCode
		a, b, want float32
	}{{OpMin, 1, 2, 1}, {OpMin, nan, 1, nan}, {OpMin, 1, nan, nan}, {OpMax, 1, 2, 2}, {OpMax, nan, 1, nan}, {OpMax, 1,
		nan, nan}} {
		for _, n := range []int{1, 100} { // Go, C
			a, b, d := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i] = c.a, c.b
			}
			Fold(View(d), View(a), View(b), Float32, c.op)
			if d[n-1] != c.want && !(d[n-1] != d[n-1] && c.want != c.want) {
				t.Errorf("%v(%v, %v) of %d = %v, want %v", c.op, c.a, c.b, n, d[n-1], c.want)
			}
		}
	}
}

func TestHalvesRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := F16(i)
		if f := h.Float32(); f != f {
			if g := ToF16(f); g.Float32() == g.Float32() {
				t.Fatalf("float16 %#x: NaN became %#x", i, g)
			}
		} else if ToF16(f) != h {
			t.Fatalf("float16 %#x is %v and back %#x", i, f, ToF16(f))
		}
		b := BF16(i)
		if f := b.Float32(); f == f && ToBF16(f) != b {
			t.Fatalf("bfloat16 %#x is %v and back %#x", i, f, ToBF16(f))
		}
	}
	for _, c := range []struct {
		f    float32
		want F16
	}{{1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65519, 0x7bff}, {65520, 0x7c00}, {5.9604645e-08, 1}, {2.9802322e-08,
		0}, {2.9802326e-08, 1},
		{1.00048828125, 0x3c00}, {1.00146484375, 0x3c02}, {0, 0}, {float32(math.Copysign(0, -1)),
			0x8000}, {float32(math.Inf(-1)), 0xfc00}} {
		if got := ToF16(c.f); got != c.want {
			t.Errorf("ToF16(%v) = %#x, want %#x", c.f, got, c.want)
		}
	}
	if got := ToBF16(1.00390625); got != 0x3f80 { // halfway: to even
		t.Errorf("ToBF16 = %#x", got)
	}
}

func TestKinds(t *testing.T) {
	type mine int16
	for _, c := range []struct{ got, want Kind }{{KindOf[int8](), Int8}, {KindOf[mine](), Int16},
		{KindOf[int](), Int64}, {KindOf[uint32](), Uint32},
		{KindOf[F16](), Float16}, {KindOf[BF16](), BFloat16}, {KindOf[float32](), Float32}, {KindOf[float64](),
			Float64}, {KindOf[uint16](), Uint16}} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if Kind(0).Valid() || Kind(99).Valid() || Kind(99).Size() != 0 || Kind(99).String() != "kind(99)" ||
		Float16.String() != "float16" {
		t.Error("kinds that do not exist")
	}
	if (Op{}).Valid() || !Sum.Valid() || Avg.String() != "avg" || (Op{code: 77}).String() != "op(77)" {
		t.Error("operations that do not exist")
	}
	if View([]int16{}) != nil || len(View([]int16{1, 2})) != 4 {
		t.Error("View")
	}
}

func BenchmarkFold(b *testing.B) {
	x, y := make([]byte, 8<<10), make([]byte, 8<<10)
	b.Run("native", func(b *testing.B) {
		b.SetBytes(int64(len(x)))
		for range b.N {
			Fold(x, x, y, Float32, OpSum)
		}
	})
	b.Run("go", func(b *testing.B) {
		b.SetBytes(int64(len(x)))
		for range b.N {
			foldGo(x, x, y, Float32, OpSum)
		}
	})
}
