package parquet

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var heap = memory.NewGoAllocator()

// column is a type with a function that appends the value of a number.
type column struct {
	dt  arrow.DataType
	add func(b array.Builder, v int)
}

// columns are all types, each with values that depend on a number: equal numbers have equal values.
var columns = []column{
	{arrow.FixedWidthTypes.Boolean, func(b array.Builder, v int) { b.(*array.BooleanBuilder).Append(v%2 == 0) }},
	{arrow.PrimitiveTypes.Int8, func(b array.Builder, v int) { b.(*array.Int8Builder).Append(int8(v * 7)) }},
	{arrow.PrimitiveTypes.Int16, func(b array.Builder, v int) { b.(*array.Int16Builder).Append(int16(v * 977)) }},
	{arrow.PrimitiveTypes.Int32, func(b array.Builder, v int) { b.(*array.Int32Builder).Append(int32(v) * 1000003) }},
	{arrow.PrimitiveTypes.Int64, func(b array.Builder, v int) { b.(*array.Int64Builder).Append(int64(v) * -1e12) }},
	{arrow.PrimitiveTypes.Uint8, func(b array.Builder, v int) { b.(*array.Uint8Builder).Append(uint8(v * 7)) }},
	{arrow.PrimitiveTypes.Uint16, func(b array.Builder, v int) { b.(*array.Uint16Builder).Append(uint16(v * 977)) }},
	{arrow.PrimitiveTypes.Uint32, func(b array.Builder, v int) { b.(*array.Uint32Builder).Append(uint32(v) * 4e6) }},
	{arrow.PrimitiveTypes.Uint64, func(b array.Builder, v int) { b.(*array.Uint64Builder).Append(uint64(v) << 55) }},
	{arrow.FixedWidthTypes.Float16, func(b array.Builder, v int) {
		b.(*array.Float16Builder).Append(float16.New(float32(v)))
	}},
	{arrow.PrimitiveTypes.Float32, func(b array.Builder, v int) { b.(*array.Float32Builder).Append(float32(v) / 3) }},
	{arrow.PrimitiveTypes.Float64, func(b array.Builder, v int) {
		b.(*array.Float64Builder).Append([]float64{float64(v) / 3, math.Inf(1), math.Copysign(0, -1)}[v%3])
	}},
	{arrow.BinaryTypes.String, func(b array.Builder, v int) {
		b.(*array.StringBuilder).Append(strings.Repeat("ü", v%20) + fmt.Sprint(v))
	}},
	{arrow.BinaryTypes.Binary, func(b array.Builder, v int) {
		b.(*array.BinaryBuilder).Append([]byte{0, byte(v), 255}[:v%4*3/4])
	}},
	{&arrow.FixedSizeBinaryType{ByteWidth: 5}, func(b array.Builder, v int) {
		b.(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%05d", v%100000))
	}},
	{arrow.FixedWidthTypes.Date32, func(b array.Builder, v int) { b.(*array.Date32Builder).Append(arrow.Date32(v)) }},
	{arrow.FixedWidthTypes.Time32ms, func(b array.Builder, v int) {
		b.(*array.Time32Builder).Append(arrow.Time32(v))
	}},
	{arrow.FixedWidthTypes.Time64us, func(b array.Builder, v int) {
		b.(*array.Time64Builder).Append(arrow.Time64(v))
	}},
	{arrow.FixedWidthTypes.Time64ns, func(b array.Builder, v int) {
		b.(*array.Time64Builder).Append(arrow.Time64(v))
	}},
	{arrow.FixedWidthTypes.Duration_us, func(b array.Builder, v int) {
		b.(*array.DurationBuilder).Append(arrow.Duration(v))
	}},
	{&arrow.TimestampType{Unit: arrow.Millisecond}, addTimestamp},
	{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, addTimestamp},
	{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"}, addTimestamp},
	{&arrow.Decimal128Type{Precision: 7, Scale: 2}, addDecimal},
	{&arrow.Decimal128Type{Precision: 15, Scale: 2}, addDecimal},
	{&arrow.Decimal128Type{Precision: 38, Scale: 10}, addDecimal},
	{&arrow.Decimal256Type{Precision: 60, Scale: 1}, func(b array.Builder, v int) {
		b.(*array.Decimal256Builder).Append(decimal256.FromI64(int64(v) * -12345))
	}},
}

func addTimestamp(b array.Builder, v int) {
	b.(*array.TimestampBuilder).Append(arrow.Timestamp(int64(v) * 1e9))
}

func addDecimal(b array.Builder, v int) {
	b.(*array.Decimal128Builder).Append(decimal128.FromI64(int64(v)*12 - 7))
}

// batchOf returns a batch of all types with n rows. Values are below distinct; a part of the rows is null.
func batchOf(rng *rand.Rand, n, distinct int, nulls float64) arrow.RecordBatch {
	return batchOfTypes(rng, columns, n, distinct, nulls)
}

// batchOfTypes is batchOf for some of the columns.
func batchOfTypes(rng *rand.Rand, columns []column, n, distinct int, nulls float64) arrow.RecordBatch {
	var fields []arrow.Field
	for i, c := range columns {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: c.dt, Nullable: nulls > 0 || i%2 == 0})
	}
	b := array.NewRecordBuilder(heap, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i, c := range columns {
		for row := 0; row < n; {
			// Runs of nulls and values of any length.
			null := rng.Float64() < nulls
			for range min(n-row, 1+rng.IntN(1+rng.IntN(20))) {
				if null {
					b.Field(i).AppendNull()
				} else {
					c.add(b.Field(i), rng.IntN(distinct))
				}
				row++
			}
		}
	}
	return b.NewRecordBatch()
}

func writeFile(t testing.TB, opts WriteOptions, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, batches[0].Schema(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readFile returns all rows of a file as one batch, read in batches of at most rows.
func readFile(b []byte, rows int) (_ arrow.RecordBatch, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	opts := ReadOptions{Schema: f.Schema(), Rows: rows}
	for i := range f.Schema().NumFields() {
		opts.Columns = append(opts.Columns, i)
	}
	for i := range f.RowGroups() {
		opts.Groups = append(opts.Groups, i)
	}
	var batches []arrow.RecordBatch
	err = f.Read(opts, func(b arrow.RecordBatch) error {
		if b.NumRows() > int64(rows) || b.NumRows() == 0 {
			return fmt.Errorf("batch of %d rows, want 1 to %d", b.NumRows(), rows)
		}
		batches = append(batches, b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b1 := array.NewRecordBuilder(heap, f.Schema())
	defer b1.Release()
	batches = append(batches, b1.NewRecordBatch())
	columns := make([]arrow.Array, f.Schema().NumFields())
	for i := range columns {
		chunks := make([]arrow.Array, len(batches))
		for j, b := range batches {
			chunks[j] = b.Column(i)
		}
		if columns[i], err = array.Concatenate(chunks, heap); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(f.Schema(), columns, f.NumRows()), nil
}

// TestRoundTrip: every type is read as it was written, for codecs, dictionaries, nulls, row groups and batches.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, codec := range []Codec{"", Zstd, Gzip, LZ4, Uncompressed} { // "" is Snappy
		for _, nulls := range []float64{0, 0.3, 1} {
			for _, distinct := range []int{1, 7, 100000} {
				for _, n := range []int{0, 1, 8, 2000} {
					if codec != "" && distinct == 7 {
						continue // as with the default
					}
					want := batchOf(rng, n, distinct, nulls)
					b := writeFile(t, WriteOptions{Codec: codec, GroupRows: int64(700 + rng.IntN(10000))}, want)
					got, err := readFile(b, 1+rng.IntN(3000))
					if err != nil {
						t.Fatalf("%s, %v nulls, %d distinct, %d rows: %v", codec, nulls, distinct, n, err)
					}
					if !got.Schema().Equal(want.Schema()) {
						t.Fatalf("got schema %v, want %v", got.Schema(), want.Schema())
					}
					for i := range columns {
						if !array.Equal(got.Column(i), want.Column(i)) {
							t.Errorf("%s, %v nulls, %d distinct, %d rows, %v: got %.300v, want %.300v", codec, nulls,
								distinct, n, columns[i].dt, got.Column(i), want.Column(i))
						}
					}
				}
			}
		}
	}
}

// TestLargePages: columns of several pages, with and without dictionaries, in one row group. There is a column of each
// physical type.
func TestLargePages(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var large []column
	seen := map[arrow.Type]bool{}
	for _, c := range columns {
		switch id := c.dt.ID(); id {
		case arrow.BOOL, arrow.INT8, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.FIXED_SIZE_BINARY,
			arrow.DECIMAL128:
			if !seen[id] {
				large = append(large, c)
			}
			seen[id] = true
		}
	}
	if len(large) != 8 {
		t.Fatalf("got %d columns, want 8", len(large))
	}
	for _, distinct := range []int{50, 1 << 20} {
		want := batchOfTypes(rng, large, pageRows+10000, distinct, 0.2)
		b := writeFile(t, WriteOptions{NoDictionary: distinct == 50}, want)
		got, err := readFile(b, 65536)
		if err != nil {
			t.Fatal(err)
		}
		for i := range large {
			if !array.Equal(got.Column(i), want.Column(i)) {
				t.Errorf("%d distinct, %v: columns differ", distinct, large[i].dt)
			}
		}
	}
}

// TestConversions: types that Parquet does not have are written as similar ones.
func TestConversions(t *testing.T) {
	build := func(dt arrow.DataType, text string) arrow.RecordBatch {
		s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt, Nullable: true}}, nil)
		b, _, err := array.RecordFromJSON(heap, s, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	for _, c := range []struct {
		in   arrow.DataType
		text string
		out  arrow.DataType
		want string
	}{
		{arrow.FixedWidthTypes.Timestamp_s, `[{"x": "1970-01-01T00:00:07Z"}, {"x": null}]`,
			&arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, ""},
		{arrow.FixedWidthTypes.Time32s, `[{"x": "00:00:07"}]`, arrow.FixedWidthTypes.Time32ms, ""},
		{arrow.BinaryTypes.LargeString, `[{"x": "a"}, {"x": null}, {"x": "bc"}]`, arrow.BinaryTypes.String, ""},
		{arrow.BinaryTypes.LargeBinary, `[{"x": "YQ=="}]`, arrow.BinaryTypes.Binary, ""},
		{dict, `[{"x": "a"}, {"x": null}, {"x": "b"}, {"x": "a"}]`, arrow.BinaryTypes.String, ""},
	} {
		want := build(c.out, c.text)
		got, err := readFile(writeFile(t, WriteOptions{}, build(c.in, c.text)), 10)
		if err != nil || !arrow.TypeEqual(got.Column(0).DataType(), c.out) ||
			!array.Equal(got.Column(0), want.Column(0)) {
			t.Errorf("%v: got %v, %v, want %v", c.in, got, err, want)
		}
	}
}

// TestWriteErrors: types that Parquet does not have and values that do not fit are errors that name the column.
func TestWriteErrors(t *testing.T) {
	far := array.NewTimestampBuilder(heap, &arrow.TimestampType{Unit: arrow.Second})
	far.Append(math.MaxInt64)
	null := array.NewInt64Builder(heap)
	null.AppendNull()
	big := array.NewDecimal128Builder(heap, &arrow.Decimal128Type{Precision: 5})
	big.Append(decimal128.FromI64(1 << 40))
	for _, c := range []struct {
		a    arrow.Array
		want string
	}{
		{far.NewArray(), `column "x": 9223372036854775807 seconds do not fit`},
		{null.NewArray(), `column "x": 1 nulls in a column that is not nullable`},
		{big.NewArray(), `column "x": decimal has more than 5 digits`},
		{array.NewNull(1), `column "x": type null is not supported in Parquet files`},
	} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: c.a.DataType()}}, nil)
		w, err := NewWriter(&bytes.Buffer{}, schema, WriteOptions{})
		if err == nil {
			err = w.Write(array.NewRecordBatch(schema, []arrow.Array{c.a}, 1))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.a, err, c.want)
		}
	}
	if _, err := NewWriter(nil, arrow.NewSchema(nil, nil), WriteOptions{Codec: "zip"}); err == nil ||
		!strings.Contains(err.Error(), `unknown Parquet codec "zip"`) {
		t.Errorf("got %v", err)
	}
	w, err := NewWriter(&bytes.Buffer{}, arrow.NewSchema(nil, nil), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("second Close: got no error")
	}
}
