package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/internal/device/kernels/tsqr"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience is how long a test waits for something that must come.
const patience = 5 * time.Minute

// formed returns the members of a clique.
func formed(t *testing.T, n int) []*member.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	var members []*member.Member
	var contacts []string
	for i := range n {
		m, text, err := member.Open(ctx, member.Config{ID: "learn", Name: fmt.Sprint("a", i), Backend: clique.Comm,
			Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		members, contacts = append(members, m), append(contacts, text)
	}
	ticket, err := member.Ticket(contacts)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range each(members, func(_ int, m *member.Member) error { return m.Join(ctx, ticket) }) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// each calls f for all members at once and returns their errors.
func each(members []*member.Member, f func(i int, m *member.Member) error) []error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = f(i, m) })
	}
	all.Wait()
	return errs
}

// kept are the slices whose addresses at has returned: an address keeps no memory alive.
var kept sync.Map

func at[T any](s []T) uintptr {
	p := unsafe.SliceData(s)
	kept.Store(p, struct{}{})
	return uintptr(unsafe.Pointer(p))
}

// golden is a result of scikit-learn, of the tests of frame/kmeans.
type golden struct {
	Name    string
	DType   string
	K       int
	Seed    uint32
	MaxIter int `json:"max_iter"`
	Tol     float64
	X       [][]float64 // column by column
	Init    [][]float64
	Centers [][]float64
	Labels  []int32
	Inertia float64
	Iter    int `json:"iterations"`
}

func goldens(t *testing.T) []golden {
	t.Helper()
	b, err := os.ReadFile("../../../../frame/kmeans/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []golden }
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	return file.Cases
}

// tables spreads columns over ranks, in parts of some sizes and one of the rest, and returns the labels of each part.
func tables[T lloyd.Float](columns [][]float64, ranks int, sizes ...int) ([]Table, [][]int32) {
	out := make([]Table, ranks)
	var labels [][]int32
	from := 0
	for i, n := range append(sizes, len(columns[0])) {
		n = min(n, len(columns[0])-from)
		stride := n + i%3 // columns need not be adjacent
		data := make([]T, stride*len(columns)+1)
		for j, c := range columns {
			for r := range n {
				data[j*stride+r] = T(c[from+r])
			}
		}
		from += n
		l := make([]int32, n+1)
		labels = append(labels, l[:n])
		r := i * 2 % ranks
		out[r].Parts = append(out[r].Parts, Part{at(data), uint64(n), uint64(stride), uint64(i), at(l)})
	}
	for r := range out {
		out[r].Kind, out[r].Columns, out[r].Total, out[r].Threads = clique.KindOf[T](), len(columns), len(sizes)+1, r
		out[r].Host = r%2 == 0
	}
	return out, labels
}

// TestKMeans: fits on arrays of ranks, also of ranks without arrays and with empty ones, are those of scikit-learn.
func TestKMeans(t *testing.T) {
	for _, ranks := range []int{1, 4} {
		members := formed(t, ranks)
		for _, g := range goldens(t) {
			var in []Table
			var labels [][]int32
			if g.DType == "float32" {
				in, labels = tables[float32](g.X, ranks, 7, 0, 30)
			} else {
				in, labels = tables[float64](g.X, ranks, 7, 0, 30)
			}
			o := KMeans{K: g.K, MaxIter: g.MaxIter, Tol: g.Tol, Seed: g.Seed}
			for _, c := range g.Init {
				o.Centers = append(o.Centers, c...)
			}
			var centers []float64
			for i, err := range each(members, func(i int, m *member.Member) error {
				out, err := Fit(m, in[i], o)
				if err != nil {
					return err
				}
				// Without a tolerance the last iterations depend on the order of sums.
				same := out.Iterations == g.Iter || g.Tol == 0 && g.MaxIter == 300
				if math.Abs(out.Inertia-g.Inertia) > 1e-6*g.Inertia || !same {
					return fmt.Errorf("inertia %v after %d iterations, want %v after %d", out.Inertia, out.Iterations,
						g.Inertia, g.Iter)
				}
				if i == 0 {
					centers = out.Centers
				}
				return nil
			}) {
				if err != nil {
					t.Fatalf("%s, rank %d of %d: %v", g.Name, i, ranks, err)
				}
			}
			var got []int32
			for _, l := range labels {
				got = append(got, l...)
			}
			if fmt.Sprint(got) != fmt.Sprint(g.Labels) {
				t.Errorf("%s, %d ranks: labels %v, want %v", g.Name, ranks, got, g.Labels)
			}
			for c, want := range g.Centers {
				for j, w := range want {
					if math.Abs(centers[c*len(want)+j]-w) > 1e-5*(1+math.Abs(w)) {
						t.Errorf("%s: center %d, column %d: got %v, want %v", g.Name, c, j, centers[c*len(want)+j], w)
					}
				}
			}
			for _, l := range labels {
				clear(l)
			}
			for _, x := range in {
				if err := Predict(t.Context(), x, centers); err != nil {
					t.Fatal(err)
				}
			}
			got = got[:0]
			for _, l := range labels {
				got = append(got, l...)
			}
			if g.Name == "given centers" && fmt.Sprint(got) != fmt.Sprint(g.Labels) {
				t.Errorf("%s: predicted %v, want %v", g.Name, got, g.Labels)
			}
		}
	}
}

// TestTall: the reduction of arrays of ranks is that of one table.
func TestTall(t *testing.T) {
	x := goldens(t)[0].X
	members := formed(t, 3)
	in, _ := tables[float64](x, 3, 1, 100, 0)
	one := tsqr.Part{Rows: len(x[0])}
	for _, c := range x {
		one.Columns = append(one.Columns, tsqr.Slice[float64](c))
	}
	want := tsqr.NewTriangle(len(x))
	for i, err := range each(members, func(i int, m *member.Member) error {
		s, err := Summarize(m, in[i])
		if err != nil {
			return err
		}
		if s.Rows != int64(len(x[0])) {
			return fmt.Errorf("%d rows, want %d", s.Rows, len(x[0]))
		}
		if i == 0 {
			want, err = tsqr.NewHost([]tsqr.Part{one}, len(x), 1).Triangle(t.Context(), s.Mean)
			if err != nil {
				return err
			}
			for k, v := range want.SVD().Values {
				if got := s.R.SVD().Values[k]; math.Abs(got-v) > 1e-12*v {
					return fmt.Errorf("singular value %d is %v, want %v", k, got, v)
				}
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// TestInvalid: invalid or different arguments of one rank, and values that cannot be fitted, are an error on every
// rank, and the ranks can go on.
func TestInvalid(t *testing.T) {
	members := formed(t, 2)
	x := [][]float64{{1, 2, 3, 4}, {5, 6, 7, 9}}
	for _, c := range []struct {
		want   string
		change func(t *Table, o *KMeans)
	}{
		{"element type 4", func(t *Table, _ *KMeans) { t.Kind = clique.KindOf[int64]() }},
		{"0 columns", func(t *Table, _ *KMeans) { t.Columns = 0 }},
		{"parts of 0", func(t *Table, _ *KMeans) { t.Total = 0 }},
		{"index 9 of 3", func(t *Table, _ *KMeans) { t.Parts[0].Index = 9 }},
		{"stride of 0", func(t *Table, _ *KMeans) { t.Parts[0].Stride = 0 }},
		{"null pointer", func(t *Table, _ *KMeans) { t.Parts[0].Data = 0 }},
		{"not aligned", func(t *Table, _ *KMeans) { t.Parts[0].Data++ }},
		{"no memory for labels", func(t *Table, _ *KMeans) { t.Parts[0].Labels = 0 }},
		{"0 clusters", func(_ *Table, o *KMeans) { o.K = 0 }},
		{"0 iterations", func(_ *Table, o *KMeans) { o.MaxIter = 0 }},
		{"tolerance NaN", func(_ *Table, o *KMeans) { o.Tol = math.NaN() }},
		{"3 coordinates", func(_ *Table, o *KMeans) { o.Centers = []float64{1, 2, 3} }},
		{"not finite", func(_ *Table, o *KMeans) { o.Centers = []float64{1, 2, 3, math.Inf(1)} }},
		{"from 2 to 3", func(_ *Table, o *KMeans) { o.K = 3 }},
		{"from 5 to 6", func(_ *Table, o *KMeans) { o.MaxIter = 6 }},
		{"from 0 to 1", func(_ *Table, o *KMeans) { o.Centers = []float64{1, 2, 3, 4} }},
	} {
		in, _ := tables[float64](x, 2, 2, 1)
		for i, err := range each(members, func(i int, m *member.Member) error {
			o := KMeans{K: 2, MaxIter: 5}
			if i == 0 {
				c.change(&in[i], &o)
			}
			_, err := Fit(m, in[i], o)
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("rank %d: got %v, want %q", i, err, c.want)
			}
		}
	}
	for want, x := range map[string][][]float64{
		"cannot divide 1 rows into 2 groups":            {{1}},
		"partition 1: column 1 has a value that is not": {{1, 2, 3}, {4, 5, math.NaN()}},
	} {
		in, _ := tables[float64](x, 2, 2)
		for i, err := range each(members, func(i int, m *member.Member) error {
			_, err := Fit(m, in[i], KMeans{K: 2, MaxIter: 5})
			return err
		}) {
			if !errors.Is(err, member.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: got %v, want %q", i, err, want)
			}
		}
	}
	in, _ := tables[float64]([][]float64{{}}, 2)
	for i, err := range each(members, func(i int, m *member.Member) error {
		_, err := Summarize(m, in[i])
		return err
	}) {
		if !errors.Is(err, member.ErrInvalid) || !strings.Contains(err.Error(), "no rows") {
			t.Errorf("rank %d: got %v, want no rows", i, err)
		}
	}
	if err := Predict(t.Context(), in[0], nil); !errors.Is(err, member.ErrInvalid) {
		t.Errorf("no centers: got %v, want %v", err, member.ErrInvalid)
	}
}
