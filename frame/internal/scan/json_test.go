package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// TestJSONRoundTrip: every type is read as it was written, with and without nulls, for any size of blocks.
func TestJSONRoundTrip(t *testing.T) {
	for _, c := range csvTypes {
		schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: c.dt, Nullable: true},
			{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
		b := array.NewRecordBuilder(heap, schema)
		for i, v := range append(append([]any{nil}, c.values...), nil) {
			appendTo(b.Field(0), v)
			appendTo(b.Field(1), int64(i))
		}
		want := b.NewRecordBatch()
		path := filepath.Join(t.TempDir(), "x.ndjson")
		if _, err := WriteNDJSON(want, path); err != nil {
			t.Fatalf("%v: %v", c.dt, err)
		}
		encoded, err := EncodeSchema(schema)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range []int64{-1, 1, 13, 1000} {
			src, err := Open(t.Context(), path, Options{Schema: encoded, SplitBytes: block})
			if err != nil {
				t.Fatal(err)
			}
			var batches []arrow.RecordBatch
			for _, s := range src.Splits {
				part, err := whole(s)
				if err != nil {
					t.Fatalf("%v, blocks of %d: %v", c.dt, block, err)
				}
				batches = append(batches, part)
			}
			got, err := joined(schema, batches)
			if err != nil {
				t.Fatal(err)
			}
			if !array.RecordEqual(got, want) {
				t.Errorf("%v, blocks of %d: got %v, want %v", c.dt, block, got, want)
			}
		}
	}
}

// TestJSONInference: types fit all values of the beginnings of all files.
func TestJSONInference(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{`1|2|-3`, "int64"}, {`1|null|2`, "int64"}, {`null|1`, "int64"}, {`1|2.5`, "float64"}, {`2.5|1`, "float64"},
		{`1e3`, "float64"}, {`9223372036854775807`, "int64"}, {`9223372036854775808`, "float64"},
		{`true|null|false`, "bool"}, {`true|1`, "utf8"}, {`"a"|1`, "utf8"}, {`"a"|"b"`, "utf8"}, {`"12"`, "utf8"},
		{`"true"`, "utf8"}, {`""`, "utf8"}, {`null|null`, "utf8"}, {`[1,2]`, "utf8"}, {`{"a":1}|null`, "utf8"},
		{`1|[1]`, "utf8"}, {`"2024-01-02"`, "timestamp[us, tz=UTC]"},
		{`"2024-01-02T03:04:05Z"|null`, "timestamp[us, tz=UTC]"}, {`"2024-01-02"|"x"`, "utf8"},
		{`"2024-01-02"|1`, "utf8"}, {`1.5|"NaN"`, "float64"}, {`1|"Infinity"`, "float64"},
	} {
		dir := t.TempDir()
		for i, v := range strings.Split(c.values, "|") { // each in a file of its own, or all in one
			save(t, filepath.Join(dir, fmt.Sprintf("%d.jsonl", i)), []byte(`{"v":`+v+"}\n"))
		}
		one := save(t, filepath.Join(dir, "all.json"),
			[]byte(`{"v":`+strings.ReplaceAll(c.values, "|", "}\n{\"v\":")+"}"))
		for _, path := range []string{dir, one} {
			src, err := Open(t.Context(), path, Options{Format: NDJSON})
			if err != nil {
				t.Errorf("%s: %v", c.values, err)
				continue
			}
			if got := src.Schema.Field(0).Type.String(); got != c.want {
				t.Errorf("%s: got %s, want %s", c.values, got, c.want)
			}
			for _, s := range src.Splits {
				if _, err := whole(s); err != nil {
					t.Errorf("%s: %v", c.values, err)
				}
			}
		}
	}
}

// TestJSONValues: fields in any order, missing fields, escapes, empty lines, and values as text.
func TestJSONValues(t *testing.T) {
	path := save(t, filepath.Join(t.TempDir(), "x.ndjson"), []byte("\ufeff"+
		`{"a": 1, "s": "x\"y\\\u00e9\n😀", "n": [1, {"b": "}"}]}`+"\r\n\n"+`  {"s":"","a":2}  `+"\n{}\n"+`{"n":{"k":null},"extra":true}`))
	src, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := whole(src.Splits[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `[1 2 (null) (null)] ["x\"y\\é\n😀" "" (null) (null)] ["[1, {\"b\": \"}\"}]" (null) (null) "{\"k\":null}"] ` +
		`[(null) (null) (null) true]`
	if text := fmt.Sprint(got.Column(0), got.Column(1), got.Column(2), got.Column(3)); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	some, err := wholeOf(src.Splits[0], ReadOptions{Columns: []string{"extra", "a"}})
	if err != nil || fmt.Sprint(some.Column(0), some.Column(1)) != "[(null) (null) (null) true] [1 2 (null) (null)]" {
		t.Errorf("two columns: got %v, %v", some, err)
	}
	none, err := wholeOf(src.Splits[0], ReadOptions{Columns: []string{}})
	if err != nil || none.NumCols() != 0 {
		t.Errorf("no columns: got %v, %v", none, err)
	}
}

// TestJSONErrors: errors name file, line and column.
func TestJSONErrors(t *testing.T) {
	schema := func(dt arrow.DataType) []byte {
		b, err := EncodeSchema(arrow.NewSchema([]arrow.Field{{Name: "v", Type: dt, Nullable: true}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		text, want string
		dt         arrow.DataType
	}{
		{"", "has no fields at its beginning; set NDJSONOptions.Schema", nil},
		{"{}\n", "has no fields at its beginning", nil},
		{"{\"v\":1}\n[1]\n", "line 2: line begins with an array; want one object in each line", nil},
		{"{\"v\":1}\n17\n", `line 2: "17" is not a JSON object`, nil},
		{`{"v":1`, `line 1: invalid JSON: line ends; want a comma or brace after field "v"`, nil},
		{`{"v":1} x`, "want the end of the line", nil}, {`{v:1}`, "want the name of a field", nil},
		{`{"v":01}`, `column "v": invalid JSON at "01}" (byte 6 of the line); want a number`, nil},
		{`{"v":1.}`, "want a number", nil}, {`{"v":-}`, "want a number", nil}, {`{"v":tru}`, "want a value", nil},
		{`{"v":"x}`, "want the end of a text", nil}, {`{"v":"\x"}`, "invalid character", nil},
		{`{"v":[1,]}`, `column "v": invalid JSON: "[1,]"`, nil}, {`{"v":[1`, "want the end of an array", nil},
		{`{"v":1,"v":2}`, `line 1: column "v" has two values`, nil},
		{"{\"v\":\"\xff\"}", "is not valid UTF-8", nil},
		{"{\"v\":1}\n{\"v\":\"x\"}\n", `line 2, column "v": "x" is a text, want int64`, arrow.PrimitiveTypes.Int64},
		{`{"v":1.5}`, `"1.5" is not a valid int64`, arrow.PrimitiveTypes.Int64},
		{`{"v":300}`, `"300" is not a valid uint8: value out of range`, arrow.PrimitiveTypes.Uint8},
		{`{"v":1}`, `"1" is a number, want bool`, arrow.FixedWidthTypes.Boolean},
		{`{"v":[1]}`, `"[1]" is an array or object, want float64`, arrow.PrimitiveTypes.Float64},
		{`{"v":"x"}`, `"x" is a text, want float64`, arrow.PrimitiveTypes.Float64},
		{`{"v":"x"}`, `not a time such as`, arrow.FixedWidthTypes.Timestamp_us},
		{`{"v":"!"}`, `"!" is not base64`, arrow.BinaryTypes.Binary},
		{`{"v":12.345}`, `"12.345" is not a valid decimal(4, 2)`, &arrow.Decimal128Type{Precision: 4, Scale: 2}},
		{`{"v":100}`, `"100" is not a valid decimal(4, 2)`, &arrow.Decimal128Type{Precision: 4, Scale: 2}},
		{`{"v":1e999999999}`, `is not a valid decimal`, &arrow.Decimal128Type{Precision: 4, Scale: 2}},
		{`{"v":1,"v":2}`, `column "v" has two values`, arrow.PrimitiveTypes.Int64},
		{`{"v":1}`, `column "v": type list<item: int64, nullable> is not supported in NDJSON files`,
			arrow.ListOf(arrow.PrimitiveTypes.Int64)},
	} {
		path := save(t, filepath.Join(t.TempDir(), "x.ndjson"), []byte(c.text))
		opts := Options{}
		if c.dt != nil {
			opts.Schema = schema(c.dt)
		}
		src, err := Open(t.Context(), path, opts)
		if err == nil {
			_, err = whole(src.Splits[0])
		}
		text := strings.ReplaceAll(fmt.Sprint(err), ": column", ", column")
		if want := strings.ReplaceAll(c.want, ": column", ", column"); err == nil || !strings.Contains(text, want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
		if err != nil && c.dt == nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v without the file", c.text, err)
		}
	}
}

// TestJSONDrift: a field that is not in the beginning of any file is an error, unless a schema is specified.
func TestJSONDrift(t *testing.T) {
	path := save(t, filepath.Join(t.TempDir(), "x.ndjson"),
		[]byte(strings.Repeat("{\"a\":1}\n", 100)+"{\"a\":2,\"late\":3}\n"))
	src, err := Open(t.Context(), path, Options{Sample: 50, SplitBytes: 300})
	if err != nil {
		t.Fatal(err)
	}
	_, err = whole(src.Splits[len(src.Splits)-1])
	for _, want := range []string{path, "line 26", "lines are counted from byte", `column "late" is not in the beginning`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	schema, err := EncodeSchema(arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if src, err = Open(t.Context(), path, Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if b, err := whole(src.Splits[0]); err != nil || b.NumRows() != 101 {
		t.Errorf("with a schema: got %v, %v", b, err)
	}
}

// TestJSONPeer: pyarrow reads what is written here.
func TestJSONPeer(t *testing.T) {
	dir := t.TempDir()
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64}, {Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean}}, nil))
	texts := []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f", "ü€😀", "</script>", "\u2028"}
	for i := range 1000 {
		if i%7 == 0 {
			for c := range 4 {
				b.Field(c).AppendNull()
			}
			continue
		}
		b.Field(0).(*array.Int64Builder).Append(int64(i) * -1e15)
		b.Field(1).(*array.Float64Builder).Append(float64(i) / 3)
		b.Field(2).(*array.StringBuilder).Append(texts[i%len(texts)])
		b.Field(3).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	want := b.NewRecordBatch()
	if _, err := WriteNDJSON(want, filepath.Join(dir, "x.ndjson")); err != nil {
		t.Fatal(err)
	}
	peer(t, "json", dir)
	if got := openAll(t, filepath.Join(dir, "x.arrow")); !array.RecordEqual(got, want) {
		t.Errorf("pyarrow: got %v, want %v", got, want)
	}
	if got := openAll(t, filepath.Join(dir, "x.ndjson")); !array.RecordEqual(got, want) {
		t.Errorf("inferred: got %v, want %v", got, want)
	}
}

// TestJSONWrite: values that have no text are errors; nested values and decimals are written.
func TestJSONWrite(t *testing.T) {
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{
		{Name: `a"b`, Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "d", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}}}, nil))
	l := b.Field(0).(*array.ListBuilder)
	l.Append(true)
	l.ValueBuilder().(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
	b.Field(1).(*array.Decimal128Builder).Append(decimal128.FromI64(-105))
	path := filepath.Join(t.TempDir(), "x.ndjson")
	if _, err := WriteNDJSON(b.NewRecordBatch(), path); err != nil {
		t.Fatal(err)
	}
	narrow, err := EncodeSchema(arrow.NewSchema([]arrow.Field{{Name: "d",
		Type: &arrow.Decimal128Type{Precision: 9, Scale: 3}}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	src, err := Open(t.Context(), path, Options{Schema: narrow})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := whole(src.Splits[0]); err != nil || back.Column(0).ValueStr(0) != "-1.05" {
		t.Errorf("decimal: got %v, %v", back, err)
	}
	got, err := os.ReadFile(path)
	if want := "{\"a\\\"b\":[1,2],\"d\":-1.05}\n"; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	s := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil))
	s.Field(0).(*array.StringBuilder).Append("\xff")
	if _, err := WriteNDJSON(s.NewRecordBatch(), path+"2"); err == nil ||
		!strings.Contains(err.Error(), `column "s", row 0: "\xff" is not valid UTF-8`) {
		t.Errorf("got %v", err)
	}
}

// For any size of blocks a file has the same lines, or an error.
func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1,\"b\":\"x\\u00e9\"}\n{\"b\":null}\n\n{\"a\":[1,{}]}"), int64(10))
	f.Add([]byte("{\"a\":-1.5e3}\r\n{\"a\":true}"), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, block int64) {
		if block < 1 || len(b) > 1<<12 {
			return
		}
		path := save(t, filepath.Join(t.TempDir(), "x.ndjson"), b)
		src, err := Open(t.Context(), path, Options{SplitBytes: -1})
		if err != nil {
			return
		}
		want, err := whole(src.Splits[0])
		if err != nil { // the whole file is the sample: types fit
			t.Fatal(err)
		}
		parts, err := Open(t.Context(), path, Options{SplitBytes: max(block, int64(len(b))/50)})
		if err != nil {
			t.Fatal(err)
		}
		var rows int64
		for i, s := range parts.Splits {
			part, err := whole(s)
			if err != nil {
				t.Fatalf("block %d: %v", i, err)
			}
			rows += part.NumRows()
		}
		if rows != want.NumRows() {
			t.Fatalf("got %d rows in blocks, want %d", rows, want.NumRows())
		}
	})
}
