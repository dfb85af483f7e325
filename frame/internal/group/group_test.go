package group

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// table returns a batch from JSON, with columns named by their types.
func table(t testing.TB, types []arrow.DataType, columns ...string) arrow.RecordBatch {
	t.Helper()
	fields := make([]arrow.Field, len(types))
	arrays := make([]arrow.Array, len(types))
	for i, dt := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dt, Nullable: true}
		a, _, err := array.FromJSON(heap, dt, strings.NewReader(columns[i]))
		if err != nil {
			t.Fatal(err)
		}
		arrays[i] = a
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(arrays[0].Len()))
}

var (
	i64  = arrow.PrimitiveTypes.Int64
	u64  = arrow.PrimitiveTypes.Uint64
	f64  = arrow.PrimitiveTypes.Float64
	text = arrow.BinaryTypes.String
)

// TestAggregates has a case for each aggregate.
func TestAggregates(t *testing.T) {
	b := table(t, []arrow.DataType{text, i64, f64, text},
		`["a", "b", "a", null, "b", "a"]`,
		`[1, 2, 3, 4, null, null]`,
		`[0.5, 1.5, 2.5, 3.5, null, 4]`,
		`["x", null, "z", "y", null, "x"]`)
	for _, c := range []struct {
		fn     Func
		column int
		want   string // of a, b and null
	}{
		{CountAll, 0, "3 2 1"},
		{Count, 1, "2 1 1"},
		{Count, 3, "3 0 1"},
		{Sum, 1, "4 2 4"},
		{Sum, 2, "7 1.5 3.5"},
		{Min, 1, "1 2 4"},
		{Max, 1, "3 2 4"},
		{Min, 3, "x null y"},
		{Max, 3, "z null y"},
		{Mean, 1, "2 2 4"},
		{Mean, 2, "2.33333333 1.5 3.5"},
		{Var, 1, "2 null null"},
		{Std, 1, "1.41421356 null null"},
		{Median, 1, "2 2 4"},
		{Median, 2, "2.5 1.5 3.5"},
		{Quantile, 1, "1.6 2 4"},
		{ApproxQuantile, 1, "1.6 2 4"},
		{First, 1, "1 2 4"},
		{Last, 1, "null null 4"},
		{First, 3, "x null y"},
		{NUnique, 3, "2 0 1"},
		{NUnique, 1, "2 1 1"},
		{CollectList, 1, "[1 3 null] [2 null] [4]"},
	} {
		out := run(t, b.Schema(), []int{0}, []Spec{{Func: c.fn, Column: c.column, Name: "x", Q: 0.3}}, Complete, b)
		var got []string
		for _, key := range []string{"a", "b", "(null)"} {
			for r := range int(out.NumRows()) {
				if out.Column(0).ValueStr(r) == key {
					v := value(out.Column(1), r)
					if f, ok := v.(float64); ok {
						got = append(got, fmt.Sprintf("%.9g", f))
					} else {
						got = append(got, show(v))
					}
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v of column %d: got %s, want %s", c.fn, c.column, strings.Join(got, " "), c.want)
		}
		if name := out.Schema().Field(1).Name; name != "x" {
			t.Errorf("%v: result is named %q", c.fn, name)
		}
	}
}

// TestNoKeys has one row, also without input, in every mode.
func TestNoKeys(t *testing.T) {
	b := table(t, []arrow.DataType{i64, text}, `[1, 2, null]`, `["a", "a", "b"]`)
	specs := specsOf(b.Schema())
	empty := b.NewSlice(0, 0)
	for _, in := range []arrow.RecordBatch{b, empty} {
		want := reference(in, nil, specs)
		equalLines(t, "complete", lines(run(t, b.Schema(), nil, specs, Complete, in)), want)
		state := run(t, b.Schema(), nil, specs, Partial, in)
		none := run(t, b.Schema(), nil, specs, Partial)
		equalLines(t, "final", lines(run(t, b.Schema(), nil, specs, Final, none, state, none)), want)
		merged := run(t, b.Schema(), nil, specs, Merge, none, state)
		equalLines(t, "merged", lines(run(t, b.Schema(), nil, specs, Final, merged)), want)
	}
	equalLines(t, "nothing", lines(run(t, b.Schema(), nil, specs, Final)), reference(empty, nil, specs))
	if out := run(t, b.Schema(), nil, nil, Complete, b); out.NumRows() != 1 || out.NumCols() != 0 {
		t.Errorf("no keys and no aggregates: got %d rows of %d columns, want 1 of 0", out.NumRows(), out.NumCols())
	}
}

func TestNoRows(t *testing.T) {
	for _, mode := range []Mode{Complete, Partial} {
		b := randomBatch(keyTypes, 0, 1, 0, 1)
		out := run(t, b.Schema(), []int{0, 4, 11}, specsOf(b.Schema()), mode, b, b)
		if out.NumRows() != 0 {
			t.Errorf("mode %d: got %d groups of no rows", mode, out.NumRows())
		}
	}
}

// TestFloatKeys has zeros and NaNs of several forms.
func TestFloatKeys(t *testing.T) {
	for _, build := range []func() arrow.Array{
		func() arrow.Array {
			b := array.NewFloat64Builder(heap)
			b.AppendValues([]float64{0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff8000000000123), 1,
				math.Inf(1), math.Inf(-1)}, nil)
			return b.NewArray()
		},
		func() arrow.Array {
			b := array.NewFloat32Builder(heap)
			b.AppendValues([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()),
				math.Float32frombits(0xffc00123), 1, float32(math.Inf(1)), float32(math.Inf(-1))}, nil)
			return b.NewArray()
		},
	} {
		a := build()
		s := arrow.NewSchema([]arrow.Field{{Name: "f", Type: a.DataType()}}, nil)
		b := array.NewRecordBatch(s, []arrow.Array{a}, int64(a.Len()))
		specs := []Spec{{Func: CountAll}, {Func: NUnique}, {Func: Max}, {Func: Min}}
		got := lines(run(t, s, []int{0}, specs, Complete, b))
		want := []string{"~+Inf|1|1|~+Inf|~+Inf|", "~-Inf|1|1|~-Inf|~-Inf|", "~0|2|1|~0|~0|", "~1|1|1|~1|~1|",
			"~NaN|2|1|~NaN|~NaN|"}
		equalLines(t, fmt.Sprint(a.DataType()), got, want)
		whole := lines(run(t, s, nil, specs, Complete, b))
		equalLines(t, "no keys", whole, []string{"7|5|~NaN|~-Inf|"})
	}
}

func TestSumOverflow(t *testing.T) {
	for _, c := range []struct {
		t    arrow.DataType
		json string
		want string // or an error
	}{
		{i64, `[9223372036854775807, 1]`, ""},
		{i64, `[-9223372036854775808, -1]`, ""},
		{i64, `[9223372036854775807, -5, 5]`, "9223372036854775807|"},
		{i64, `[9223372036854775807, 5, -5]`, "9223372036854775807|"},
		{i64, `[-9223372036854775808, -5, 5]`, "-9223372036854775808|"},
		{arrow.PrimitiveTypes.Int32, `[2147483647, 2147483647]`, "4294967294|"},
		{i64, `[null, 9223372036854775807, 1]`, ""},
		{u64, `[18446744073709551615, 1]`, ""},
		{u64, `[18446744073709551614, 1]`, "18446744073709551615|"},
		{&arrow.Decimal128Type{Precision: 38}, `["99999999999999999999999999999999999999", "1"]`, ""},
		{&arrow.Decimal128Type{Precision: 38}, `["-99999999999999999999999999999999999999", "-1"]`, ""},
		{&arrow.Decimal128Type{Precision: 38}, `["99999999999999999999999999999999999998", "1"]`,
			"99999999999999999999999999999999999999|"},
		{&arrow.Decimal128Type{Precision: 38}, `["99999999999999999999999999999999999999",
			"99999999999999999999999999999999999999"]`, ""},
	} {
		b := table(t, []arrow.DataType{c.t}, c.json)
		g, err := New(b.Schema(), nil, []Spec{{Func: Sum, Name: "s"}}, Complete)
		if err != nil {
			t.Fatal(err)
		}
		err = g.Add(b)
		var out arrow.RecordBatch
		if err == nil {
			out, err = g.Finish()
		}
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), `sum of column "c0" overflows`)):
			t.Errorf("%s: got error %v, want one about the overflow of c0", c.json, err)
		case c.want != "" && err != nil:
			t.Errorf("%s: %v", c.json, err)
		case c.want != "" && lines(out)[0] != c.want:
			t.Errorf("%s: got %s, want %s", c.json, lines(out)[0], c.want)
		}
	}
}

// TestMeanWide has sums that 64 bits cannot hold.
func TestMeanWide(t *testing.T) {
	b := table(t, []arrow.DataType{i64, u64}, `[9223372036854775807, 9223372036854775807, -9223372036854775807]`,
		`[18446744073709551615, 18446744073709551615, 18446744073709551615]`)
	out := run(t, b.Schema(), nil, []Spec{{Func: Mean}, {Func: Mean, Column: 1}}, Complete, b)
	equalLines(t, "means", lines(out), []string{"~3.074457345618258602e18|~1.8446744073709551615e19|"})
}

// TestVarianceStable has values with a large mean and a small variance.
func TestVarianceStable(t *testing.T) {
	b := table(t, []arrow.DataType{f64}, `[1000000000004, 1000000000007, 1000000000013, 1000000000016]`)
	for from := range int64(4) {
		states := []arrow.RecordBatch{run(t, b.Schema(), nil, []Spec{{Func: Var}}, Partial, b.NewSlice(0, from)),
			run(t, b.Schema(), nil, []Spec{{Func: Var}}, Partial, b.NewSlice(from, 4))}
		got := lines(run(t, b.Schema(), nil, []Spec{{Func: Var}}, Final, states...))
		equalLines(t, fmt.Sprintf("split at %d", from), got, []string{"~30|"})
	}
}

func TestFirstLastPosition(t *testing.T) {
	b := table(t, []arrow.DataType{i64}, `[1, 2, 3, 4]`)
	specs := []Spec{{Func: First, Name: "f"}, {Func: Last, Name: "l"}}
	state := func(partition int, row int64, b arrow.RecordBatch) arrow.RecordBatch {
		g, err := New(b.Schema(), nil, specs, Partial)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SetPosition(partition, row); err != nil {
			t.Fatal(err)
		}
		if err := g.Add(b); err != nil {
			t.Fatal(err)
		}
		out, err := g.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	late, early := state(1, 0, b.NewSlice(2, 4)), state(0, 100, b.NewSlice(0, 2))
	if got := lines(run(t, b.Schema(), nil, specs, Final, late, early))[0]; got != "1|4|" {
		t.Errorf("got %s, want 1|4|", got)
	}
	g, err := New(b.Schema(), nil, specs, Partial)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][2]int64{{-1, 0}, {0, -1}, {1 << 23, 0}, {0, 1 << 40}} {
		if err := g.SetPosition(int(p[0]), p[1]); err == nil {
			t.Errorf("position %v: got no error", p)
		}
	}
}

func TestNewRejects(t *testing.T) {
	list := arrow.ListOf(i64)
	s := arrow.NewSchema([]arrow.Field{{Name: "l", Type: list}, {Name: "s", Type: text}, {Name: "i", Type: i64}}, nil)
	for _, c := range []struct {
		keys []int
		spec Spec
		mode Mode
		want string
	}{
		{[]int{0}, Spec{}, Complete, "cannot be a key"},
		{[]int{3}, Spec{}, Complete, "key column 3 of 3"},
		{[]int{-1}, Spec{}, Complete, "key column -1 of 3"},
		{nil, Spec{Func: Sum, Column: 1}, Complete, `sum of column "s" of type utf8 is not defined`},
		{nil, Spec{Func: Mean, Column: 1}, Final, `mean of column "s"`},
		{nil, Spec{Func: Median, Column: 1}, Complete, `median of column "s"`},
		{nil, Spec{Func: Min, Column: 0}, Complete, `min of column "l"`},
		{nil, Spec{Func: NUnique, Column: 0}, Complete, `nunique of column "l"`},
		{nil, Spec{Func: Sum, Column: 3}, Complete, "column 3 of 3"},
		{nil, Spec{Func: Quantile, Column: 2, Q: 1.5}, Complete, "use a number from 0 to 1"},
		{nil, Spec{Func: Quantile, Column: 2, Q: math.NaN()}, Complete, "use a number from 0 to 1"},
		{nil, Spec{Func: 99}, Complete, "unknown aggregate"},
		{nil, Spec{}, 9, "unknown mode"},
	} {
		_, err := New(s, c.keys, []Spec{c.spec}, c.mode)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.spec, err, c.want)
		}
	}
}

func TestAddRejects(t *testing.T) {
	b := table(t, []arrow.DataType{i64}, `[1]`)
	g, err := New(b.Schema(), []int{0}, nil, Complete)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(table(t, []arrow.DataType{text}, `["a"]`)); err == nil {
		t.Error("other type: got no error")
	}
	if err := g.Add(table(t, []arrow.DataType{i64, i64}, `[1]`, `[2]`)); err == nil {
		t.Error("other columns: got no error")
	}
	if _, err := g.States(b); err == nil {
		t.Error("States of mode Complete: got no error")
	}
	if _, err := g.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(b); err == nil {
		t.Error("Add after Finish: got no error")
	}
	if _, err := g.Finish(); err == nil {
		t.Error("second Finish: got no error")
	}
}

func TestSchemas(t *testing.T) {
	b := table(t, []arrow.DataType{text, i64}, `[]`, `[]`)
	specs := []Spec{{Func: Mean, Column: 1, Name: "m"}, {Func: Sum, Column: 1, Name: "s"},
		{Func: Count, Column: 1, Name: "n"}}
	states, err := StateSchema(b.Schema(), []int{0}, specs)
	if err != nil {
		t.Fatal(err)
	}
	if got := states.NumFields(); got != 3 { // key, count, sum
		t.Errorf("states: got %d columns, want 3: %v", got, states)
	}
	result, err := ResultSchema(b.Schema(), []int{0}, specs)
	if err != nil {
		t.Fatal(err)
	}
	m, s := result.Field(1), result.Field(2)
	if m.Name != "m" || m.Type.ID() != arrow.FLOAT64 || s.Type.ID() != arrow.INT64 {
		t.Errorf("result: got %v", result)
	}
}
