package frame

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/parquet"
	"go.millstream.dev/frame/internal/scan"
)

// numbers returns a batch of int64 columns.
func numbers(names string, values ...int64) arrow.RecordBatch {
	var fields []arrow.Field
	for _, name := range strings.Fields(names) {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for i := range fields {
		b.Field(i).(*array.Int64Builder).AppendValues(values, nil)
	}
	return b.NewRecordBatch()
}

// parquetFolder writes batches as files x0.parquet and so on of a folder.
func parquetFolder(t *testing.T, batches ...arrow.RecordBatch) string {
	t.Helper()
	dir := t.TempDir()
	for i, b := range batches {
		path := filepath.Join(dir, fmt.Sprintf("x%d.parquet", i))
		if _, err := scan.WriteParquet(b, path, parquet.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBadInput: wrong queries and damaged, changed and unsuitable data are errors that name column, file and partition.
func TestBadInput(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	two := func(t *testing.T) string { return parquetFolder(t, numbers("a b", 1, 2, 3), numbers("a b", 4, 5, 6)) }
	ofFolder := func(q func(scan *Query) *Query) func(t *testing.T) (string, *Query) {
		return func(t *testing.T) (string, *Query) {
			dir := two(t)
			return dir, q(ScanParquet(ctx, c, dir, ParquetOptions{}))
		}
	}
	for _, b := range []struct {
		name string
		make func(t *testing.T) (string, *Query)
		kind error
		want []string // FILE is the second file of the folder
	}{
		{"missing column", ofFolder(func(q *Query) *Query { return q.Filter(Col("c").Gt(1)) }), ErrSchema,
			[]string{`Filter: no column "c"; columns are a, b`}},
		{"missing key", ofFolder(func(q *Query) *Query { return q.GroupBy(Col("k")).Agg(Count()) }), ErrSchema,
			[]string{`GroupBy: no column "k"`}},
		{"type mismatch", ofFolder(func(q *Query) *Query { return q.Filter(Col("a").Add(Lit("x")).Gt(1)) }), ErrSchema,
			[]string{"Filter", "a", "int64", "utf8"}},
		{"aggregate of texts", ofFolder(func(q *Query) *Query {
			return q.With(Lit("x").As("s")).Agg(Sum(Col("s")))
		}), ErrSchema, []string{"sum", "s", "utf8"}},
		{"condition that is none", ofFolder(func(q *Query) *Query { return q.Filter(Col("a").Add(1)) }), ErrSchema,
			[]string{"Filter", "int64", "bool"}},
		{"duplicate names", ofFolder(func(q *Query) *Query { return q.Select(Col("a"), Col("b").As("a")) }), ErrSchema,
			[]string{"Select", `"a"`}},
		{"duplicate names in a file", func(t *testing.T) (string, *Query) {
			dir := parquetFolder(t, numbers("a a", 1))
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{})
		}, nil, []string{"ScanParquet", `"a"`}},
		{"keys of different types", ofFolder(func(q *Query) *Query {
			return q.Join(q.Select(Col("a").Cast(arrow.BinaryTypes.String).As("a")), JoinOptions{On: []string{"a"}})
		}), ErrSchema, []string{"Join: key a is int64 on the left and utf8 on the right"}},
		{"columns of a union", ofFolder(func(q *Query) *Query { return q.Union(q.Drop("b")) }), ErrSchema,
			[]string{"Union"}},
		{"schema drift: types", func(t *testing.T) (string, *Query) {
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
				{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}}, nil))
			dir := parquetFolder(t, numbers("a b", 1), b.NewRecordBatch())
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{})
		}, ErrSchema, []string{"partition 1", "FILE", `column "b" has type utf8, want int64`}},
		{"schema drift: columns", func(t *testing.T) (string, *Query) {
			dir := parquetFolder(t, numbers("a b", 1), numbers("a", 1))
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{})
		}, ErrSchema, []string{"partition 1", "FILE", "got 1 columns (a), want 2 (a, b)"}},
		{"truncated file", func(t *testing.T) (string, *Query) {
			dir := two(t)
			damage(t, filepath.Join(dir, "x1.parquet"), func(b []byte) []byte { return b[:len(b)-5] })
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{})
		}, ErrCorrupt, []string{"FILE", "not a Parquet file, or truncated"}},
		{"damaged page", func(t *testing.T) (string, *Query) {
			dir := two(t)
			damage(t, filepath.Join(dir, "x1.parquet"), func(b []byte) []byte {
				copy(b[4:24], strings.Repeat("\xff", 20))
				return b
			})
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{})
		}, ErrCorrupt, []string{"partition 1", "FILE", `row group 0, column "a"`}},
		{"file that has changed", func(t *testing.T) (string, *Query) {
			dir := two(t)
			q := ScanParquet(ctx, c, dir, ParquetOptions{})
			damage(t, filepath.Join(dir, "x1.parquet"), func(b []byte) []byte { return append(b, 1) })
			return dir, q
		}, ErrCorrupt, []string{"partition 1", "FILE", "changed"}},
		{"file that is gone", func(t *testing.T) (string, *Query) {
			dir := two(t)
			q := ScanParquet(ctx, c, dir, ParquetOptions{})
			if err := os.Remove(filepath.Join(dir, "x1.parquet")); err != nil {
				t.Fatal(err)
			}
			return dir, q
		}, nil, []string{"FILE", "no such file"}},
		{"overflow of a sum", func(t *testing.T) (string, *Query) {
			dir := parquetFolder(t, numbers("a", math.MaxInt64), numbers("a", 1))
			return dir, ScanParquet(ctx, c, dir, ParquetOptions{}).Agg(Sum(Col("a")).As("total"))
		}, nil, []string{"GroupBy, partition 0", `sum of column "a" overflows int64`}},
		{"overflow in a file", ofFolder(func(q *Query) *Query {
			return q.Select(Col("a").Add(int64(math.MaxInt64 - 3)).As("x"))
		}), nil, []string{"partition 1", "FILE", "overflow"}},
		{"value that a type does not have", ofFolder(func(q *Query) *Query {
			return q.Select(Col("a").Mul(30).Cast(arrow.PrimitiveTypes.Int8).As("x"))
		}), nil, []string{"partition 1", "FILE", "150", "int8"}},
		{"csv", func(t *testing.T) (string, *Query) {
			dir := t.TempDir()
			for i, text := range []string{"a,b\n1,2\n", "a,b\n1,x\n"} {
				save(t, filepath.Join(dir, fmt.Sprintf("x%d.csv", i)), []byte(text))
			}
			return dir, ScanCSV(ctx, c, dir, CSVOptions{})
		}, ErrCorrupt, []string{"partition 1", "x1.csv", `line 2, column "b"`, `"x"`, "int64"}},
		{"ndjson", func(t *testing.T) (string, *Query) {
			dir := t.TempDir()
			schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
			for i, text := range []string{"{\"a\":1}\n", "{\"a\":1}\n{\"a\":\"x\"}\n"} {
				save(t, filepath.Join(dir, fmt.Sprintf("x%d.ndjson", i)), []byte(text))
			}
			return dir, ScanNDJSON(ctx, c, dir, NDJSONOptions{Schema: schema})
		}, ErrCorrupt, []string{"partition 1", "x1.ndjson", `line 2`, `column "a"`, `"x" is a text, want int64`}},
	} {
		t.Run(b.name, func(t *testing.T) {
			dir, q := b.make(t)
			err := runAll(ctx, q)
			if err == nil {
				t.Fatal("got no error")
			}
			if b.kind != nil && !errors.Is(err, b.kind) {
				t.Errorf("got %v, want an error of kind %v", err, b.kind)
			}
			for _, want := range b.want {
				want = strings.ReplaceAll(want, "FILE", filepath.Join(dir, "x1.parquet"))
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

// runAll runs a query and waits for all of its partitions.
func runAll(ctx context.Context, q *Query) error {
	f, err := q.Compute(ctx)
	if err != nil {
		return err
	}
	defer f.Release()
	_, err = client.Gather(ctx, f.parts)
	return withKind(err)
}

func damage(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}
