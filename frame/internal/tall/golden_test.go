package tall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/linear"
	"go.millstream.dev/frame/pca"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

// golden is the results of one table, see testdata/make_golden.py.
type golden struct {
	Name, DType string
	K           int
	X           [][]float64 // column by column
	Y           []float64
	PCA, SVD    components
	OLS         line
	Origin      line // without an intercept
	Ridge       line
}

type components struct {
	Mean, Values, Variance, Ratio []float64
	Components, Transformed       [][]float64
	Noise                         float64
}

type line struct {
	Coef, Values, Predicted []float64
	Intercept, Rank, Score  float64
}

func goldens(t testing.TB) []golden {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	return parseGoldens(t, b)
}

func parseGoldens(t testing.TB, b []byte) []golden {
	t.Helper()
	var file struct{ Cases []golden }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("got no cases")
	}
	return file.Cases
}

var arrowTypes = map[string]arrow.DataType{
	"float64": arrow.PrimitiveTypes.Float64, "float32": arrow.PrimitiveTypes.Float32,
	"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16, "int32": arrow.PrimitiveTypes.Int32,
	"int64": arrow.PrimitiveTypes.Int64, "uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16,
	"uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64,
}

func (g *golden) columns() []string {
	var out []string
	for j := range g.X {
		out = append(out, fmt.Sprintf("x%d", j))
	}
	return out
}

// batches returns the table in partitions of some numbers of rows, and one of the rest.
func (g *golden) batches(sizes ...int) []arrow.RecordBatch {
	var fields []arrow.Field
	for _, name := range append(g.columns(), "y") {
		fields = append(fields, arrow.Field{Name: name, Type: arrowTypes[g.DType]})
	}
	fields = append(fields, arrow.Field{Name: "text", Type: arrow.BinaryTypes.String})
	schema := arrow.NewSchema(fields, nil)
	var out []arrow.RecordBatch
	at := 0
	for _, n := range append(sizes, len(g.Y)) {
		n = min(n, len(g.Y)-at)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for row := at; row < at+n; row++ {
			for j, c := range append(g.X[:len(g.X):len(g.X)], g.Y) {
				appendNumber(b.Field(j), c[row])
			}
			b.Field(len(g.X) + 1).(*array.StringBuilder).Append("text")
		}
		at += n
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

func appendNumber(b array.Builder, v float64) {
	switch b := b.(type) {
	case *array.Float64Builder:
		b.Append(v)
	case *array.Float32Builder:
		b.Append(float32(v))
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Int16Builder:
		b.Append(int16(v))
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(int64(v))
	case *array.Uint8Builder:
		b.Append(uint8(v))
	case *array.Uint16Builder:
		b.Append(uint16(v))
	case *array.Uint32Builder:
		b.Append(uint32(v))
	case *array.Uint64Builder:
		b.Append(uint64(v))
	default:
		panic(fmt.Sprintf("builder of %T", b))
	}
}

// tolerance returns that of numbers relative to the largest of their kind.
func (g *golden) tolerance() float64 {
	if g.DType == "float32" {
		return 2e-5
	}
	return 1e-9
}

// same compares numbers, relative to the largest of them or to least.
func (g *golden) same(t *testing.T, what string, got, want []float64, least float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %s: got %d numbers, want %d", g.Name, what, len(got), len(want))
		return
	}
	for _, w := range want {
		least = max(least, math.Abs(w))
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= g.tolerance()*least) {
			t.Errorf("%s: %s: got %v, want %v", g.Name, what, got, want)
			return
		}
	}
}

func (g *golden) checkPCA(t *testing.T, what string, m *pca.Model, want components, transformed [][]float64) {
	t.Helper()
	if m.Rows != int64(len(g.Y)) || len(m.Components) != g.K {
		t.Errorf("%s: %s: got %d rows and %d components, want %d and %d", g.Name, what, m.Rows, len(m.Components),
			len(g.Y), g.K)
	}
	if want.Mean == nil {
		want.Mean = make([]float64, len(g.X))
	}
	g.same(t, what+" mean", m.Mean, want.Mean, 0)
	g.same(t, what+" singular values", m.SingularValues, want.Values, 0)
	g.same(t, what+" variance", m.ExplainedVariance, want.Variance, 0)
	g.same(t, what+" ratio", m.ExplainedVarianceRatio, want.Ratio, 0)
	g.same(t, what+" noise", []float64{m.NoiseVariance}, []float64{want.Noise}, want.Variance[0])
	for i := range m.Components {
		g.same(t, fmt.Sprintf("%s component %d", what, i), m.Components[i], want.Components[i], 1)
	}
	var got, all []float64
	for i, row := range want.Transformed {
		all = append(all, row...)
		for _, c := range transformed {
			got = append(got, c[i])
		}
	}
	g.same(t, what+" transformed", got, all, 0)
}

func (g *golden) checkLine(t *testing.T, what string, m *linear.Model, want line, predicted []float64) {
	t.Helper()
	g.same(t, what+" coefficients", m.Coefficients, want.Coef, 0)
	g.same(t, what+" intercept", []float64{m.Intercept}, []float64{want.Intercept}, 1)
	g.same(t, what+" R²", []float64{m.R2}, []float64{want.Score}, 1)
	if m.Rows != int64(len(g.Y)) || m.Target != "y" {
		t.Errorf("%s: %s: got %d rows and target %q, want %d and y", g.Name, what, m.Rows, m.Target, len(g.Y))
	}
	if want.Values == nil { // ridge regression has neither
		return
	}
	g.same(t, what+" singular values", m.SingularValues, want.Values, 0)
	g.same(t, what+" predictions", predicted, want.Predicted, 0)
	if float64(m.Rank) != want.Rank {
		t.Errorf("%s: %s: got rank %d, want %v", g.Name, what, m.Rank, want.Rank)
	}
}

// numbers returns the columns of a frame, and releases it.
func numbers(t *testing.T, ctx context.Context, f *frame.Frame, err error) [][]float64 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	batches, err := f.Collect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]float64, f.Schema().NumFields())
	for _, b := range batches {
		for j := range out {
			switch c := b.Column(j).(type) {
			case *array.Float64:
				out[j] = append(out[j], c.Float64Values()...)
			case *array.Float32:
				for _, v := range c.Float32Values() {
					out[j] = append(out[j], float64(v))
				}
			default:
				t.Fatalf("column of type %v", c.DataType())
			}
		}
		b.Release()
	}
	return out
}

// checkFrame compares all results of a frame in a location.
func (g *golden) checkFrame(t *testing.T, ctx context.Context, f *frame.Frame, q *clique.Clique) {
	t.Helper()
	for _, uncentered := range []bool{false, true} {
		m, err := pca.Fit(ctx, f, pca.Options{Components: g.K, Columns: g.columns(), Uncentered: uncentered, Clique: q})
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		x, err := m.Transform(ctx, f)
		what, want := "PCA", g.PCA
		if uncentered {
			what, want = "SVD", g.SVD
		}
		g.checkPCA(t, what, m, want, numbers(t, ctx, x, err))
	}
	for _, x := range []struct {
		what string
		want line
		o    linear.Options
	}{
		{"least squares", g.OLS, linear.Options{}},
		{"without intercept", g.Origin, linear.Options{NoIntercept: true}},
		{"ridge", g.Ridge, linear.Options{Ridge: 2.5}},
	} {
		x.o.Target, x.o.Columns, x.o.Clique = "y", g.columns(), q
		m, err := linear.Fit(ctx, f, x.o)
		if err != nil {
			t.Errorf("%s: %s: %v", g.Name, x.what, err)
			continue
		}
		p, err := m.Predict(ctx, f)
		g.checkLine(t, x.what, m, x.want, numbers(t, ctx, p, err)[0])
	}
}

func connect(t testing.TB, workers int, mode cluster.Mode) (context.Context, *client.Client) {
	t.Helper()
	leak.Check(t)
	ctx := t.Context()
	lc, err := cluster.Local(ctx, cluster.Config{Workers: workers, Threads: 2, Mode: mode, DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lc.Close() })
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

// TestCluster: results on clusters are those of scikit-learn, for every type of numbers, with empty partitions and with
// partitions of fewer rows than columns.
func TestCluster(t *testing.T) {
	for _, x := range []struct {
		workers int
		mode    cluster.Mode
	}{{1, cluster.Goroutines}, {3, cluster.Goroutines}, {2, cluster.Processes}} {
		t.Run(fmt.Sprintf("%d %v", x.workers, x.mode), func(t *testing.T) {
			ctx, c := connect(t, x.workers, x.mode)
			for i, g := range goldens(t) {
				if x.workers != 3 && i%5 != 0 { // the others are the same
					continue
				}
				f, err := frame.FromBatches(ctx, c, g.batches(0, 1, 5, 0, 2))
				if err != nil {
					t.Fatal(err)
				}
				g.checkFrame(t, ctx, f, nil)
				f.Release()
			}
		})
	}
}
