package tpch

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// TestParts checks that parts of tables, made one by one, are the table.
func TestParts(t *testing.T) {
	s := NewScale(0.001)
	for _, name := range Names {
		n := s.Units(name)
		whole := s.Batch(name, 0, n)
		var rows int64
		for from := int64(0); from < n; from += 37 {
			part := s.Batch(name, from, from+37)
			want := whole.NewSlice(rows, rows+part.NumRows())
			if !array.RecordEqual(part, want) {
				t.Errorf("%s: the units from %d differ from those of the table", name, from)
			}
			rows += part.NumRows()
			part.Release()
			want.Release()
		}
		if rows != whole.NumRows() {
			t.Errorf("%s: got %d rows in parts, want %d", name, rows, whole.NumRows())
		}
		whole.Release()
	}
}

// TestKeys checks that foreign keys exist and that prices of orders are those of their lines.
func TestKeys(t *testing.T) {
	s := NewScale(0.01)
	pairs := map[[2]int64]bool{}
	for p := int64(1); p <= s.parts; p++ {
		for i := range int64(4) {
			key := [2]int64{p, s.supplierOf(p, i)}
			if pairs[key] || key[1] < 1 || key[1] > s.suppliers {
				t.Fatalf("part %d has the supplier %d twice, or there is none", p, key[1])
			}
			pairs[key] = true
		}
	}
	orders := s.Batch("orders", 0, s.orders)
	defer orders.Release()
	lines := s.Batch("lineitem", 0, s.orders)
	defer lines.Release()
	columns := func(i int) *array.Int64 { return lines.Column(i).(*array.Int64) }
	at := 0
	for i := range int(orders.NumRows()) {
		key := orders.Column(0).(*array.Int64).Value(i)
		if c := orders.Column(1).(*array.Int64).Value(i); c < 1 || c > s.customers || c%3 == 0 {
			t.Fatalf("order %d has the customer %d", key, c)
		}
		n := 0
		for ; at < int(lines.NumRows()) && columns(0).Value(at) == key; at++ {
			if pair := [2]int64{columns(1).Value(at), columns(2).Value(at)}; !pairs[pair] {
				t.Fatalf("the supplier %d has no part %d", pair[1], pair[0])
			}
			n++
		}
		if n < 1 || n > 7 {
			t.Fatalf("order %d has %d lines", key, n)
		}
	}
	if at != int(lines.NumRows()) {
		t.Errorf("got %d lines of orders, want %d", at, lines.NumRows())
	}
	if got := orders.Column(3).(*array.Decimal128).Value(0); !got.Greater(decimal128.FromI64(0)) {
		t.Errorf("the first order costs %v", got)
	}
}

// TestQueries checks that all queries are there.
func TestQueries(t *testing.T) {
	for n := 1; n <= Queries; n++ {
		if Query(n, 1) == "" {
			t.Errorf("query %d is empty", n)
		}
	}
}
