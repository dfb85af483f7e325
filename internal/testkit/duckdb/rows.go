package duckdb

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Cell is a value in a form that does not depend on its Arrow type.
type Cell struct {
	// Text is the value; that of numbers is exact, that of a null is "NULL".
	Text string
	// Number is set for integers, decimals and floats.
	Number bool
	// Float is set for floats, which are compared with a tolerance.
	Float bool
	// Value is the value of a number.
	Value float64
}

// Rows are the rows of a table.
type Rows [][]Cell

// RowsOf returns the rows of batches.
func RowsOf(batches ...arrow.RecordBatch) Rows {
	var out Rows
	for _, b := range batches {
		for i := range int(b.NumRows()) {
			row := make([]Cell, b.NumCols())
			for j := range row {
				row[j] = cell(b.Column(j), i)
			}
			out = append(out, row)
		}
	}
	return out
}

func cell(a arrow.Array, i int) Cell {
	if a.IsNull(i) {
		return Cell{Text: "NULL"}
	}
	switch x := a.(type) {
	case *array.Dictionary:
		return cell(x.Dictionary(), x.GetValueIndex(i))
	case *array.Float32:
		return float(float64(x.Value(i)))
	case *array.Float64:
		return float(x.Value(i))
	case *array.Decimal128:
		t := x.DataType().(*arrow.Decimal128Type)
		return number(new(big.Rat).SetFrac(x.Value(i).BigInt(), power10(t.Scale)))
	case *array.Timestamp:
		at := x.Value(i).ToTime(x.DataType().(*arrow.TimestampType).Unit)
		return Cell{Text: at.Format("2006-01-02 15:04:05.999999999")}
	case array.ListLike:
		from, to := x.ValueOffsets(i)
		var parts []string
		for k := from; k < to; k++ {
			parts = append(parts, cell(x.ListValues(), int(k)).Text)
		}
		return Cell{Text: "[" + strings.Join(parts, ", ") + "]"}
	}
	if arrow.IsInteger(a.DataType().ID()) {
		r, _ := new(big.Rat).SetString(a.ValueStr(i))
		return number(r)
	}
	return Cell{Text: a.ValueStr(i)}
}

func power10(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func number(r *big.Rat) Cell {
	f, _ := r.Float64()
	text := r.RatString()
	if !r.IsInt() {
		text = strings.TrimRight(r.FloatString(38), "0")
	}
	return Cell{Text: text, Number: true, Value: f}
}

func float(f float64) Cell {
	if f == 0 {
		f = 0 // -0 is the same value
	}
	return Cell{Text: strconv.FormatFloat(f, 'g', -1, 64), Number: true, Float: true, Value: f}
}

// equal reports whether two values are the same; floats may differ in their last digits.
func (c Cell) equal(o Cell) bool {
	if c.Number && o.Number && (c.Float || o.Float) {
		if math.IsNaN(c.Value) || math.IsNaN(o.Value) {
			return math.IsNaN(c.Value) == math.IsNaN(o.Value)
		}
		diff := math.Abs(c.Value - o.Value)
		return c.Value == o.Value || diff <= 1e-9*math.Max(math.Abs(c.Value), math.Abs(o.Value)) || diff <= 1e-12
	}
	return c.Text == o.Text
}

// key returns a text of a row, for sorting, in which numbers are rounded.
func key(row []Cell) string {
	var b strings.Builder
	for _, c := range row {
		text := c.Text
		if c.Number {
			text = strconv.FormatFloat(c.Value, 'e', 7, 64)
		}
		b.WriteString(text)
		b.WriteByte(0)
	}
	return b.String()
}

// Sorted returns the rows in an order that depends on their values only.
func (r Rows) Sorted() Rows {
	out := slices.Clone(r)
	slices.SortStableFunc(out, func(a, b []Cell) int { return strings.Compare(key(a), key(b)) })
	return out
}

// Diff returns the first difference of two tables, or an empty string.
func Diff(got, want Rows) string {
	for i := range min(len(got), len(want)) {
		if len(got[i]) != len(want[i]) {
			return fmt.Sprintf("row %d: got %d columns, want %d", i, len(got[i]), len(want[i]))
		}
		for j := range got[i] {
			if !got[i][j].equal(want[i][j]) {
				return fmt.Sprintf("row %d, column %d:\n got %s\nwant %s", i, j, texts(got[i]), texts(want[i]))
			}
		}
	}
	if len(got) != len(want) {
		rest := got
		if len(want) > len(got) {
			rest = want
		}
		return fmt.Sprintf("got %d rows, want %d; the first more is %s", len(got), len(want),
			texts(rest[min(len(got), len(want))]))
	}
	return ""
}

func texts(row []Cell) string {
	var out []string
	for _, c := range row {
		out = append(out, c.Text)
	}
	return strings.Join(out, " | ")
}
