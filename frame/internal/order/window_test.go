package order

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"
)

// windowReference computes a window row by row.
func windowReference(b arrow.RecordBatch, partition []SortKey, keys []SortKey, w Window, row int) string {
	n := int(b.NumRows())
	same := func(keys []SortKey, i int) bool { return compareRowsOf(b, keys, i, row) == 0 }
	lo, hi := row, row
	for lo > 0 && same(partition, lo-1) {
		lo--
	}
	for hi+1 < n && same(partition, hi+1) {
		hi++
	}
	peerLo, peerHi := row, row
	for peerLo > lo && same(keys, peerLo-1) {
		peerLo--
	}
	for peerHi < hi && same(keys, peerHi+1) {
		peerHi++
	}
	at := func(i int) string {
		if i >= lo && i <= hi {
			return windowLine(b.Column(w.Col), i)
		}
		return "null"
	}
	switch w.Function {
	case RowNumber:
		return fmt.Sprint(row - lo + 1)
	case Rank:
		return fmt.Sprint(peerLo - lo + 1)
	case DenseRank:
		rank := 1
		for i := lo + 1; i <= peerLo; i++ {
			rank += btoi(compareRowsOf(b, keys, i, i-1) != 0)
		}
		return fmt.Sprint(rank)
	case Lag:
		return at(row - w.Offset)
	case Lead:
		return at(row + w.Offset)
	}
	from, to := row-w.Frame.Preceding, row+w.Frame.Following
	if w.Frame.Peers {
		from, to = peerLo, peerHi
	}
	if w.Frame.Preceding == Unbounded {
		from = lo
	}
	if w.Frame.Following == Unbounded {
		to = hi
	}
	from, to = max(from, lo), min(to, hi)
	switch w.Function {
	case First:
		return at(from)
	case Last:
		return at(to)
	case Count:
		if w.Col < 0 {
			return fmt.Sprint(to - from + 1)
		}
	}
	var live []int
	for i := from; i <= to; i++ {
		if b.Column(w.Col).IsValid(i) {
			live = append(live, i)
		}
	}
	if w.Function == Count {
		return fmt.Sprint(len(live))
	}
	if len(live) < max(w.MinValues, 1) {
		return "null"
	}
	if w.Function == Min || w.Function == Max {
		best := live[0]
		for _, i := range live[1:] {
			if c := compareValues(b.Column(w.Col), i, best); w.Function == Min && c < 0 || w.Function == Max && c > 0 {
				best = i
			}
		}
		return at(best)
	}
	return referenceSum(b.Column(w.Col), live, w.Function)
}

// referenceSum adds values, exact unless they are floats.
func referenceSum(a arrow.Array, rows []int, f Function) string {
	if _, ok := a.(*array.Float64); ok {
		sum := 0.0
		for _, i := range rows {
			sum += a.(*array.Float64).Value(i)
		}
		if f == Mean {
			sum /= float64(len(rows))
		}
		return floatLine(sum)
	}
	sum := new(big.Rat)
	unit := int64(1)
	for _, i := range rows {
		v, ok := new(big.Rat).SetString(windowLine(a, i))
		if !ok {
			panic(windowLine(a, i))
		}
		sum.Add(sum, v)
	}
	if _, ok := a.(*array.Decimal128); ok {
		unit = 100
	}
	if f == Mean {
		v, _ := sum.Quo(sum, big.NewRat(int64(len(rows))*unit, 1)).Float64()
		return floatLine(v)
	}
	return sum.RatString()
}

func floatLine(f float64) string { return fmt.Sprintf("%.6g", f) }

// windowLine returns a value as text; that of a decimal is without its point.
func windowLine(a arrow.Array, row int) string {
	switch a := a.(type) {
	case *array.Float64:
		if a.IsValid(row) {
			return floatLine(a.Value(row))
		}
	case *array.Decimal128:
		if a.IsValid(row) {
			return a.Value(row).BigInt().String()
		}
	}
	if a.IsNull(row) {
		return "null"
	}
	return a.ValueStr(row)
}

func TestWindowsAgainstLoop(t *testing.T) {
	types := []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Float64, &arrow.Decimal128Type{Precision: 12, Scale: 2}}
	rapid.Check(t, func(t *rapid.T) {
		in := drawTable(t, types, 30)
		columns := numbersTo(rapid.IntRange(0, 2).Draw(t, "partition columns"))
		partition := make([]SortKey, len(columns))
		for i := range columns {
			partition[i] = SortKey{Col: columns[i], Desc: rapid.Bool().Draw(t, "desc")}
		}
		var keys []SortKey
		if rapid.Bool().Draw(t, "ordered") {
			keys = []SortKey{{Col: 3, NullsFirst: rapid.Bool().Draw(t, "nulls first")}}
		}
		sorted, err := Sort(in.schema, in.batches, append(partition[:len(partition):len(partition)], keys...))
		if err != nil {
			t.Fatal(err)
		}
		bound := rapid.SampledFrom([]int{Unbounded, 0, 1, 2, 7})
		frame := Frame{Preceding: bound.Draw(t, "preceding"), Following: bound.Draw(t, "following")}
		frame.Peers = frame.Preceding <= 0 && frame.Following <= 0 && rapid.Bool().Draw(t, "peers")
		windows := []Window{{Function: RowNumber}, {Function: Rank}, {Function: DenseRank},
			{Function: Count, Col: -1, Frame: frame}}
		least := rapid.IntRange(0, 3).Draw(t, "min values")
		offset := rapid.IntRange(-2, 3).Draw(t, "offset")
		for col := range types {
			for _, f := range []Function{Lag, Lead, Sum, Mean, Min, Max, Count, First, Last} {
				w := Window{Function: f, Col: col, Frame: frame, MinValues: least, Offset: offset}
				if _, err := w.Type(in.schema); err == nil {
					windows = append(windows, w)
				}
			}
		}
		half := sorted.NumRows() / 2
		parts := []arrow.RecordBatch{sorted.NewSlice(0, half), sorted.NewSlice(half, sorted.NumRows())}
		out, err := Windows(in.schema, parts, columns, keys, windows)
		if err != nil {
			t.Fatal(err)
		}
		own := int(sorted.NumCols())
		if int(out.NumCols()) != own+len(windows) || out.NumRows() != sorted.NumRows() {
			t.Fatalf("got %d columns of %d rows, want %d of %d", out.NumCols(), out.NumRows(), own+len(windows),
				sorted.NumRows())
		}
		for i, w := range windows {
			for row := range int(sorted.NumRows()) {
				want := windowReference(sorted, partition, keys, w, row)
				got := windowLine(out.Column(own+i), row)
				// Which of the zeros is the least may differ.
				if got != want && strings.TrimPrefix(got, "-") != "0" && strings.TrimPrefix(want, "-") != "0" {
					t.Fatalf("%v of column %d, row %d of %d, frame %+v: got %s, want %s", w.Function, w.Col, row,
						sorted.NumRows(), w.Frame, got, want)
				}
			}
		}
	})
}

func numbersTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func batchFromJSON(t *testing.T, schema *arrow.Schema, text string) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.NewGoAllocator(), schema, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWindowValues(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "p", Type: arrow.BinaryTypes.String},
		{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	b := batchFromJSON(t, schema, `[{"p":"a","v":1},{"p":"a","v":1},{"p":"a","v":5},{"p":"b","v":2},{"p":"b","v":null}]`)
	windows := map[string]Window{
		"1 2 3 1 2":             {Function: RowNumber},
		"1 1 3 1 2":             {Function: Rank},
		"1 1 2 1 2":             {Function: DenseRank},
		"null 1 1 null 2":       {Function: Lag, Col: 1, Offset: 1},
		"5 null null null null": {Function: Lead, Col: 1, Offset: 2},
		"1 2 7 2 2":             {Function: Sum, Col: 1, Frame: Frame{Preceding: Unbounded}},
		"2 2 7 2 2":             {Function: Sum, Col: 1, Frame: Frame{Preceding: Unbounded, Peers: true}},
		"null 2 6 null null":    {Function: Sum, Col: 1, Frame: Frame{Preceding: 1}, MinValues: 2},
		"1 1 3 2 2":             {Function: Mean, Col: 1, Frame: Frame{Preceding: 1}},
		"5 5 5 2 2":             {Function: Max, Col: 1, Frame: Frame{Unbounded, Unbounded, false}},
		"1 1 1 2 2":             {Function: Min, Col: 1, Frame: Frame{Preceding: Unbounded}},
		"1 5 5 null null":       {Function: Last, Col: 1, Frame: Frame{Following: 1}},
		"2 3 2 1 1":             {Function: Count, Col: 1, Frame: Frame{Preceding: 1, Following: 1}},
		"a a a b b":             {Function: First, Col: 0, Frame: Frame{Preceding: Unbounded}},
	}
	for want, w := range windows {
		w.Name = "w"
		out, err := Windows(schema, []arrow.RecordBatch{b}, []int{0}, []SortKey{{Col: 1}}, []Window{w})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for row := range int(out.NumRows()) {
			got = append(got, windowLine(out.Column(2), row))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%v %+v: got %s, want %s", w.Function, w.Frame, s, want)
		}
		if out.ColumnName(2) != "w" {
			t.Errorf("column is %q, want w", out.ColumnName(2))
		}
	}
}

func TestWindowSums(t *testing.T) {
	ints := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	big := batchFromJSON(t, ints, `[{"v":9223372036854775807},{"v":1},{"v":-5}]`)
	all := Window{Function: Sum, Frame: Frame{Preceding: Unbounded}}
	_, err := Windows(ints, []arrow.RecordBatch{big}, nil, nil, []Window{all})
	if err == nil || !strings.Contains(err.Error(), `sum of column "v" exceeds`) {
		t.Errorf("overflow: got error %v, want one that names the column", err)
	}
	// A sum that leaves the range only in between is exact.
	whole := Window{Function: Sum, Frame: Frame{Preceding: Unbounded, Following: Unbounded}}
	out, err := Windows(ints, []arrow.RecordBatch{big}, nil, nil, []Window{whole})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Column(1).(*array.Int64).Value(0); got != math.MaxInt64-4 {
		t.Errorf("got %d, want %d", got, int64(math.MaxInt64-4))
	}
	floats := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), floats)
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{1e300, math.Inf(1), 1, 2, 3}, nil)
	out, err = Windows(floats, []arrow.RecordBatch{b.NewRecordBatch()}, nil, nil,
		[]Window{{Function: Sum, Frame: Frame{Preceding: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	// Neither the infinity nor the large value may leave anything in later sums.
	if got := fmt.Sprint(out.Column(1).(*array.Float64).Float64Values()); got != "[1e+300 +Inf +Inf 3 5]" {
		t.Errorf("got %s, want [1e+300 +Inf +Inf 3 5]", got)
	}
}

func TestWindowErrors(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}}, nil)
	b := batchFromJSON(t, schema, `[{"s":"a","l":[1]}]`)
	for want, w := range map[string]Window{
		`no sum of column "s"`:   {Function: Sum},
		`no max of column "l"`:   {Function: Max, Col: 1},
		"lag of column 2 of 2":   {Function: Lag, Col: 2},
		"count of column 5 of 2": {Function: Count, Col: 5},
		"frame from -2 rows":     {Function: Count, Frame: Frame{Preceding: -2}},
		"frame of peers":         {Function: Count, Frame: Frame{Preceding: 2, Peers: true}},
	} {
		_, err := Windows(schema, []arrow.RecordBatch{b}, nil, nil, []Window{w})
		if err == nil || !strings.HasPrefix(err.Error(), "order: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want one with %q", w.Function, err, want)
		}
	}
	if _, err := Windows(schema, []arrow.RecordBatch{b}, []int{1}, nil, nil); err == nil {
		t.Error("windows partitioned by lists succeeded")
	}
	if got := Function(99).String(); got != "function 99" {
		t.Errorf("got %q, want function 99", got)
	}
}
