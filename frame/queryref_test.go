package frame

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// rows is a table in plain Go, in which the tests compute what queries should return: nil is a null.
type rows struct {
	names []string
	vals  [][]any
}

func (r rows) at(name string) int {
	i := slices.Index(r.names, name)
	if i < 0 {
		panic("no column " + name)
	}
	return i
}

// filter keeps rows.
func (r rows) filter(keep func(get func(string) any) bool) rows {
	out := rows{names: r.names}
	for _, v := range r.vals {
		if keep(r.getter(v)) {
			out.vals = append(out.vals, v)
		}
	}
	return out
}

func (r rows) getter(v []any) func(string) any { return func(name string) any { return v[r.at(name)] } }

// project computes columns.
func (r rows) project(names []string, f func(get func(string) any) []any) rows {
	out := rows{names: names}
	for _, v := range r.vals {
		out.vals = append(out.vals, f(r.getter(v)))
	}
	return out
}

// pick returns columns by name.
func (r rows) pick(names ...string) rows {
	return r.project(names, func(get func(string) any) []any {
		out := make([]any, len(names))
		for i, n := range names {
			out[i] = get(n)
		}
		return out
	})
}

// group computes aggregates of groups: agg gets the rows of one.
func (r rows) group(keys []string, names []string, agg func(g rows) []any) rows {
	out := rows{names: append(slices.Clone(keys), names...)}
	var order []string
	groups := map[string][][]any{}
	for _, v := range r.vals {
		k := ""
		for _, name := range keys {
			k += show(v[r.at(name)]) + "\x00"
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], v)
	}
	if len(keys) == 0 && len(order) == 0 {
		order, groups[""] = []string{""}, nil
	}
	for _, k := range order {
		g := rows{r.names, groups[k]}
		var row []any
		for _, name := range keys {
			row = append(row, groups[k][0][r.at(name)])
		}
		out.vals = append(out.vals, append(row, agg(g)...))
	}
	return out
}

// values returns the values of a column that are not null.
func (r rows) values(name string) []any {
	var out []any
	for _, v := range r.vals {
		if x := v[r.at(name)]; x != nil {
			out = append(out, x)
		}
	}
	return out
}

// join returns pairs of rows with equal keys that fulfill a condition, and the numbers of rows without any.
func (r rows) join(o rows, on [][2]string, cond func(l, r []any) bool) (pairs [][2]int, left, right []int) {
	matchedRight := make([]bool, len(o.vals))
	for i, a := range r.vals {
		found := false
		for j, b := range o.vals {
			match := cond == nil || cond(a, b)
			for _, k := range on {
				x, y := a[r.at(k[0])], b[o.at(k[1])]
				match = match && x != nil && y != nil && show(x) == show(y)
			}
			if match {
				pairs, found, matchedRight[j] = append(pairs, [2]int{i, j}), true, true
			}
		}
		if !found {
			left = append(left, i)
		}
	}
	for j, m := range matchedRight {
		if !m {
			right = append(right, j)
		}
	}
	return pairs, left, right
}

// sorted sorts by columns; a name that begins with - descends, nulls are last.
func (r rows) sorted(keys ...string) rows {
	out := rows{r.names, slices.Clone(r.vals)}
	slices.SortStableFunc(out.vals, func(a, b []any) int {
		for _, k := range keys {
			name, desc := strings.CutPrefix(k, "-")
			x, y := a[r.at(name)], b[r.at(name)]
			switch {
			case x == nil && y == nil:
				continue
			case x == nil:
				return 1
			case y == nil:
				return -1
			}
			c := compareValues(x, y)
			if desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

func compareValues(x, y any) int {
	switch x := x.(type) {
	case int64:
		return cmp.Compare(x, y.(int64))
	case string:
		return cmp.Compare(x, y.(string))
	case bool:
		return btoi(x) - btoi(y.(bool))
	}
	a, b := x.(float64), y.(float64)
	switch { // NaN is above all numbers
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}

// first returns a range of rows.
func (r rows) first(from, n int) rows {
	from = min(from, len(r.vals))
	return rows{r.names, r.vals[from:min(len(r.vals), from+n)]}
}

// show returns a value as text: equal for equal keys, and for floats of nine equal digits.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "∅"
	case float64:
		// Zeros are equal, and results that differ in their last digits are rounded in the same direction.
		return fmt.Sprintf("%.9g", v*(1+1e-12)+0)
	}
	return fmt.Sprint(v)
}

// lines returns the rows as text, sorted unless their order matters.
func (r rows) lines(ordered bool) []string {
	out := make([]string, len(r.vals))
	for i, v := range r.vals {
		parts := make([]string, len(v))
		for j, x := range v {
			parts[j] = show(x)
		}
		out[i] = strings.Join(parts, "|")
	}
	if !ordered {
		slices.Sort(out)
	}
	return out
}

// rowsOfBatches returns record batches in plain Go.
func rowsOfBatches(s *arrow.Schema, batches []arrow.RecordBatch) rows {
	var out rows
	for _, f := range s.Fields() {
		out.names = append(out.names, f.Name)
	}
	for _, b := range batches {
		for i := range int(b.NumRows()) {
			row := make([]any, b.NumCols())
			for j := range row {
				row[j] = plain(b.Column(j), i)
			}
			out.vals = append(out.vals, row)
		}
	}
	return out
}

func plain(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.Boolean:
		return a.Value(i)
	}
	return a.ValueStr(i)
}

// salesSchema is that of the tables of the product tests.
var salesSchema = arrow.NewSchema([]arrow.Field{
	{Name: "i", Type: arrow.PrimitiveTypes.Int64},
	{Name: "k", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
}, nil)

// sales returns n random rows: keys with nulls and few values, and floats that can be added exactly.
func sales(n int, seed uint64) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, 11))
	b := array.NewRecordBuilder(heap, salesSchema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if rng.IntN(8) == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int64Builder).Append(int64(rng.IntN(12) - 3))
		}
		if rng.IntN(6) == 0 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.StringBuilder).Append(strings.Repeat("ab", rng.IntN(4)) + fmt.Sprint(rng.IntN(5)))
		}
		switch rng.IntN(10) {
		case 0:
			b.Field(3).AppendNull()
		case 1:
			b.Field(3).(*array.Float64Builder).Append(math.Copysign(0, float64(rng.IntN(2))-1))
		default:
			b.Field(3).(*array.Float64Builder).Append(float64(rng.IntN(4000)-2000) / 4)
		}
		if rng.IntN(5) == 0 {
			b.Field(4).AppendNull()
		} else {
			b.Field(4).(*array.BooleanBuilder).Append(rng.IntN(2) == 0)
		}
	}
	return b.NewRecordBatch()
}

// result runs a query and returns its rows.
func result(ctx context.Context, q *Query) (rows, *Frame, error) {
	f, err := q.Compute(ctx)
	if err != nil {
		return rows{}, nil, err
	}
	batches, err := f.Collect(ctx)
	if err != nil {
		f.Release()
		return rows{}, nil, err
	}
	return rowsOfBatches(f.Schema(), batches), f, nil
}

// sameRows fails the test unless two tables are equal.
func sameRows(t *testing.T, what string, got, want rows, ordered bool) {
	t.Helper()
	if !slices.Equal(got.names, want.names) {
		t.Errorf("%s: got columns %v, want %v", what, got.names, want.names)
		return
	}
	g, w := got.lines(ordered), want.lines(ordered)
	if slices.Equal(g, w) {
		return
	}
	at := 0
	for at < len(g) && at < len(w) && g[at] == w[at] {
		at++
	}
	t.Errorf("%s: got %d rows, want %d; row %d: got %s, want %s", what, len(g), len(w), at, lineAt(g, at),
		lineAt(w, at))
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "none"
}
