package framebench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// cell is a value of a result that is compared row by row.
type cell struct {
	text   string
	number float64
	float  bool
}

func (c cell) String() string {
	if c.float {
		return strconv.FormatFloat(c.number, 'g', -1, 64)
	}
	return c.text
}

// same reports whether values are equal; floats may differ in their last digits.
func (c cell) same(o cell) bool {
	if !c.float && !o.float {
		return c.text == o.text
	}
	x, y := c.value(), o.value()
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= tolerance*math.Max(math.Abs(x), math.Abs(y))
}

// value returns the number of a cell, of another value NaN.
func (c cell) value() float64 {
	if c.float {
		return c.number
	}
	if v, err := strconv.ParseFloat(c.text, 64); err == nil {
		return v
	}
	return math.NaN()
}

// row is a row of a result.
type row []cell

func (r row) String() string {
	var out []string
	for _, c := range r {
		out = append(out, c.String())
	}
	return strings.Join(out, " | ")
}

// rowsIn returns the rows of a batch.
func rowsIn(b arrow.RecordBatch) []row {
	out := make([]row, b.NumRows())
	for i := range out {
		out[i] = make(row, b.NumCols())
	}
	for j, c := range b.Columns() {
		floats := floatsOf(c)
		for i := range out {
			switch {
			case c.IsNull(i):
				out[i][j] = cell{text: "NULL"}
			case floats != nil:
				out[i][j] = cell{number: floats(i), float: true}
			default:
				out[i][j] = cell{text: c.ValueStr(i)}
			}
		}
	}
	return out
}

// ordered sorts rows by their values, floats last: groups have their keys, which are exact.
func ordered(rows []row) {
	slices.SortFunc(rows, func(x, y row) int {
		for _, floats := range []bool{false, true} {
			for i := range min(len(x), len(y)) {
				if x[i].float != floats || y[i].float != floats {
					continue
				}
				if c := cmp.Or(cmp.Compare(x[i].text, y[i].text), cmp.Compare(x[i].number, y[i].number)); c != 0 {
					return c
				}
			}
		}
		return 0
	})
}

// compareRows returns the first difference of two results, whose order does not count.
func compareRows(x, y []row) error {
	if len(x) != len(y) {
		return fmt.Errorf("results differ: %d and %d rows", len(x), len(y))
	}
	ordered(x)
	ordered(y)
	for i := range x {
		if len(x[i]) != len(y[i]) {
			return fmt.Errorf("results differ: %d and %d columns", len(x[i]), len(y[i]))
		}
		for j := range x[i] {
			if !x[i][j].same(y[i][j]) {
				return fmt.Errorf("results differ in row %d, column %d: %v and %v", i, j, x[i], y[i])
			}
		}
	}
	return nil
}
