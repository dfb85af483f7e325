package interop

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// goBatch is a record batch that Go made.
func goBatch(t *testing.T) arrow.RecordBatch {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, []bool{true, false, true})
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"a", "", "grün"}, nil)
	b.Field(2).(*array.Float64Builder).AppendValues([]float64{0.5, math.Inf(1), -1}, nil)
	rec := b.NewRecordBatch()
	t.Cleanup(rec.Release)
	return rec
}

// goValues are values of every type, made in Go.
func goValues(t *testing.T) map[string]any {
	numbers := make([]int32, 60)
	for i := range numbers {
		numbers[i] = int32(i * i)
	}
	mem := wire.NewNDArray(numbers).Data
	view := func(dt wire.DType, shape, strides []int, offset int) *wire.NDArray {
		return &wire.NDArray{DType: dt, Shape: shape, Strides: strides, Data: mem, Offset: offset}
	}
	rec := goBatch(t)
	table := array.NewTableFromRecords(rec.Schema(), []arrow.RecordBatch{rec, rec})
	t.Cleanup(table.Release)
	return map[string]any{
		"nil": nil, "true": true, "int": int64(math.MinInt64), "big": new(big.Int).Exp(big.NewInt(-7), big.NewInt(301),
			nil), "float": math.Inf(-1), "nan": math.NaN(),
		"complex": complex(0.5, -1), "str": "grüße 🎉", "bytes": bytes.Repeat([]byte{1, 2, 3}, 1000),
		"bytearray": wire.ByteArray("xyz"),
		"list":      []any{int64(1), []any{"x", nil}, wire.Tuple{}},
		"tuple":     wire.Tuple{wire.Tuple{int64(1)}, []byte("b")},
		"dict":      wire.NewDict("a", int64(1), wire.Tuple{"t", int64(2)}, []any{}, int64(5), nil),
		"go-map":    map[string]any{"z": int64(1), "a": "b"},
		"set":       wire.Set{int64(1), "two", wire.Tuple{int64(3)}}, "frozenset": wire.FrozenSet{"x"},
		"odd-keys": wire.NewDict(wire.FrozenSet{int64(1)}, "v"),
		"time":     time.Date(2024, 2, 29, 12, 30, 15, 123456000, time.FixedZone("", -5*3600)),
		"utc":      time.Unix(1700000000, 0).UTC(),
		"naive":    wire.NaiveTime{Time: time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)},
		"date":     wire.Date{Year: 1999, Month: 12, Day: 31},
		"clock":    wire.TimeOfDay{Hour: 1, Minute: 2, Second: 3, Microsecond: 4}, "delta": -90 * time.Second,
		"exception": pickle.NewException("builtins", "ValueError", "no"),
		"vector":    wire.NewNDArray([]float64{1, 2.5}), "matrix": wire.NewNDArray([]uint16{1, 2, 3, 4, 5, 6}, 2, 3),
		"bools":     wire.NewNDArray([]bool{true, false}),
		"complexes": wire.NewNDArray([]complex64{1, 2i}), "empty": wire.NewNDArray([]int8{}, 0),
		"empty-2d": wire.NewNDArray([]int8{}, 3, 0),
		"single":   &wire.NDArray{DType: wire.Int32, Data: mem, Offset: 8},
		"fortran":  view(wire.Int32, []int{3, 4}, []int{4, 12}, 0),
		"step":     view(wire.Int32, []int{10}, []int{12}, 4), "negative": view(wire.Int32, []int{5, 3}, []int{-12, 4},
			120), "window": view(wire.Int32, []int{3, 2}, []int{24, 4}, 16),
		"broadcast": view(wire.Int32, []int{4, 3}, []int{0, 4}, 0), "broadcast-step": view(wire.Int32, []int{3, 2, 2},
			[]int{8, 0, 24}, 0),
		"big-endian": view(">i4", []int{4}, nil, 0), "datetimes": view("<M8[ms]", []int{4}, nil, 0),
		"texts":     view("|S5", []int{4}, nil, 0),
		"read-only": &wire.NDArray{DType: wire.Int32, Shape: []int{2}, Data: mem, ReadOnly: true},
		"nested":    []any{int64(1), wire.NewDict("a", []any{"x", wire.NewNDArray([]int64{1, 2, 3})})},
		"batch":     rec, "table": table, "tables": wire.NewDict("x", table, "y", []any{rec, int64(1)}),
	}
}

// TestWireFromGo: Python reads what Go made as what Go says it is.
func TestWireFromGo(t *testing.T) {
	p := newWirePeer(t)
	for name, v := range goValues(t) {
		want := wiretest.Describe(normal(v), false)
		for _, opt := range []wire.EncodeOptions{{}, {PickleProtocol: 4, ShardSize: 50}, {Compression: "auto"}} {
			m, err := wire.Encode(wire.Serialize{Value: v}, opt)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			if a, _ := p.ask("describe", append([][]byte{[]byte("strict")}, asBytes(m)...)...); a.Text != want {
				t.Errorf("%s, %+v: Python reads\n%s, Go means\n%s", name, opt, a.Text, want)
				break
			}
		}
		// And pickled, or bare in a body.
		for how, in := range map[string]any{"pickled": wire.ToPickle{Value: v}, "bare": []any{v}} {
			if name == "batch" || name == "table" || name == "tables" {
				continue // Arrow has no form in a pickle of ours
			}
			want := wiretest.Describe(normal(v), true)
			if how == "bare" {
				want = "(" + want + ")"
			}
			m, err := wire.Encode(in, wire.EncodeOptions{})
			if err != nil {
				if name != "odd-keys" { // no key of a body
					t.Errorf("%s, %s: %v", name, how, err)
				}
				continue
			}
			if a, _ := p.ask("describe", append([][]byte{[]byte("loose")}, asBytes(m)...)...); !sameArray(a.Text,
				want) {
				t.Errorf("%s, %s: Python reads\n%s, Go means\n%s", name, how, a.Text, want)
			}
		}
	}
}

// sameArray accepts that a pickle has arrays in another order of elements.
func sameArray(got, want string) bool {
	if got == want {
		return true
	}
	const order = ",-,"
	return len(want) > 5 && bytes.HasPrefix([]byte(want), []byte("array")) &&
		bytes.Contains([]byte(want), []byte(order)) &&
		string(bytes.ReplaceAll([]byte(want), []byte(order), []byte(",C,"))) == got
}

// normal is a value as its receiver sees it: a view with gaps arrives without them.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return wire.NewDict("a", v["a"], "z", v["z"])
	case *wire.NDArray:
		for _, s := range v.Strides {
			if s == 0 {
				return v
			}
		}
		if !v.COrder() && !v.FOrder() {
			c := *v
			m, err := wire.Encode(wire.Serialize{Value: &c}, wire.EncodeOptions{})
			if err != nil {
				return v
			}
			c.Data, c.Strides, c.Offset = m.Frames[2].Bytes(), nil, 0
			return &c
		}
	}
	return v
}

// TestWireSampling: Dask and Go agree on what is worth compressing.
func TestWireSampling(t *testing.T) {
	p := newWirePeer(t)
	r := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	nibbles := bytes.Clone(noise) // half the entropy: zstd and zlib see it, lz4 and snappy do not
	for i := range nibbles {
		nibbles[i] &= 15
	}
	text := bytes.Repeat([]byte("the quick brown fox "), 5000)
	for _, name := range compress.Names() {
		for what, b := range map[string][]byte{"noise": noise, "nibbles": nibbles, "text": text, "short": text[:9999],
			"least": text[:10000], "zeros": make([]byte, 50_000)} {
			a, _ := p.ask("sampled", []byte(name), b)
			hits := 0
			for range 20 {
				m, err := wire.Encode(wire.Serialize{Value: b}, wire.EncodeOptions{Compression: name})
				if err != nil {
					t.Fatal(err)
				}
				if m.Frames[2].Len() < len(b) {
					hits++
				}
			}
			if hits != a.Hits || hits != 0 && hits != 20 {
				t.Errorf("%s of %s: Go compresses %d times of 20, Dask %d", name, what, hits, a.Hits)
			}
		}
	}
}
