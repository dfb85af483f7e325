package vec

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestTake compares taken rows with the rows, one by one: types × nulls × selections.
func TestTake(t *testing.T) {
	for _, nulls := range []float64{0, 0.3, 1} {
		b := randomBatch(every(), 100, nulls, 1)
		rng := rand.New(rand.NewPCG(2, 3))
		for name, rows := range map[string][]int32{
			"none":     {},
			"one":      {99},
			"null":     {-1},
			"run":      {10, 11, 12, 13, 14},
			"mixed":    {5, -1, -1, 5, 6, 7, 0, 99, -1},
			"repeated": {3, 3, 3, 3, 3, 3, 3, 3, 3},
			"random": func() (out []int32) {
				for range 300 {
					out = append(out, rng.Int32N(100))
				}
				return out
			}(),
		} {
			t.Run(name, func(t *testing.T) {
				got, err := Take(b, rows)
				if err != nil {
					t.Fatal(err)
				}
				defer got.Release()
				equalRows(t, got, b, rows)
			})
		}
	}
}

func TestTakeRejectsRows(t *testing.T) {
	b := randomBatch(plainTypes, 10, 0.5, 1)
	for _, r := range []int32{10, -2, 1 << 30} {
		if _, err := Take(b, []int32{0, r}); err == nil || !strings.Contains(err.Error(), "of a batch of 10 rows") {
			t.Errorf("row %d: got error %v, want one that names the number of rows", r, err)
		}
		if _, err := TakeArray(b.Column(0), []int32{r}); err == nil {
			t.Errorf("row %d of an array: got no error", r)
		}
	}
}

// TestTakeOwnsMemory overwrites the memory of a batch after its rows were taken.
func TestTakeOwnsMemory(t *testing.T) {
	values := []int64{1, 2, 3}
	raw := []byte("abc")
	s := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBatch(s, []arrow.Array{
		Make(s.Field(0).Type, 3, 0, []*memory.Buffer{nil, Buffer(values)}),
		Make(s.Field(1).Type, 3, 0, []*memory.Buffer{nil, Buffer([]int32{0, 1, 2, 3}), memory.NewBufferBytes(raw)}),
	}, 3)
	got, err := Take(b, []int32{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	clear(values)
	clear(raw)
	if i, s := got.Column(0).ValueStr(1), got.Column(1).ValueStr(2); i != "2" || s != "c" {
		t.Errorf("got %s and %s, want 2 and c", i, s)
	}
}

// TestTakeInvalid has offsets that point outside of the bytes.
func TestTakeInvalid(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	good := Make(s.Field(0).Type, 1, 0,
		[]*memory.Buffer{nil, Buffer([]int32{0, 2}), memory.NewBufferBytes([]byte("ab"))})
	for _, offsets := range [][]int32{{0, 3}, {-1, 2}, {2, 0}} {
		copy(Cast[int32](good.Data().Buffers()[1].Bytes()), offsets)
		b := array.NewRecordBatch(s, []arrow.Array{good}, 1)
		if got, err := Take(b, []int32{0, 0}); err == nil && offsets[0] < offsets[1] {
			t.Errorf("offsets %v: got %v, want an error", offsets, got)
		}
		if err := Hash([]arrow.Array{good}, make([]uint64, 1)); err == nil {
			t.Errorf("offsets %v: Hash: got no error", offsets)
		}
	}
}

func TestCastUnaligned(t *testing.T) {
	raw := make([]byte, 8*5+8)
	for i := range raw {
		raw[i] = byte(i)
	}
	for shift := range 8 {
		got := Cast[uint64](raw[shift : shift+40])
		if len(got) != 5 || got[0]&0xff != uint64(shift) || got[4]&0xff != uint64(shift+32) {
			t.Errorf("shift %d: got %x", shift, got)
		}
	}
	if got := Cast[uint64](raw[:7]); got != nil {
		t.Errorf("seven bytes: got %v, want none", got)
	}
}
