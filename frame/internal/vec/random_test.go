package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// idType is an extension type of 16 bytes. Package extensions of arrow-go would add a Parquet library to the module.
type idType struct{ arrow.ExtensionBase }

func newIDType() *idType {
	return &idType{arrow.ExtensionBase{Storage: &arrow.FixedSizeBinaryType{ByteWidth: 16}}}
}

// idArray is an array of idType.
type idArray struct{ array.ExtensionArrayBase }

func (a *idArray) ValueStr(i int) string { return a.Storage().ValueStr(i) }

func (*idType) ArrayType() reflect.Type { return reflect.TypeFor[idArray]() }

func (*idType) ExtensionName() string { return "millstream.test.id" }

func (*idType) ExtensionEquals(other arrow.ExtensionType) bool {
	_, ok := other.(*idType)
	return ok
}

func (*idType) Serialize() string { return "" }

func (*idType) Deserialize(arrow.DataType, string) (arrow.ExtensionType, error) {
	return newIDType(), nil
}

// plainTypes can be keys.
var plainTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
	arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32,
	arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary,
	arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, &arrow.FixedSizeBinaryType{ByteWidth: 3},
	&arrow.FixedSizeBinaryType{ByteWidth: 8}, &arrow.Decimal128Type{Precision: 30, Scale: 2},
	&arrow.Decimal256Type{Precision: 60, Scale: 2}, arrow.Null, newIDType(),
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.PrimitiveTypes.Int64},
}

// nestedTypes cannot.
var nestedTypes = []arrow.DataType{
	arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.LargeListOf(arrow.BinaryTypes.String),
	arrow.ListOf(arrow.ListOf(arrow.FixedWidthTypes.Boolean)), arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16),
	arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32), arrow.ListViewOf(arrow.PrimitiveTypes.Int32),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String),
}

func every() []arrow.DataType {
	return append(append([]arrow.DataType(nil), plainTypes...), nestedTypes...)
}

// appendRandom appends a value of few possible ones, so that there are equal ones.
func appendRandom(b array.Builder, rng *rand.Rand, nulls float64) {
	if rng.Float64() < nulls {
		b.AppendNull()
		return
	}
	v := rng.IntN(40)
	text := strings.Repeat("xyzü", v%7) + fmt.Sprint(v)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(v - 20))
	case *array.Int16Builder:
		b.Append(int16(v*100 - 20))
	case *array.Int32Builder:
		b.Append(int32(v*1e6 - 20))
	case *array.Int64Builder:
		b.Append(int64(v)*1e12 - 20)
	case *array.Uint8Builder:
		b.Append(uint8(v))
	case *array.Uint16Builder:
		b.Append(uint16(v * 1000))
	case *array.Uint32Builder:
		b.Append(uint32(v * 1e8))
	case *array.Uint64Builder:
		b.Append(math.MaxUint64 - uint64(v))
	case *array.Float16Builder:
		b.Append(float16.New(float32(v) / 2))
	case *array.Float32Builder:
		b.Append(float32(v) / 3)
	case *array.Float64Builder:
		b.Append(float64(v) / 3)
	case *array.StringBuilder:
		b.Append(text)
	case *array.LargeStringBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.StringViewBuilder:
		b.Append(text)
	case *array.BinaryViewBuilder:
		b.Append([]byte(text))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v * 1e9))
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(fmt.Sprintf("%020d", v))[20-b.Type().(*arrow.FixedSizeBinaryType).ByteWidth:])
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(v%3)-1, uint64(v)))
	case *array.Decimal256Builder:
		b.Append(decimal256.New(uint64(v%3), 1, 2, uint64(v)))
	case *array.NullBuilder:
		b.AppendNull()
	case *array.ExtensionBuilder:
		id := [16]byte{byte(v), 1, 2, 15: byte(v)}
		b.StorageBuilder().(*array.FixedSizeBinaryBuilder).Append(id[:])
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(text); err != nil {
			panic(err)
		}
	case *array.Int64DictionaryBuilder:
		if err := b.Append(int64(v)); err != nil {
			panic(err)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(b.FieldBuilder(i), rng, nulls)
		}
	case *array.MapBuilder:
		b.Append(true)
		for i := range v % 3 {
			b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprint(i))
			appendRandom(b.ItemBuilder(), rng, nulls)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range 3 {
			appendRandom(b.ValueBuilder(), rng, nulls)
		}
	case *array.ListViewBuilder:
		b.AppendWithSize(true, v%3)
		for range v % 3 {
			appendRandom(b.ValueBuilder(), rng, nulls)
		}
	case array.ListLikeBuilder:
		b.Append(true)
		for range v % 4 {
			appendRandom(b.ValueBuilder(), rng, nulls)
		}
	case *array.RunEndEncodedBuilder:
		b.Append(1)
		appendRandom(b.ValueBuilder(), rng, nulls)
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

// randomArray returns n values, as a slice of a longer array.
func randomArray(t arrow.DataType, n int, nulls float64, rng *rand.Rand) arrow.Array {
	b := array.NewBuilder(heap, t)
	defer b.Release()
	lead := rng.IntN(20)
	for range lead + n + 3 {
		appendRandom(b, rng, nulls)
	}
	whole := b.NewArray()
	defer whole.Release()
	return array.NewSlice(whole, int64(lead), int64(lead+n))
}

// randomBatch returns n rows with a column of each type.
func randomBatch(types []arrow.DataType, n int, nulls float64, seed uint64) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, 5))
	fields := make([]arrow.Field, len(types))
	columns := make([]arrow.Array, len(types))
	for i, t := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: t, Nullable: true}
		columns[i] = randomArray(t, n, nulls, rng)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(n))
}

// text returns a value as text; null is distinct.
func text(a arrow.Array, i int) string {
	if r, ok := a.(*array.RunEndEncoded); ok {
		return text(r.Values(), r.GetPhysicalIndex(i))
	}
	if a.IsNull(i) || a.DataType().ID() == arrow.NULL {
		return "<null>"
	}
	return "=" + a.ValueStr(i)
}

// equalRows fails unless row i of got is row rows[i] of want.
func equalRows(t *testing.T, got, want arrow.RecordBatch, rows []int32) {
	t.Helper()
	if got.NumRows() != int64(len(rows)) || got.NumCols() != want.NumCols() {
		t.Fatalf("got %d rows and %d columns, want %d and %d", got.NumRows(), got.NumCols(), len(rows), want.NumCols())
	}
	for c := range int(want.NumCols()) {
		g, w := got.Column(c), want.Column(c)
		if !arrow.TypeEqual(g.DataType(), w.DataType()) {
			t.Fatalf("column %d: got type %v, want %v", c, g.DataType(), w.DataType())
		}
		for i, r := range rows {
			expect := "<null>"
			if r >= 0 {
				expect = text(w, int(r))
			}
			if value := text(g, i); value != expect {
				t.Fatalf("column of %v: row %d (of row %d): got %s, want %s", g.DataType(), i, r, value, expect)
			}
		}
	}
}
