package group

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// TestSumWide sums values whose sizes change from block to block, so that sums of 64 bits are spilled or cannot be
// used.
func TestSumWide(t *testing.T) {
	const groups = 3
	rng := rand.New(rand.NewPCG(2, 2))
	for _, dt := range []arrow.DataType{i64, u64, &arrow.Decimal128Type{Precision: 38}} {
		for _, nulls := range []float64{0, 0.1} {
			b := array.NewBuilder(heap, dt)
			var want [groups]big.Int
			var ids []uint32
			for i := range 10*block + 7 {
				g := rng.IntN(groups)
				ids = append(ids, uint32(g))
				if rng.Float64() < nulls {
					b.AppendNull()
					continue
				}
				shift := []uint{60, 1, 12, 40, 0}[i/block%5]
				x := new(big.Int).SetUint64(rng.Uint64() >> shift)
				switch b := b.(type) {
				case *array.Int64Builder:
					x.SetInt64(int64(rng.Uint64()) >> shift)
					b.Append(x.Int64())
				case *array.Uint64Builder:
					b.Append(x.Uint64())
				case *array.Decimal128Builder:
					if i%3 == 0 {
						x.Neg(x)
					}
					if shift == 0 {
						x.Lsh(x, 30)
					}
					b.Append(decimal128.FromBigInt(x))
				}
				want[g].Add(&want[g], x)
			}
			a := b.NewArray()
			h := newSumWide(0, "x", false)
			if err := h.bind([]arrow.Array{a}, 0); err != nil {
				t.Fatal(err)
			}
			for from := 0; from < a.Len(); from += block {
				if err := h.add(from, ids[from:min(from+block, len(ids))], groups); err != nil {
					t.Fatal(err)
				}
			}
			out, err := h.states(groups)
			if err != nil {
				t.Fatal(err)
			}
			for g := range groups {
				if got := out[0].(*array.Decimal128).Value(g).BigInt(); got.Cmp(&want[g]) != 0 {
					t.Errorf("%v with nulls %v: group %d: got %v, want %v", dt, nulls, g, got, &want[g])
				}
			}
		}
	}
}

func TestInt128(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 1 << 62, -1 << 63} {
		if got := wide(v).float(); got != float64(v) {
			t.Errorf("%d: got %v", v, got)
		}
		sum, over := wide(v).plus(wide(-v - 1))
		if sum != wide(-1) || over>>63 != 0 {
			t.Errorf("%d plus its complement: got %v, want -1", v, sum)
		}
	}
	most := int128{^uint64(0), 1<<63 - 1}
	if _, over := most.plus(wide(1)); over>>63 == 0 {
		t.Error("overflow is not reported")
	}
	if !wide(-2).less(wide(-1)) || !wide(-1).less(wide(0)) || wide(3).less(wide(3)) || most.less(wide(5)) {
		t.Error("less: wrong order")
	}
}
