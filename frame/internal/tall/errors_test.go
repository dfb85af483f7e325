package tall_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/linear"
	"go.millstream.dev/frame/pca"
)

// absent stands for a null.
const absent = -12345

// table returns batches of the columns x and y, and of one of text.
func table(parts ...[]float64) []arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "y", Type: arrow.PrimitiveTypes.Float64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	var out []arrow.RecordBatch
	for _, p := range parts {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i, x := range p {
			if x == absent {
				b.Field(0).AppendNull()
			} else {
				b.Field(0).(*array.Float64Builder).Append(x)
			}
			b.Field(1).(*array.Float64Builder).Append(float64(i))
			b.Field(2).(*array.StringBuilder).Append("text")
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

func TestErrors(t *testing.T) {
	ctx, c := connect(t, 2, cluster.Goroutines)
	q, err := clique.Form(ctx, c, clique.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Dissolve(ctx); err != nil {
			t.Error(err)
		}
	}()
	x, xy := []string{"x"}, []string{"x", "y"}
	plain := []([]float64){{1, 2, 30}, {31, 32}}
	for _, tc := range []struct {
		name  string
		parts [][]float64
		pca   *pca.Options
		line  *linear.Options
		kind  error
		text  []string
	}{
		{"text", plain, &pca.Options{}, &linear.Options{Target: "y"}, frame.ErrSchema,
			[]string{`column "s"`, "utf8", "Options.Columns"}},
		{"missing column", plain, &pca.Options{Columns: []string{"z"}}, &linear.Options{Target: "z", Columns: x},
			frame.ErrSchema, []string{`0 columns named "z"`}},
		{"nulls", [][]float64{{1, 2}, {absent, 4}}, &pca.Options{Columns: xy}, &linear.Options{Target: "y", Columns: x},
			frame.ErrSchema, []string{"partition 1", `column "x" has 1 nulls`, "NotNull"}},
		{"NaN", [][]float64{{1, 2}, {3}, {}, {4, math.NaN()}}, &pca.Options{Columns: xy},
			&linear.Options{Target: "y", Columns: x}, frame.ErrSchema, []string{"partition 3", `column "x"`, "not finite"}},
		{"infinite", [][]float64{{math.Inf(1), 2}, {3, math.NaN()}}, &pca.Options{Columns: x},
			&linear.Options{Target: "x", Columns: []string{"y"}}, frame.ErrSchema, []string{"partition 0", `column "x"`}},
		{"too large", [][]float64{{1e300, -1e300}, {3, 4}}, &pca.Options{Columns: x},
			&linear.Options{Target: "y", Columns: x}, nil, []string{"too large", "scale"}},
		{"no rows", [][]float64{{}, {}}, &pca.Options{Columns: x}, &linear.Options{Target: "y", Columns: x}, nil,
			[]string{"no rows"}},
		{"fewer rows than components", [][]float64{{1}, {}}, &pca.Options{Columns: xy, Components: 2}, nil, nil,
			[]string{"2 components of 1 rows"}},
		{"one row", [][]float64{{1}, {}}, &pca.Options{Columns: x}, nil, nil, []string{"1 row has no variance"}},
		{"more components than columns", plain, &pca.Options{Columns: x, Components: 2}, nil, nil,
			[]string{"2 components of 1 columns"}},
		{"a negative number", plain, &pca.Options{Columns: x, Components: -1}, nil, nil, []string{"-1 components"}},
		{"no target", plain, nil, &linear.Options{}, nil, []string{"no target", "Options.Target"}},
		{"target among columns", plain, nil, &linear.Options{Target: "x", Columns: xy}, nil, []string{`target "x"`}},
		{"negative ridge", plain, nil, &linear.Options{Target: "y", Columns: x, Ridge: -1}, nil, []string{"ridge -1"}},
		{"a cutoff of 1", plain, nil, &linear.Options{Target: "y", Columns: x, Cutoff: 1}, nil, []string{"cutoff 1"}},
		{"ridge NaN", plain, nil, &linear.Options{Target: "y", Columns: x, Ridge: math.NaN()}, nil,
			[]string{"ridge NaN"}},
	} {
		f, err := frame.FromBatches(ctx, c, table(tc.parts...))
		if err != nil {
			t.Fatal(err)
		}
		var errs []error
		if tc.pca != nil {
			_, err := pca.Fit(ctx, f, *tc.pca)
			errs = append(errs, err)
		}
		if tc.line != nil {
			_, err := linear.Fit(ctx, f, *tc.line)
			errs = append(errs, err)
		}
		for _, err := range errs {
			if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("%s: got %v, want an error of kind %v", tc.name, err, tc.kind)
				continue
			}
			for _, text := range tc.text {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: got %v, want %q", tc.name, err, text)
				}
			}
		}
		f.Release()
	}
	// A fit in a given clique, of one row for a line through it and of the default columns.
	f, err := frame.FromBatches(ctx, c, table([]float64{}, []float64{4, 6, 8}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	m, err := linear.Fit(ctx, f, linear.Options{Target: "y", Columns: x, Clique: q})
	if err != nil || math.Abs(m.Coefficients[0]-0.5) > 1e-14 || math.Abs(m.Intercept+2) > 1e-13 || m.R2 < 1-1e-14 {
		t.Errorf("got %+v, %v, want 0.5 x - 2", m, err)
	}
}

// TestCutoff: a direction with a small singular value has coefficients if the cutoff is lower.
func TestCutoff(t *testing.T) {
	ctx, c := connect(t, 2, cluster.Goroutines)
	g := golden{DType: "float64", X: [][]float64{{1, 2, 3, 4}, {1, 2, 3, 4 + 1e-8}}, Y: []float64{1, 2, 3, 5}}
	f, err := frame.FromBatches(ctx, c, g.batches(2))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	for cutoff, rank := range map[float64]int{0: 1, 1e-12: 2, -1: 2, 0.5: 1} {
		m, err := linear.Fit(ctx, f, linear.Options{Target: "y", Columns: g.columns(), Cutoff: cutoff})
		if err != nil || m.Rank != rank {
			t.Errorf("cutoff %v: got %+v, %v, want rank %d", cutoff, m, err, rank)
		}
	}
}

// TestInvalidModels: models that were changed or made by hand are checked before they are sent to workers.
func TestInvalidModels(t *testing.T) {
	ctx, c := connect(t, 1, cluster.Goroutines)
	f, err := frame.FromBatches(ctx, c, table([]float64{1, 2}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	for name, m := range map[string]pca.Model{
		"component 0 has 2 elements": {Columns: []string{"x"}, Mean: []float64{0}, Components: [][]float64{{1, 2}}},
		"has 0 means":                {Columns: []string{"x"}, Components: [][]float64{{1}}},
		"0 results":                  {Columns: []string{"x"}, Mean: []float64{0}},
		`"z"`:                        {Columns: []string{"z"}, Mean: []float64{0}, Components: [][]float64{{1}}},
	} {
		if _, err := m.Transform(ctx, f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	for name, m := range map[string]linear.Model{
		"2 weights":  {Columns: []string{"x"}, Coefficients: []float64{1, 2}},
		`column "s"`: {Columns: []string{"s"}, Coefficients: []float64{1}},
	} {
		if _, err := m.Predict(ctx, f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}
