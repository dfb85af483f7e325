package expr

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// benchBatch has a million rows of integers, floats, decimals, texts and dates.
func benchBatch() arrow.RecordBatch {
	const rows = 1 << 20
	rng := rand.New(rand.NewPCG(1, 1))
	schema := arrow.NewSchema([]arrow.Field{{Name: "i", Type: int64Type}, {Name: "j", Type: int64Type},
		{Name: "f", Type: float64Type}, {Name: "g", Type: float64Type}, {Name: "price", Type: dec(15, 2)},
		{Name: "discount", Type: dec(15, 2)}, {Name: "s", Type: utf8Type}, {Name: "d", Type: date32Type}}, nil)
	b := array.NewRecordBuilder(heap, schema)
	defer b.Release()
	words := []string{"the special deposits", "quickly final requests", "special packages of requests", "ironic", "AIR"}
	for range rows {
		b.Field(0).(*array.Int64Builder).Append(rng.Int64N(1000))
		b.Field(1).(*array.Int64Builder).Append(rng.Int64N(1000))
		b.Field(2).(*array.Float64Builder).Append(rng.Float64())
		b.Field(3).(*array.Float64Builder).Append(rng.Float64())
		b.Field(4).(*array.Decimal128Builder).Append(decimal128.FromI64(rng.Int64N(1e7)))
		b.Field(5).(*array.Decimal128Builder).Append(decimal128.FromI64(rng.Int64N(11)))
		b.Field(6).(*array.StringBuilder).Append(words[rng.IntN(len(words))])
		b.Field(7).(*array.Date32Builder).Append(arrow.Date32(8000 + rng.IntN(2500)))
	}
	return b.NewRecordBatch()
}

// BenchmarkEval measures expressions; MB/s is that of the columns that they read.
func BenchmarkEval(b *testing.B) {
	batch := benchBatch()
	c := Col
	for _, bc := range []struct {
		name  string
		e     Expr
		bytes int64 // of a row
	}{
		{"add-int", c("i").Add(c("j")), 16}, {"add-int-constant", c("i").Add(1), 8},
		{"mul-int", c("i").Mul(c("j")), 16},
		{"add-float", c("f").Add(c("g")), 16}, {"mul-float-constant", c("f").Mul(0.5), 8},
		{"revenue-decimal", c("price").Mul(Lit(1).Sub(c("discount"))), 32},
		{"revenue-float", c("f").Mul(Lit(1.0).Sub(c("g"))), 16}, {"lt-int-constant", c("i").Lt(500), 8},
		{"lt-float", c("f").Lt(c("g")), 16}, {"lt-float-constant", c("f").Lt(0.5), 8},
		{"eq-text", c("s").Eq("AIR"), 21},
		{"like", c("s").Like("%special%requests%"), 21}, {"upper", c("s").Upper(), 21}, {"year", c("d").Year(), 4},
		{"if", If(c("f").Gt(0.5), c("i"), c("j")), 24}, {"in-8", c("i").In(1, 2, 3, 4, 5, 6, 7, 8), 8},
		{"in-20", c("i").In(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20), 8},
	} {
		b.Run(bc.name, func(b *testing.B) {
			bound, err := Bind(bc.e, batch.Schema())
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(bc.bytes * batch.NumRows())
			for b.Loop() {
				a, err := bound.Eval(batch)
				if err != nil {
					b.Fatal(err)
				}
				a.Release()
			}
		})
	}
}

// BenchmarkRows measures conditions without the copy of the rows.
func BenchmarkRows(b *testing.B) {
	batch := benchBatch()
	c := Col
	for _, bc := range []struct {
		name  string
		e     Expr
		bytes int64
	}{
		{"half", c("f").Lt(0.5), 8}, {"few", c("f").Lt(0.01), 8},
		{"query6", c("d").Ge("1994-01-01").And(c("d").Lt("1995-01-01"), c("discount").Between(0.05, 0.07),
			c("i").Lt(24)), 28},
	} {
		b.Run(bc.name, func(b *testing.B) {
			bound, err := BindCondition(bc.e, batch.Schema())
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(bc.bytes * batch.NumRows())
			for b.Loop() {
				if _, err := bound.Rows(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFilter measures conditions with the copy of the rows of all columns.
func BenchmarkFilter(b *testing.B) {
	batch := benchBatch()
	for name, e := range map[string]Expr{"half": Col("f").Lt(0.5), "few": Col("f").Lt(0.01)} {
		b.Run(name, func(b *testing.B) {
			bound, err := BindCondition(e, batch.Schema())
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(85 * batch.NumRows())
			for b.Loop() {
				out, err := bound.Filter(batch)
				if err != nil {
					b.Fatal(err)
				}
				out.Release()
			}
		})
	}
}
