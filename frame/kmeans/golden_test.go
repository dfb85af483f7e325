package kmeans

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/lloyd"
)

// golden is a result of scikit-learn, see testdata/make_golden.py.
type golden struct {
	Name     string
	DType    string
	K        int
	Seed     uint32
	MaxIter  int `json:"max_iter"`
	Tol      float64
	X        [][]float64 // column by column
	Init     [][]float64
	Centers  [][]float64
	Labels   []int32
	Inertia  float64
	Iter     int `json:"iterations"`
	PlusPlus [][]float64
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
	return file.Cases
}

func (g *golden) columns() []string { return []string{"a", "b", "c", "d"}[:len(g.X)] }

func (g *golden) options() Options {
	o := Options{K: g.K, Init: g.Init, Seed: g.Seed, MaxIter: g.MaxIter, Tol: g.Tol, Columns: g.columns()}
	if g.Tol == 0 {
		o.Tol = -1
	}
	return o
}

// batches returns the data in n partitions.
func (g *golden) batches(n int) []arrow.RecordBatch {
	var fields []arrow.Field
	t := arrow.DataType(arrow.PrimitiveTypes.Float64)
	if g.DType == "float32" {
		t = arrow.PrimitiveTypes.Float32
	}
	for _, name := range g.columns() {
		fields = append(fields, arrow.Field{Name: name, Type: t})
	}
	schema := arrow.NewSchema(fields, nil)
	rows := len(g.X[0])
	var out []arrow.RecordBatch
	for i := range n {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for row := rows * i / n; row < rows*(i+1)/n; row++ {
			for j, c := range g.X {
				if f, ok := b.Field(j).(*array.Float32Builder); ok {
					f.Append(float32(c[row]))
				} else {
					b.Field(j).(*array.Float64Builder).Append(c[row])
				}
			}
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

// check compares a fit with that of scikit-learn.
func (g *golden) check(t *testing.T, what string, centers [][]float64, labels []int32, inertia float64,
	iterations int) {
	t.Helper()
	if math.Abs(inertia-g.Inertia) > 1e-6*g.Inertia {
		t.Errorf("%s, %s: inertia %v, scikit-learn %v", g.Name, what, inertia, g.Inertia)
	}
	if iterations != g.Iter {
		t.Errorf("%s, %s: %d iterations, scikit-learn %d", g.Name, what, iterations, g.Iter)
	}
	if len(labels) != len(g.Labels) {
		t.Fatalf("%s, %s: %d labels for %d rows", g.Name, what, len(labels), len(g.Labels))
	}
	for i, l := range labels {
		if l != g.Labels[i] {
			t.Errorf("%s, %s: row %d has label %d, scikit-learn %d", g.Name, what, i, l, g.Labels[i])
			break
		}
	}
	tolerance := 1e-9
	if g.DType == "float32" {
		tolerance = 1e-5
	}
	for c := range g.Centers {
		for j := range g.Centers[c] {
			if math.Abs(centers[c][j]-g.Centers[c][j]) > tolerance*(1+math.Abs(g.Centers[c][j])) {
				t.Errorf("%s, %s: center %d is %v, scikit-learn %v", g.Name, what, c, centers[c], g.Centers[c])
				break
			}
		}
	}
}

// together is a world of goroutines: a sum is complete when all ranks have added theirs.
type together struct {
	n    int
	mu   sync.Mutex // guards the fields below
	come []chan [][]float64
	sent [][]float64
}

type rankOf struct {
	*together
	r int
}

func (w rankOf) Rank() (int, int) { return w.r, w.n }

// all returns the values of every rank.
func (w rankOf) all(v []float64) [][]float64 {
	w.mu.Lock()
	c := make(chan [][]float64, 1)
	w.come, w.sent = append(w.come, c), append(w.sent, append([]float64(nil), v...))
	if len(w.come) == w.n {
		for _, c := range w.come {
			c <- w.sent // does not block: one for each rank
		}
		w.come, w.sent = nil, nil
	}
	w.mu.Unlock()
	return <-c
}

func (w rankOf) Sum(_ context.Context, v []float64) error {
	all := w.all(v)
	clear(v)
	for _, x := range all {
		for i, e := range x {
			v[i] += e
		}
	}
	return nil
}

func (w rankOf) Min(_ context.Context, v []float64) error {
	for _, x := range w.all(v) {
		for i, e := range x {
			v[i] = min(v[i], e)
		}
	}
	return nil
}

// alongside runs the algorithm with partitions spread over ranks.
func alongside(t *testing.T, g *golden, nranks, nparts, threads int) ([]result, []int32, error) {
	t.Helper()
	p, err := g.options().params(g.columns())
	if err != nil {
		t.Fatal(err)
	}
	p.Labels = true
	batches := g.batches(nparts)
	in := make([]frame.Parts[arrow.RecordBatch], nranks)
	for i, b := range batches {
		r := (i * 7) % nranks
		in[r].Batches, in[r].Index = append(in[r].Batches, b), append(in[r].Index, i)
	}
	w := &together{n: nranks}
	results, outs, errs := make([]result, nranks), make([][]arrow.RecordBatch, nranks), make([]error, nranks)
	var wg sync.WaitGroup
	for r := range nranks {
		in[r].Total, in[r].Threads = nparts, threads
		wg.Go(func() {
			if g.DType == "float32" {
				outs[r], results[r], errs[r] = run[float32](context.Background(), rankOf{w, r}, in[r], p)
			} else {
				outs[r], results[r], errs[r] = run[float64](context.Background(), rankOf{w, r}, in[r], p)
			}
		})
	}
	wg.Wait()
	parts := make([]arrow.RecordBatch, nparts)
	for r := range nranks {
		if errs[r] != nil {
			return nil, nil, errs[r]
		}
		for i, b := range outs[r] {
			parts[in[r].Index[i]] = b
		}
	}
	var labels []int32
	for _, b := range parts {
		labels = append(labels, b.Column(0).(*array.Int32).Int32Values()...)
	}
	return results, labels, nil
}

// The same labels, centers and inertia as scikit-learn, for any distribution of the rows over partitions, ranks and
// threads.
func TestGolden(t *testing.T) { checkGoldens(t, goldens(t)) }

func checkGoldens(t *testing.T, all []golden) {
	t.Helper()
	for _, g := range all {
		for _, n := range [][3]int{{1, 1, 1}, {1, 3, 2}, {3, 5, 2}, {4, 2, 1}} {
			results, labels, err := alongside(t, &g, n[0], n[1], n[2])
			if err != nil {
				t.Errorf("%s: %v", g.Name, err)
				continue
			}
			for _, r := range results {
				var centers [][]float64
				for c := range g.K {
					centers = append(centers, r.Centers[c*len(g.X):(c+1)*len(g.X)])
				}
				g.check(t, lloyd.Kernel(), centers, labels, r.Inertia, r.Iterations)
			}
		}
	}
}
