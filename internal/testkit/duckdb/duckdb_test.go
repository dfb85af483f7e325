package duckdb

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func batch(t *testing.T, json string) arrow.RecordBatch {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "c", Type: &arrow.Decimal128Type{Precision: 15, Scale: 2}, Nullable: true},
		{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true}}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQuery checks tables, results and errors of DuckDB.
func TestQuery(t *testing.T) {
	db := Start(t)
	b := batch(t, `[{"a": 1, "b": "x", "c": "1.50", "d": "2020-01-02"}, {"a": null, "b": null, "c": null, "d": null}]`)
	defer b.Release()
	db.Table("t", b)
	if diff := Diff(db.Query("select a, b, c, d from t"), RowsOf(b)); diff != "" {
		t.Error(diff)
	}
	got := db.Query("select count(*), sum(a) / 3, [1, 2] from t")
	if text := texts(got[0]); text != "2 | 0.3333333333333333 | [1, 2]" {
		t.Errorf("got %s", text)
	}
	if _, err := db.Try("select x from t"); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("got the error %v, want one that names x", err)
	}
	db.Exec("create view v as select a + 1 as a from t")
	if got := db.Query("select a from v where a > 0"); len(got) != 1 || got[0][0].Text != "2" {
		t.Errorf("got %v, want 2", got)
	}
}

// TestDiff checks what counts as a difference.
func TestDiff(t *testing.T) {
	a, b, null := number(ratOf("1.5")), float(1.5), Cell{Text: "NULL"}
	for _, c := range []struct {
		x, y Cell
		same bool
	}{
		{a, b, true}, {b, float(1.5 + 1e-12), true}, {b, float(1.5001), false}, {a, number(ratOf("1.50")), true},
		{a, number(ratOf("1.51")), false}, {null, null, true}, {null, a, false}, {float(math.NaN()), b, false},
		{float(math.NaN()), float(math.NaN()), true}, {Cell{Text: "x"}, Cell{Text: "y"}, false},
	} {
		if got := Diff(Rows{{c.x}}, Rows{{c.y}}) == ""; got != c.same {
			t.Errorf("%v and %v: got equal %v, want %v", c.x, c.y, got, c.same)
		}
	}
	if Diff(Rows{{a}, {b}}, Rows{{a}}) == "" || Diff(Rows{{a}}, Rows{{a, b}}) == "" {
		t.Error("tables of another size are equal")
	}
	x := Rows{{float(2)}, {float(1)}}
	if Diff(x.Sorted(), Rows{{float(1)}, {float(2)}}) != "" {
		t.Error("Sorted does not sort")
	}
}

func ratOf(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s)
	return r
}
