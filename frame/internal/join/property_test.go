package join

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"go.millstream.dev/frame/internal/vec"
)

var keyTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, &arrow.Decimal128Type{Precision: 12, Scale: 2},
	&arrow.Decimal128Type{Precision: 38, Scale: 2}, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary,
	arrow.BinaryTypes.LargeString, &arrow.FixedSizeBinaryType{ByteWidth: 3},
}

// appendValue appends value number v of a few of the type: equal numbers are equal values. Wide numbers are far apart.
func appendValue(b array.Builder, v int, wide bool) {
	n := int64(v)
	if wide {
		n = (n - 3) * (math.MaxInt64 / 5)
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v%2 == 0)
	case *array.Int8Builder:
		b.Append(int8(v - 3))
	case *array.Uint16Builder:
		b.Append(uint16(v * 9000))
	case *array.Int32Builder:
		b.Append(int32(v-3) * 100_000_000)
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint64Builder:
		b.Append(uint64(n))
	case *array.Float32Builder:
		b.Append([]float32{0, float32(math.Copysign(0, -1)), 1, float32(math.NaN()), -2.5,
			float32(math.Inf(1))}[v%6])
	case *array.Float64Builder:
		b.Append([]float64{0, math.Copysign(0, -1), 1, math.NaN(), math.Float64frombits(0xfff8000000000001), -2.5,
			math.Inf(-1)}[v%7])
	case *array.Date32Builder:
		b.Append(arrow.Date32(v * 365))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.Decimal128Builder:
		d := decimal128.FromI64(n)
		if wide && b.Type().(*arrow.Decimal128Type).Precision > 18 {
			d = d.Mul(decimal128.FromI64(1 << 40))
		}
		b.Append(d)
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte{byte(v), 0, 'x'})
	case *array.LargeStringBuilder:
		b.Append(text(v))
	case array.StringLikeBuilder:
		b.Append(text(v))
	case *array.BinaryBuilder:
		b.Append([]byte(text(v)))
	default:
		panic(fmt.Sprintf("no values of type %v", b.Type()))
	}
}

func text(v int) string { return "a common prefix of keys\x00"[:v*5%25] + string(rune('a'+v%3)) }

// drawSide draws batches with key columns of some types and a last column of numbers of rows.
func drawSide(t *rapid.T, label string, types []arrow.DataType, most int, wide bool) side {
	fields := make([]arrow.Field, len(types)+1)
	for i, dt := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("%s%d", label, i), Type: dt, Nullable: true}
	}
	fields[len(types)] = arrow.Field{Name: label + "row", Type: arrow.PrimitiveTypes.Int64}
	schema := arrow.NewSchema(fields, nil)
	distinct := rapid.SampledFrom([]int{1, 3, 8, 60}).Draw(t, label+" distinct")
	nulls := rapid.SampledFrom([]int{0, 0, 4}).Draw(t, label+" nulls")
	var batches []arrow.RecordBatch
	row := int64(0)
	for range rapid.IntRange(0, 4).Draw(t, label+" batches") {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		n := rapid.IntRange(0, most).Draw(t, label+" rows")
		for range n {
			for c := range types {
				if nulls > 0 && rapid.IntRange(0, nulls).Draw(t, "null") == 0 {
					b.Field(c).AppendNull()
				} else {
					appendValue(b.Field(c), rapid.IntRange(0, distinct-1).Draw(t, "value"), wide)
				}
			}
			b.Field(len(types)).(*array.Int64Builder).Append(row)
			row++
		}
		batch := b.NewRecordBatch()
		if rapid.Bool().Draw(t, label+" sliced") && n > 0 {
			lo := rapid.IntRange(0, n).Draw(t, "from")
			batch = batch.NewSlice(int64(lo), int64(rapid.IntRange(lo, n).Draw(t, "to")))
		}
		batches = append(batches, batch)
	}
	whole, err := vec.Concat(schema, batches)
	if err != nil {
		t.Fatal(err)
	}
	return side{schema, batches, whole}
}

// parityCondition is a condition on the numbers of rows.
func parityCondition(column, rightColumn, modulus int) *Condition {
	return &Condition{
		Left: []int{column}, Right: []int{rightColumn},
		Eval: func(left, right arrow.RecordBatch) (*array.Boolean, error) {
			b := array.NewBooleanBuilder(memory.NewGoAllocator())
			l, r := left.Column(0).(*array.Int64), right.Column(0).(*array.Int64)
			for i := range l.Len() {
				sum := l.Value(i) + r.Value(i)
				if sum%5 == 4 {
					b.AppendNull()
				} else {
					b.Append(sum%int64(modulus) == 0)
				}
			}
			return b.NewBooleanArray(), nil
		},
	}
}

func TestJoinAgainstLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SliceOfN(rapid.SampledFrom(keyTypes), 0, 3).Draw(t, "types")
		wide := rapid.Bool().Draw(t, "wide")
		left, right := drawSide(t, "l", types, 30, wide), drawSide(t, "r", types, 30, wide)
		keys := numbers(len(types))
		kinds := []Kind{Inner, Left, Right, Full, Semi, Anti}
		if len(types) == 0 {
			kinds = append(kinds, Cross)
		}
		all := numbers(len(types) + 1)
		o := Options{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Keys: keys, Left: all, Right: all,
			MaxRows: rapid.SampledFrom([]int{0, 1, 7, 64}).Draw(t, "max rows")}
		if o.Kind.selects() {
			o.Right = nil
		}
		var condition func(l, r int) bool
		switch rapid.IntRange(0, 3).Draw(t, "condition") {
		case 0:
			modulus := rapid.IntRange(1, 3).Draw(t, "modulus")
			o.Condition = parityCondition(len(types), len(types), modulus)
			condition = func(l, r int) bool {
				sum := left.whole.Column(len(types)).(*array.Int64).Value(l) +
					right.whole.Column(len(types)).(*array.Int64).Value(r)
				return sum%5 != 4 && sum%int64(modulus) == 0
			}
		case 1:
			o.NullAware = o.Kind == Anti && len(types) == 1
		}
		hash := vec.Hash
		if rapid.Bool().Draw(t, "bad hash") {
			hash = badHash
		}
		compareRows(t, run(t, left, right, keys, o, hash), reference(left, right, keys, o, condition))
	})
}

// badHash has collisions.
func badHash(cols []arrow.Array, out []uint64) error {
	if err := vec.Hash(cols, out); err != nil {
		return err
	}
	for i := range out {
		out[i] %= 3
	}
	return nil
}

// TestIndexAgainstMap compares both indexes with a map of rows.
func TestIndexAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Uint64Range(0, 500).Draw(t, "most")
		keys := rapid.SliceOfN(rapid.Uint64Range(0, most), 0, 300).Draw(t, "keys")
		if rapid.Bool().Draw(t, "unique") {
			seen := map[uint64]bool{}
			kept := keys[:0]
			for _, k := range keys {
				if !seen[k] {
					kept = append(kept, k)
				}
				seen[k] = true
			}
			keys = kept
		}
		var skip rowSet
		if rapid.Bool().Draw(t, "skips") {
			skip = newRowSet(len(keys))
			for i := range keys {
				if rapid.IntRange(0, 3).Draw(t, "skip") == 0 {
					skip.add(i)
				}
			}
		}
		want := map[uint64][]int32{}
		for i, k := range keys {
			if skip == nil || !skip.has(i) {
				want[k] = append(want[k], int32(i))
			}
		}
		indexes := map[string]index{"bits": newBitIndex(keys, skip, int(most)+1), "hash": newHashIndex(keys, skip)}
		probe := append([]uint64{0, most, most + 1, most + 64, math.MaxUint64}, keys...)
		first, count := make([]int32, len(probe)), make([]int32, len(probe))
		for name, x := range indexes {
			x.lookup(probe, first, count, rapid.Bool().Draw(t, "few"))
			for i, k := range probe {
				var got []int32
				switch {
				case first[i] < 0:
				case x.list() == nil:
					got = []int32{first[i]}
				default:
					got = x.list()[first[i] : first[i]+count[i]]
				}
				if fmt.Sprint(got) != fmt.Sprint(want[k]) {
					t.Fatalf("%s: rows of key %d: got %v, want %v", name, k, got, want[k])
				}
			}
		}
	})
}

// Keys of the table that share a hash do not hide rows from NOT IN.
func TestNotInWithCollisions(t *testing.T) {
	rows := func(values ...int) side {
		schema := arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		for _, v := range values {
			if v < 0 {
				b.Field(0).AppendNull()
			} else {
				appendValue(b.Field(0), v, false)
			}
		}
		batch := b.NewRecordBatch()
		return side{schema, []arrow.RecordBatch{batch}, batch}
	}
	o := Options{Kind: Anti, Keys: []int{0}, Left: []int{0}, NullAware: true}
	for _, right := range [][]int{{0, 1, 2, 4}, {0, 1, 2, -1}, {}} {
		left, right := rows(0, 3, -1, 5, 6, 7), rows(right...)
		compareRows(t, run(t, left, right, o.Keys, o, badHash), reference(left, right, o.Keys, o, nil))
	}
}
