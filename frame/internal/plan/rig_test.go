package plan

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/scan"
)

// table is a table of tests.
type table struct {
	name   string
	schema *arrow.Schema
	rows   int64
}

func (t *table) Schema() *arrow.Schema { return t.schema }
func (t *table) NumPartitions() int    { return 4 }
func (t *table) Describe() string      { return t.name }
func (t *table) Size() (int64, int64, bool) {
	return t.rows, 8 * t.rows * int64(t.schema.NumFields()), t.rows >= 0
}

var (
	int64s = arrow.PrimitiveTypes.Int64
	texts  = arrow.BinaryTypes.String
)

// source returns a table with columns: names that begin with s are text, others int64.
func source(name string, rows int64, columns ...string) Node {
	var fields []arrow.Field
	for _, c := range columns {
		f := arrow.Field{Name: c, Type: int64s}
		if strings.HasPrefix(c, "s") {
			f.Type = texts
		}
		fields = append(fields, f)
	}
	return &Source{Table: &table{name, arrow.NewSchema(fields, nil), rows}}
}

// files of a scan of two columns in three splits.
func fileScan(t *testing.T, columns ...string) Node {
	t.Helper()
	s := source("", 0, columns...).Schema()
	src := &scan.Source{Format: scan.IPC, Schema: s, Splits: make([]scan.Split, 3), Rows: 3000, Bytes: 3000 * 16}
	for i := range src.Splits {
		src.Splits[i] = scan.Split{Path: "/data/f.arrow", Stamp: files.Stamp{Size: 1}, Partition: i}
	}
	n, err := NewScan("/data", src)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ok(t *testing.T) func(n Node, err error) Node {
	return func(n Node, err error) Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// shape returns a plan as text without notes.
func shape(n Node) string { return Tree(n, func(Node) []string { return nil }) }

// wantShape fails the test unless the optimized plan has this text.
func wantShape(t *testing.T, what string, n Node, lines ...string) {
	t.Helper()
	before := n.Schema()
	o := Optimize(n)
	if got, want := shape(o), strings.Join(lines, "\n")+"\n"; got != want {
		t.Errorf("%s: got\n%swant\n%s", what, got, want)
	}
	if !o.Schema().Equal(before) {
		t.Errorf("%s: optimized schema: got %v, want %v", what, o.Schema(), before)
	}
}

func col(name string) expr.Expr { return expr.Col(name) }

func cols(names ...string) []expr.Expr {
	out := make([]expr.Expr, len(names))
	for i, n := range names {
		out[i] = expr.Col(n)
	}
	return out
}

// aggOf returns an aggregate of a column.
func aggOf(f, name string) AggExpr {
	e := expr.Col(name)
	return AggExpr{Func: f, Arg: &e}
}
