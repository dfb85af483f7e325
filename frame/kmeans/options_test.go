package kmeans

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestParams(t *testing.T) {
	x := []string{"x"}
	for _, c := range []struct {
		opts    Options
		columns []string
		want    params
		err     string
	}{
		{Options{}, x, params{K: DefaultK, MaxIter: DefaultMaxIter, Tol: DefaultTol, Columns: x}, ""},
		{Options{K: 3, MaxIter: 5, Tol: 0.5, Seed: 9}, x, params{K: 3, MaxIter: 5, Tol: 0.5, Seed: 9, Columns: x}, ""},
		{Options{Tol: -1}, x, params{K: DefaultK, MaxIter: DefaultMaxIter, Columns: x}, ""},
		{Options{Init: [][]float64{{1}, {2}}}, x, params{K: 2, MaxIter: DefaultMaxIter, Tol: DefaultTol,
			Init: []float64{1, 2}, Columns: x}, ""},
		{Options{K: 1 << 20}, x, params{K: 1 << 20, MaxIter: DefaultMaxIter, Tol: DefaultTol, Columns: x}, ""},
		{Options{K: 1<<20 + 1}, x, params{}, "between 1 and 1048576"}, {Options{K: -1}, x, params{}, "-1 groups"},
		{Options{MaxIter: -1}, x, params{}, "-1 iterations"}, {Options{}, nil, params{}, "no column"},
		{Options{K: 3, Init: [][]float64{{1}}}, x, params{}, "1 initial centers for 3 groups"},
		{Options{Init: [][]float64{{1}, {2, 3}}}, x, params{}, "initial center 1 has 2 coordinates"},
	} {
		got, err := c.opts.params(c.columns)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: got %v, want %q", c.opts, err, c.err)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%+v: got %+v, %v, want %+v", c.opts, got, err, c.want)
		}
	}
}

// Columns of every numeric type are the same numbers to the kernels.
func TestNumbers(t *testing.T) {
	types := []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64}
	for _, dt := range types {
		b := array.NewBuilder(memory.DefaultAllocator, dt)
		for _, v := range []string{"1", "2", "100"} {
			if err := b.AppendValueFromString(v); err != nil {
				t.Fatal(err)
			}
		}
		a := array.NewSlice(b.NewArray(), 1, 3)
		wide, err := numbers[float64](a)
		narrow, err2 := numbers[float32](a)
		if err != nil || err2 != nil || fmt.Sprint(wide, narrow) != "[2 100] [2 100]" {
			t.Errorf("%v: got %v, %v, %v, want 2 and 100", dt, wide, narrow, errors.Join(err, err2))
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt}, {Name: "f", Type: arrow.PrimitiveTypes.Float32}},
			nil)
		for _, names := range [][]string{{"x"}, {"f", "x"}, {"f"}} {
			all, err := isFloat32(schema, names)
			if want := dt.ID() == arrow.FLOAT32 || len(names) == 1 && names[0] == "f"; err != nil || all != want {
				t.Errorf("%v, columns %v: got float32 %v, %v, want %v", dt, names, all, err, want)
			}
		}
	}
	text := array.NewStringBuilder(memory.DefaultAllocator)
	if _, err := numbers[float64](text.NewArray()); err == nil {
		t.Error("column of text: got no error")
	}
}
