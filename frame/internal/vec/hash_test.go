package vec

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"pgregory.net/rapid"
)

func hashOf(t testing.TB, cols ...arrow.Array) []uint64 {
	t.Helper()
	out := make([]uint64, cols[0].Len())
	if err := Hash(cols, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func fromJSON(t testing.TB, dt arrow.DataType, text string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(heap, dt, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestHashEqualRows requires for each type, and pairs of types, that rows are equal if and only if their hashes are.
func TestHashEqualRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for i, dt := range plainTypes {
		for _, nulls := range []float64{0, 0.2, 1} {
			one := randomArray(dt, 300, nulls, rng)
			two := randomArray(plainTypes[(i+5)%len(plainTypes)], 300, nulls, rng)
			for _, cols := range [][]arrow.Array{{one}, {one, two}, {two, one, two}} {
				rows, hashes := make(map[string]uint64), make(map[uint64]string)
				for r, h := range hashOf(t, cols...) {
					var key strings.Builder
					for _, c := range cols {
						fmt.Fprintf(&key, "%s|", text(c, r))
					}
					k := key.String()
					if old, ok := rows[k]; ok && old != h {
						t.Fatalf("%v: row %s: hash %x and %x", dt, k, old, h)
					}
					if old, ok := hashes[h]; ok && old != k {
						t.Fatalf("%v: rows %s and %s have hash %x", dt, old, k, h)
					}
					rows[k], hashes[h] = h, k
				}
			}
		}
	}
}

// TestHashByValue compares the hashes of the same value in types for which they must be the same.
func TestHashByValue(t *testing.T) {
	dict := func(v arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: v}
	}
	for _, c := range []struct {
		types []arrow.DataType
		json  string
	}{
		{[]arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
			arrow.PrimitiveTypes.Int64, dict(arrow.PrimitiveTypes.Int32)}, `[-5, 7, null]`},
		{[]arrow.DataType{arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
			arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64}, `[200, null, 0]`},
		{[]arrow.DataType{arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64},
			`[0.5, -3, null]`},
		{[]arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
			dict(arrow.BinaryTypes.String)}, `["", "a", null, "a long text of many letters, more than 32"]`},
	} {
		want := hashOf(t, fromJSON(t, c.types[0], c.json))
		for _, dt := range c.types[1:] {
			if got := hashOf(t, fromJSON(t, dt, c.json)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v: got %x, want %x as for %v", dt, got, want, c.types[0])
			}
		}
	}
}

func TestHashFloats(t *testing.T) {
	b := array.NewFloat64Builder(heap)
	nan := math.Float64frombits(0xfff8000000000001)
	b.AppendValues([]float64{0, math.Copysign(0, -1), math.NaN(), nan, 1}, nil)
	h := hashOf(t, b.NewArray())
	if h[0] != h[1] || h[2] != h[3] || h[0] == h[2] || h[0] == h[4] {
		t.Errorf("hashes of 0, -0, NaN, NaN, 1: got %x", h)
	}
}

func TestHashRejects(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, dt := range nestedTypes {
		if Hashable(dt) {
			t.Errorf("Hashable(%v): got true", dt)
		}
		if err := Hash([]arrow.Array{randomArray(dt, 3, 0, rng)}, make([]uint64, 3)); err == nil ||
			!strings.Contains(err.Error(), "cannot be a key") {
			t.Errorf("%v: got error %v, want one about keys", dt, err)
		}
	}
	for _, dt := range plainTypes {
		if !Hashable(dt) {
			t.Errorf("Hashable(%v): got false", dt)
		}
	}
	if err := Hash([]arrow.Array{array.NewNull(2)}, make([]uint64, 3)); err == nil {
		t.Error("two rows into three hashes: got no error")
	}
}

func TestHashWithoutColumns(t *testing.T) {
	out := make([]uint64, 2)
	if err := Hash(nil, out); err != nil || out[0] != HashSeed || out[1] != HashSeed {
		t.Errorf("got %x, %v, want the seed", out, err)
	}
}

// TestHashWordMatches requires that HashWord continues Hash.
func TestHashWordMatches(t *testing.T) {
	ints, texts := fromJSON(t, arrow.PrimitiveTypes.Int64, `[-5]`), fromJSON(t, arrow.BinaryTypes.String, `["abc"]`)
	minus := int64(-5)
	want := HashWord(HashWord(HashSeed, uint64(minus)), HashBytes([]byte("abc")))
	if got := hashOf(t, ints, texts)[0]; got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestHashBytesLengths requires that every byte of every length matters.
func TestHashBytesLengths(t *testing.T) {
	seen := make(map[uint64]string)
	add := func(b []byte) {
		h := HashBytes(b)
		if old, ok := seen[h]; ok {
			t.Fatalf("%q and %q have hash %x", old, b, h)
		}
		seen[h] = string(b)
	}
	for n := range 100 {
		b := make([]byte, n)
		add(b)
		for i := range b {
			b[i] = 0x80
			add(b)
			b[i] = 0
		}
	}
}

// TestHashBits counts how many bits of the hash change with one bit of the key, and how evenly keys that differ in few
// bits fill 256 slots by the lower and by the upper bits.
func TestHashBits(t *testing.T) {
	for bit := range 64 {
		flips := 0
		for i := range 256 {
			x := uint64(i) * 0x1234567
			flips += bits.OnesCount64(HashWord(HashSeed, x) ^ HashWord(HashSeed, x^1<<bit))
		}
		if mean := float64(flips) / 256; mean < 20 || mean > 44 {
			t.Errorf("bit %d of the key: %v bits of the hash change, want about 32", bit, mean)
		}
	}
	for shift := range 50 {
		var low, high [256]int
		for i := range uint64(1 << 14) {
			h := HashWord(HashSeed, i<<shift)
			low[h&255]++
			high[Bucket(h, 256)]++
		}
		for i := range low {
			if low[i] > 160 || high[i] > 160 {
				t.Fatalf("keys shifted by %d: slot %d has %d keys by lower and %d by upper bits, want about 64",
					shift, i, low[i], high[i])
			}
		}
	}
}

// TestHashSlices requires that hashes do not depend on the offset of an array.
func TestHashSlices(t *testing.T) {
	b := randomBatch(plainTypes, 200, 0.3, 4)
	rapid.Check(t, func(t *rapid.T) {
		c := b.Column(rapid.IntRange(0, len(plainTypes)-1).Draw(t, "column"))
		from := rapid.Int64Range(0, 200).Draw(t, "from")
		to := rapid.Int64Range(from, 200).Draw(t, "to")
		whole, part := make([]uint64, 200), make([]uint64, to-from)
		s := array.NewSlice(c, from, to)
		if err := Hash([]arrow.Array{c}, whole); err != nil {
			t.Fatal(err)
		}
		if err := Hash([]arrow.Array{s}, part); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(part) != fmt.Sprint(whole[from:to]) {
			t.Fatalf("%v: rows %d to %d: got %x, want %x", c.DataType(), from, to, part, whole[from:to])
		}
	})
}
