package expr

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestInt128 compares 128-bit arithmetic with big numbers.
func TestInt128(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	edge := []int128{{}, {1, 0}, {math.MaxUint64, -1}, {0, 1}, {math.MaxUint64, 0}, {1 << 63, 0},
		{math.MaxUint64, math.MaxInt64},
		{0, math.MinInt64 + 1}, {1, math.MinInt64}, pow10[38], pow10[19], pow10[18].neg()}
	random := func() int128 {
		if rng.IntN(3) == 0 {
			return edge[rng.IntN(len(edge))]
		}
		v := int128{rng.Uint64(), int64(rng.Uint64()) >> rng.IntN(64)}
		if rng.IntN(2) == 0 {
			v = int128Of(int64(rng.Uint64()) >> rng.IntN(64))
		}
		return v
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	least := new(big.Int).Neg(limit)
	fits := func(v *big.Int) bool { return v.Cmp(limit) < 0 && v.Cmp(least) > 0 } // -2^127 is not used
	for range 100000 {
		a, b := random(), random()
		x, y := a.big(), b.big()
		for name, f := range map[string]struct {
			got  func(int128) (int128, bool)
			want *big.Int
		}{"+": {a.add, new(big.Int).Add(x, y)}, "-": {a.sub, new(big.Int).Sub(x, y)},
			"*": {a.mul, new(big.Int).Mul(x, y)}} {
			got, over := f.got(b)
			if !over && got.big().Cmp(f.want) != 0 || over && fits(f.want) {
				t.Fatalf("%v %s %v: got %v, %v, want %v", x, name, y, got.big(), over, f.want)
			}
		}
		if b != (int128{}) {
			q, r := a.quoRem(b)
			wq, wr := new(big.Int).QuoRem(x, y, new(big.Int))
			if q.big().Cmp(wq) != 0 || r.big().Cmp(wr) != 0 {
				t.Fatalf("%v / %v: got %v, %v, want %v, %v", x, y, q.big(), r.big(), wq, wr)
			}
		}
		if a.cmp(b) != x.Cmp(y) {
			t.Fatalf("compare %v with %v: got %d", x, y, a.cmp(b))
		}
		if want, _ := new(big.Float).SetInt(x).Float64(); a.float() != want {
			t.Fatalf("%v as float: got %v, want %v", x, a.float(), want)
		}
		if back, ok := int128OfBig(x); !ok || back != a {
			t.Fatalf("%v: got %v back", x, back.big())
		}
		scale := int32(rng.IntN(39))
		text := string(appendDecimal(nil, a, scale))
		want := new(big.Rat).SetFrac(x, pow10[scale].big()).FloatString(int(scale))
		if text != want {
			t.Fatalf("%v with scale %d: got %s, want %s", x, scale, text, want)
		}
		if back, ok := parseDecimal(text, scale); !ok || back != a {
			t.Fatalf("%s: read %v, %v, want %v", text, back.big(), ok, x)
		}
	}
	if _, ok := int128OfBig(limit); ok {
		t.Error("2^127 fits")
	}
}

func TestParseDecimal(t *testing.T) {
	for _, tc := range []struct {
		s     string
		scale int32
		want  string
	}{
		{"1.005", 2, "1.01"}, {"-1.005", 2, "-1.01"}, {"1.0049999", 2, "1.00"}, {"1e3", 0, "1000"},
		{"1.5e-3", 3, "0.002"},
		{"+.5", 1, "0.5"}, {"5.", 1, "5.0"}, {"0.04", 1, "0.0"}, {"12345e-10", 2, "0.00"}, {"0e999", 2, "0.00"},
		{"9.99", 1, "10.0"},
		{"5e-1", 0, "1"}, {"4e-1", 0, "0"}, {"99e-2", 0, "1"},
	} {
		got, ok := parseDecimal(tc.s, tc.scale)
		if text := string(appendDecimal(nil, got, tc.scale)); !ok || text != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.s, text, ok, tc.want)
		}
	}
	for _, s := range []string{"", "-", ".", "x", "1x", "1.2.3", "e5", "1e", "1e99999", "1e900", "1 2", "0x10", "1_000",
		"999999999999999999999999999999999999999999"} {
		if got, ok := parseDecimal(s, 0); ok {
			t.Errorf("%q: got %v, want none", s, got.big())
		}
	}
}
