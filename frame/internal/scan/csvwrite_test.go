package scan

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/files"
)

// csvTypes are the types of CSV files, each with its extreme values.
var csvTypes = []struct {
	dt     arrow.DataType
	values []any
}{
	{arrow.FixedWidthTypes.Boolean, []any{true, false}},
	{arrow.PrimitiveTypes.Int8, []any{int8(math.MinInt8), int8(math.MaxInt8)}},
	{arrow.PrimitiveTypes.Int16, []any{int16(math.MinInt16), int16(math.MaxInt16)}},
	{arrow.PrimitiveTypes.Int32, []any{int32(math.MinInt32), int32(math.MaxInt32)}},
	{arrow.PrimitiveTypes.Int64, []any{int64(math.MinInt64), int64(math.MaxInt64)}},
	{arrow.PrimitiveTypes.Uint8, []any{uint8(0), uint8(math.MaxUint8)}},
	{arrow.PrimitiveTypes.Uint16, []any{uint16(math.MaxUint16)}},
	{arrow.PrimitiveTypes.Uint32, []any{uint32(math.MaxUint32)}},
	{arrow.PrimitiveTypes.Uint64, []any{uint64(math.MaxUint64)}},
	{arrow.PrimitiveTypes.Float32, []any{float32(0.1), float32(math.MaxFloat32), float32(1.0 / 3), float32(16777217)}},
	{arrow.PrimitiveTypes.Float64, []any{0.1, math.MaxFloat64, 1.0 / 3, math.Inf(-1), 5e-324, math.Copysign(0, -1)}},
	{arrow.BinaryTypes.String, []any{"x", "a,b", "a;b", `say "x"`, "two\nlines", " space ", "NA", "ü", "'"}},
	{arrow.BinaryTypes.LargeString, []any{"x", `""`, "\n"}},
	{arrow.BinaryTypes.Binary, []any{[]byte("x"), []byte{0, 1, 255}}},
	{arrow.FixedWidthTypes.Date32, []any{arrow.Date32(0), arrow.Date32(-1), arrow.Date32(20000)}},
	{arrow.FixedWidthTypes.Timestamp_s, []any{arrow.Timestamp(0), arrow.Timestamp(-1)}},
	{arrow.FixedWidthTypes.Timestamp_ms, []any{arrow.Timestamp(1), arrow.Timestamp(-1)}},
	{arrow.FixedWidthTypes.Timestamp_us, []any{arrow.Timestamp(1), arrow.Timestamp(1e15)}},
	{arrow.FixedWidthTypes.Timestamp_ns, []any{arrow.Timestamp(1), arrow.Timestamp(1e18 + 1)}},
}

// appendTo adds a value to a builder, nil for null.
func appendTo(b array.Builder, v any) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Int8Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Int16Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Int32Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Int64Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Uint8Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Uint16Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Uint32Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Uint64Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Float32Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Float64Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.StringBuilder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.LargeStringBuilder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.BinaryBuilder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.Date32Builder:
		appendAs(b.Append, b.AppendNull, v)
	case *array.TimestampBuilder:
		appendAs(b.Append, b.AppendNull, v)
	default:
		panic(fmt.Sprintf("no values of %T", b))
	}
}

func appendAs[T any](add func(T), null func(), v any) {
	if v == nil {
		null()
	} else {
		add(v.(T))
	}
}

// readSpan reads the lines of a CSV file that begin in a span.
func readSpan(path string, schema *arrow.Schema, at files.Span, quoted [2]bool) (arrow.RecordBatch, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	encoded, err := EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	if at.To < 0 {
		at.To = info.Size()
	}
	return whole(Split{Format: CSV, Path: path, Stamp: files.StampOf(info), Spans: []files.Span{at}, Quoted: quoted,
		Schema: encoded, Dialect: Dialect{Comma: ',', Null: []string{"NA", "NaN"}}})
}

// Every type is read back as it was written, including nulls: as the only column, where a row of null would be an empty
// line, and next to other columns.
func TestCSVEveryType(t *testing.T) {
	dir := t.TempDir()
	for _, c := range csvTypes {
		for columns := 1; columns <= 3; columns++ {
			var fields []arrow.Field
			for i := range columns {
				fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: c.dt, Nullable: true})
			}
			schema := arrow.NewSchema(fields, nil)
			rows := append([]any{nil}, c.values...)
			for _, values := range [][]any{rows, append(rows, nil, nil), {nil}, {nil, nil, nil}, c.values, {}} {
				b := array.NewRecordBuilder(heap, schema)
				for row, v := range values {
					for i := range columns {
						if i > 0 && row%2 == 0 {
							v = nil
						}
						appendTo(b.Field(i), v)
					}
				}
				want := b.NewRecordBatch()
				path := filepath.Join(dir, "x.csv")
				w, err := WriteCSV(want, path)
				if err != nil || w.Rows != want.NumRows() {
					t.Fatalf("%v: got %+v, %v", c.dt, w, err)
				}
				got, err := readSpan(path, schema, files.Span{From: 0, To: -1}, [2]bool{})
				if err != nil || !array.RecordEqual(got, want) {
					text, _ := os.ReadFile(path)
					t.Errorf("%v, %d columns: got %v, %v, want %v from\n%s", c.dt, columns, got, err, want, text)
				}
			}
		}
	}
}

// For any cuts of a file every line is read once, also with quotes at the cuts.
func TestCSVEveryCut(t *testing.T) {
	path := save(t, filepath.Join(t.TempDir(), "x.csv"),
		[]byte("id,text\n1,\"a\nb\"\n2,\"\"\"\"\n3,\"x,\"\"\n\"\"y\"\n\n4,\n5,end"))
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := readSpan(path, schema, files.Span{From: 0, To: -1}, [2]bool{})
	if err != nil || want.NumRows() != 5 {
		t.Fatalf("got %v, %v, want 5 rows", want, err)
	}
	quoted := func(at int) bool { return strings.Count(string(text[:at]), `"`)%2 == 1 }
	for first := range len(text) + 1 {
		for second := first; second <= len(text); second++ {
			var batches []arrow.RecordBatch
			for _, s := range [][2]int{{0, first}, {first, second}, {second, len(text)}} {
				b, err := readSpan(path, schema, files.Span{From: int64(s[0]), To: int64(s[1])},
					[2]bool{quoted(s[0]), quoted(s[1])})
				if err != nil {
					t.Fatalf("cuts %d, %d: %v", first, second, err)
				}
				batches = append(batches, b)
			}
			if got, err := joined(schema, batches); err != nil || !array.RecordEqual(got, want) {
				t.Fatalf("cuts %d, %d: got %v, %v, want %v", first, second, got, err, want)
			}
		}
	}
}

func TestCSVHeader(t *testing.T) {
	for _, c := range []struct {
		text     string
		noHeader bool
		names    string
		end      int64
		err      string
	}{
		{"a,b\n1,2\n", false, "a|b", 4, ""}, {"a,b\n1,2\n", true, "f0|f1", 0, ""}, {"\ufeffa,b\n", false, "a|b", 7, ""},
		{"\"x,\ny\",b\n", false, "x,\ny|b", 9, ""}, {"\n\na\n1\n", false, "a", 4, ""}, {"a", false, "a", 1, ""},
		{"", false, "", 0, "file is empty"}, {"", true, "", 0, "file is empty"}, {"\"x", false, "", 0, "quote"},
	} {
		d := Dialect{NoHeader: c.noHeader, Comma: ','}
		names, end, err := d.header(strings.NewReader(c.text))
		if strings.Join(names, "|") != c.names || end != c.end || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %q, %d, %v, want %q, %d, %q", c.text, names, end, err, c.names, c.end, c.err)
		}
	}
}

func TestCSVOrder(t *testing.T) {
	schema := func(names ...string) *arrow.Schema {
		var fields []arrow.Field
		for _, n := range names {
			fields = append(fields, arrow.Field{Name: n, Type: arrow.BinaryTypes.String})
		}
		return arrow.NewSchema(fields, nil)
	}
	for _, c := range []struct {
		schema []string
		file   []string
		want   string
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, "[0 1]"}, {[]string{"b", "a"}, []string{"a", "b", "c"}, "[1 0]"}, {nil,
			nil, "[]"},
		{[]string{"x"}, []string{"a", "b"}, `no column "x" among a, b`}, {[]string{"a"}, []string{"a", "a"},
			`two columns named "a"`},
		{[]string{"b"}, []string{"a;b"}, `separated by ';', set CSVOptions.Comma`},
		{[]string{"x"}, []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, "among 1, 2, 3, 4, 5, 6, 7, 8"},
	} {
		got, err := csvOrder(schema(c.schema...), c.file)
		if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%v of %v: got %s, %v, want %s", c.schema, c.file, text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "9") {
			t.Errorf("%v of many: got %v, want the first eight", c.schema, err)
		}
	}
}
