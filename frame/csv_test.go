package frame

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/cluster"
)

const csvText1 = `id,name,score,ok,day,at
1,Ann,1.5,true,2024-02-29,2024-02-29T12:00:00.25Z
2,"O'Neil, ""Bo""",,False,2023-01-01,2023-01-01 00:00:00
3,,NaN,true,,
-4,Ünal,-1e-3,TRUE,1969-12-31,1969-12-31T23:59:59Z
`

func TestCSVFiles(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	path := save(t, filepath.Join(dir, "a.csv"), []byte(csvText1))
	f := must[*Frame](t)(ReadCSV(ctx, c, path, CSVOptions{}))
	var types []string
	for _, x := range f.Schema().Fields() {
		types = append(types, x.Type.String())
	}
	if got := strings.Join(types, " "); got != "int64 utf8 float64 bool timestamp[us, tz=UTC] timestamp[us, tz=UTC]" {
		t.Errorf("types %s", got)
	}
	b := must[[]arrow.RecordBatch](t)(f.Collect(ctx))[0]
	if b.NumRows() != 4 || b.Column(1).(*array.String).Value(1) != `O'Neil, "Bo"` || b.Column(2).NullN() != 2 ||
		b.Column(1).NullN() != 1 {
		t.Errorf("rows %v", b)
	}
	// Every line is in one block, for any size of blocks.
	for _, block := range []int64{1, 7, 60, 100, 1 << 20, -1} {
		again := must[*Frame](t)(ReadCSV(ctx, c, path, CSVOptions{Block: block}))
		same(t, ctx, "blocks", again, b)
		if block == 60 && again.NumPartitions() != (len(csvText1)+59)/60 {
			t.Errorf("%d partitions", again.NumPartitions())
		}
		again.Release()
	}
	// Written and read again the frame is the same.
	out := filepath.Join(dir, "out")
	people4 := peopleFrame(t, ctx, c)
	if paths := must[[]string](t)(people4.WriteCSV(ctx, out, WriteOptions{})); len(paths) != 4 {
		t.Errorf("paths %v", paths)
	}
	back := must[*Frame](t)(ReadCSV(ctx, c, out, CSVOptions{Schema: people}))
	same(t, ctx, "written", back, batchOf(0, 100))
	// A schema selects columns by name; without a header they have numbers.
	narrow := arrow.NewSchema([]arrow.Field{{Name: "score", Type: arrow.PrimitiveTypes.Float32},
		{Name: "id", Type: arrow.PrimitiveTypes.Int8}}, nil)
	some := must[[]arrow.RecordBatch](t)(must[*Frame](t)(ReadCSV(ctx, c, path,
		CSVOptions{Schema: narrow})).Collect(ctx))[0]
	if some.Column(0).(*array.Float32).Value(0) != 1.5 || some.Column(1).(*array.Int8).Value(3) != -4 {
		t.Errorf("chosen columns %v", some)
	}
	bare := save(t, filepath.Join(dir, "bare.csv"), []byte("1;x\n2;y"))
	g := must[*Frame](t)(ReadCSV(ctx, c, bare, CSVOptions{NoHeader: true, Comma: ';', Block: 2}))
	if n := must[int64](t)(g.NumRows(ctx)); n != 2 || g.Schema().Field(1).Name != "f1" {
		t.Errorf("%d rows without a header, %v", n, g.Schema())
	}
}

func TestCSVErrors(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	at := func(name, text string) string { return save(t, filepath.Join(dir, name), []byte(text)) }
	ints := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	if err := os.Mkdir(filepath.Join(dir, "two"), 0o700); err != nil {
		t.Fatal(err)
	}
	at("two/a.csv", "x\n1\n")
	at("two/b.csv", "y\n1\n")
	for _, tc := range []struct {
		path string
		opts CSVOptions
		kind error
		text []string
	}{
		{at("columns.csv", "x,y\n1,2\n3\n"), CSVOptions{}, ErrCorrupt,
			[]string{"partition 0", "columns.csv", "line 3 has 1 columns, the header 2"}},
		{at("value.csv", "x\n1\nhello\n"), CSVOptions{Schema: ints}, ErrCorrupt,
			[]string{"line 3", `column "x"`, `"hello" is not a valid int8`}},
		{at("large.csv", "x\n1\n300\n"), CSVOptions{Schema: ints}, ErrCorrupt, []string{"line 3", "out of range"}},
		{at("quote.csv", "x\n\"never ends\n"), CSVOptions{}, ErrCorrupt, []string{"quote.csv"}},
		{at("empty.csv", ""), CSVOptions{}, ErrCorrupt, []string{"empty.csv", "file is empty"}},
		{at("empty2.csv", ""), CSVOptions{Schema: ints}, ErrCorrupt, []string{"empty2.csv", "file is empty"}},
		{at("empty3.csv", ""), CSVOptions{Schema: ints, NoHeader: true, Block: -1}, ErrCorrupt, []string{"empty3.csv"}},
		{filepath.Join(dir, "two"), CSVOptions{}, ErrSchema, []string{"partition 1", "b.csv", `no column "x"`}},
		{at("type.csv", "x\n1\n"), CSVOptions{Schema: arrow.NewSchema([]arrow.Field{{Name: "x",
			Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil)}, ErrSchema, []string{"not supported in CSV files"}},
		{filepath.Join(dir, "missing.csv"), CSVOptions{}, nil, []string{"missing.csv"}},
	} {
		f, err := ReadCSV(ctx, c, tc.path, tc.opts)
		if err == nil {
			err = f.Persist(ctx)
		}
		if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		for _, text := range tc.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", tc.path, err, text)
			}
		}
	}
}

// Quoted texts may contain line breaks, commas and quotes, and span any number of blocks.
func TestCSVQuotesAcrossBlocks(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	long := strings.Repeat("a line\n\"\"said\"\" one, then\n", 300) // longer than the read buffer
	text := "n,text\n1,\"two\nlines\"\n2,plain\n3,\"" + long + "\"\n\"4\",\"\"\n5,\"\n\n\"\"\n\"\n6,\"end\"\n"
	path := save(t, filepath.Join(t.TempDir(), "a.csv"), []byte(text))
	whole := must[*Frame](t)(ReadCSV(ctx, c, path, CSVOptions{Block: -1}))
	want := must[[]arrow.RecordBatch](t)(whole.Collect(ctx))[0]
	if want.NumRows() != 6 || want.Column(1).(*array.String).Value(2) != strings.ReplaceAll(long, "\"\"", "\"") {
		t.Fatalf("whole file: got %d rows: %v", want.NumRows(), want)
	}
	for _, block := range []int64{1 << 12, 997, 100, 61} {
		again := must[*Frame](t)(ReadCSV(ctx, c, path, CSVOptions{Block: block, Schema: want.Schema(), Sample: 20}))
		if again.NumPartitions() != (len(text)+int(block)-1)/int(block) {
			t.Errorf("%d partitions of %d bytes each", again.NumPartitions(), block)
		}
		same(t, ctx, fmt.Sprint("blocks of ", block), again, want)
	}
}

// A file with another separator is an error that names the option, not one column of text.
func TestCSVComma(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	for i, tc := range []struct {
		text string
		opts CSVOptions
		want string // of the error, "" for none
	}{
		{"a;b;c\n1;2;3\n", CSVOptions{}, "CSVOptions.Comma"},
		{"a;b;c\n1,5;2,5;3\n", CSVOptions{}, "';'"},
		{"a\tb\n1\t2\n", CSVOptions{}, `'\t'`},
		{"\ufeffa|b\n1|2\n", CSVOptions{}, "'|'"},
		{"1;2\n", CSVOptions{NoHeader: true}, "CSVOptions.Comma"},
		{"a,b\n1,2\n", CSVOptions{Comma: ';'}, "','"},
		{"a;b\n1;2\n", CSVOptions{Schema: arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.PrimitiveTypes.Int64}},
			nil)}, "CSVOptions.Comma"},
		{"a;b;c\n1;2;3\n", CSVOptions{Comma: ';'}, ""},
		{"\"a;b\"\n1\n", CSVOptions{}, ""},
		{"a\n1;2\n", CSVOptions{}, ""},
		{"a;b\nx\n", CSVOptions{Schema: arrow.NewSchema([]arrow.Field{{Name: "a;b", Type: arrow.BinaryTypes.String}},
			nil)}, ""},
	} {
		path := save(t, filepath.Join(dir, fmt.Sprint(i, ".csv")), []byte(tc.text))
		f, err := ReadCSV(ctx, c, path, tc.opts)
		if err == nil {
			err = f.Persist(ctx)
		}
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
			!strings.Contains(err.Error(), path)) {
			t.Errorf("%q: got error %v, want %q", tc.text, err, tc.want)
		}
	}
}
