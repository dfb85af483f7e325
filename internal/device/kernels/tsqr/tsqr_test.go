package tsqr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// together is a World of goroutines.
type together struct {
	n        int
	mu       sync.Mutex // guards the fields below
	come     []chan [][]float64
	sent     [][]float64
	messages map[[2]int]chan []float64
}

func newTogether(n int) *together {
	w := &together{n: n, messages: map[[2]int]chan []float64{}}
	for from := range n {
		for to := range n {
			w.messages[[2]int{from, to}] = make(chan []float64, 1)
		}
	}
	return w
}

type rankOf struct {
	*together
	r int
}

func (w rankOf) Rank() (int, int) { return w.r, w.n }

// all returns the values of every rank, by rank.
func (w rankOf) all(v []float64) [][]float64 {
	w.mu.Lock()
	c := make(chan [][]float64, 1)
	if w.sent == nil {
		w.sent = make([][]float64, w.n)
	}
	w.come = append(w.come, c)
	w.sent[w.r] = append([]float64(nil), v...)
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

func (w rankOf) Broadcast(_ context.Context, v []float64) error {
	copy(v, w.all(v)[0])
	return nil
}

func (w rankOf) Send(_ context.Context, to int, v []float64) error {
	w.messages[[2]int{w.r, to}] <- append([]float64(nil), v...)
	return nil
}

func (w rankOf) Recv(_ context.Context, from int, v []float64) error {
	if got := <-w.messages[[2]int{from, w.r}]; copy(v, got) != len(got) {
		return fmt.Errorf("got %d numbers, want %d", len(got), len(v))
	}
	return nil
}

// summarize spreads the rows of columns over ranks, in partitions of the given sizes, and returns the result of each
// rank.
func summarize[T Number](t *testing.T, columns [][]T, sizes []int, ranks, threads int, strided bool) ([]*Summary,
	[]error) {
	t.Helper()
	parts := make([][]Part, ranks)
	at := 0
	for i, n := range sizes {
		p := Part{Index: i, Rows: n}
		rows := make([]T, n*len(columns)) // row by row
		for j, c := range columns {
			for r := range n {
				rows[r*len(columns)+j] = c[at+r]
			}
			if strided && n > 0 {
				p.Columns = append(p.Columns, Strided[T]{rows[j:], len(columns)})
			} else {
				p.Columns = append(p.Columns, Slice[T](c[at:at+n]))
			}
		}
		at += n
		r := i * 5 % ranks
		parts[r] = append(parts[r], p)
	}
	w := newTogether(ranks)
	out, errs := make([]*Summary, ranks), make([]error, ranks)
	var wg sync.WaitGroup
	for r := range ranks {
		wg.Go(func() {
			out[r], errs[r] = Summarize(t.Context(), rankOf{w, r}, NewHost(parts[r], len(columns), threads))
		})
	}
	wg.Wait()
	return out, errs
}

// random returns columns of rows around some middles, and the scale of the values.
func random[T Number](rows, d int) [][]T {
	r := rand.New(rand.NewPCG(uint64(rows), uint64(d)))
	out := make([][]T, d)
	for j := range out {
		out[j] = make([]T, rows)
		for i := range out[j] {
			out[j][i] = T(50 + 10*float64(j%3) + 12*r.NormFloat64())
		}
	}
	return out
}

// check compares a summary with sums that are computed one by one.
func check[T Number](t *testing.T, what string, s *Summary, columns [][]T) {
	t.Helper()
	n := len(columns[0])
	if s.Rows != int64(n) {
		t.Errorf("%s: %d rows, want %d", what, s.Rows, n)
	}
	for j, c := range columns {
		var sum float64
		for _, v := range c {
			sum += float64(v)
		}
		if math.Abs(s.Mean[j]-sum/float64(n)) > 1e-12*100 {
			t.Errorf("%s: mean %d is %v, want %v", what, j, s.Mean[j], sum/float64(n))
		}
	}
	d := len(columns)
	for _, centered := range []bool{true, false} {
		r := s.R
		if !centered {
			r = s.Uncentered()
		}
		for j := range d {
			for k := range d {
				var want, got float64
				for i := range n {
					a, b := float64(columns[j][i]), float64(columns[k][i])
					if centered {
						a, b = a-s.Mean[j], b-s.Mean[k]
					}
					want += a * b
				}
				for i := range d {
					got += r.At(i, j) * r.At(i, k)
				}
				if math.Abs(got-want) > 1e-12*(1+1e4*float64(n)) {
					t.Errorf("%s: product of columns %d and %d is %v, want %v (centered: %t)", what, j, k, got,
						want, centered)
				}
				if k < j && r.At(j, k) != 0 {
					t.Errorf("%s: element %d, %d below the diagonal is %v", what, j, k, r.At(j, k))
				}
			}
		}
	}
}

func product[T Number](t *testing.T) {
	t.Helper()
	columns := []int{1, 3}
	if _, ok := any(T(0)).(float64); ok { // the arithmetic is the same for all types
		columns = []int{1, 2, 7, 33}
	}
	for _, d := range columns {
		for _, sizes := range [][]int{{1}, {0, 3, 0}, {40, 1, 2, 0, 9}, {0, 0, 100}, {5, 5, 5, 5, 5, 5}} {
			rows := 0
			for _, n := range sizes {
				rows += n
			}
			columns := random[T](rows, d)
			for _, ranks := range []int{1, 2, 3, 5} {
				var before []float64
				for round := range 2 {
					what := fmt.Sprintf("%d columns, partitions of %v rows, %d ranks", d, sizes, ranks)
					all, errs := summarize(t, columns, sizes, ranks, 3, round == 1)
					for r, s := range all {
						if errs[r] != nil {
							t.Fatalf("%s: %v", what, errs[r])
						}
						got := s.R.Packed()
						for i, v := range got {
							if before != nil && v != before[i] {
								t.Fatalf("%s: rank %d has another result than the first", what, r)
							}
						}
						before = got
					}
					if round == 0 {
						check(t, what, all[0], columns)
					}
				}
			}
		}
	}
}

// TestProduct: every type of numbers, number of columns, distribution of rows and number of ranks has the same sums of
// products; all ranks, and repeated runs, have the same bits.
func TestProduct(t *testing.T) {
	t.Run("float64", product[float64])
	t.Run("float32", product[float32])
	t.Run("int8", product[int8])
	t.Run("int16", product[int16])
	t.Run("int32", product[int32])
	t.Run("int64", product[int64])
	t.Run("uint8", product[uint8])
	t.Run("uint16", product[uint16])
	t.Run("uint32", product[uint32])
	t.Run("uint64", product[uint64])
}

// TestThreads: a table of many tiles and spans, with several threads.
func TestThreads(t *testing.T) {
	columns := random[float64](3*spanRows+17, 3)
	for _, threads := range []int{1, 2, 5, 100} {
		all, errs := summarize(t, columns, []int{spanRows + 1, 0, spanRows - 1, spanRows + 17}, 2, threads, false)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		check(t, fmt.Sprint(threads, " threads"), all[0], columns)
	}
}

// TestErrors: the same error on every rank.
func TestErrors(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		columns [][]float64
		sizes   []int
		want    error
	}{
		{[][]float64{{1, 2, nan}, {1, nan, 3}}, []int{1, 1, 0, 1}, &NotFiniteError{1, 1}},
		{[][]float64{{1, 2, nan}, {1, 2, math.Inf(-1)}}, []int{1, 2}, &NotFiniteError{1, 0}},
		{[][]float64{{math.MaxFloat64, math.MaxFloat64}}, []int{1, 1}, ErrTooLarge},
		{[][]float64{{1e200, -1e200}}, []int{1, 1}, ErrTooLarge},
		{[][]float64{{}}, []int{0, 0}, ErrNoRows},
	} {
		_, errs := summarize(t, c.columns, c.sizes, 3, 2, false)
		for r, err := range errs {
			if err == nil || err.Error() != c.want.Error() {
				t.Errorf("%v: rank %d: got %v, want %v", c.columns, r, err, c.want)
			}
		}
	}
	for _, d := range []int{0, MaxColumns + 1} {
		if _, err := Summarize(t.Context(), rankOf{newTogether(1), 0}, NewHost(nil, d, 1)); err == nil {
			t.Errorf("%d columns are accepted", d)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := NewHost([]Part{{Rows: 2, Columns: []Column{Slice[int8]{1, 2}}}}, 1, 1)
	if _, err := h.Triangle(ctx, []float64{0}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestFromPacked(t *testing.T) {
	r := NewTriangle(3)
	for i := range 5 {
		r.AddRow([]float64{float64(i), 1, float64(i * i)})
	}
	got, err := FromPacked(r.Packed(), 3)
	if err != nil {
		t.Fatal(err)
	}
	for j := range 3 {
		for i := range 3 {
			if got.At(i, j) != r.At(i, j) {
				t.Errorf("element %d, %d is %v, want %v", i, j, got.At(i, j), r.At(i, j))
			}
		}
	}
	for _, d := range []int{-1, 0, 2, 4, math.MaxInt32} {
		if _, err := FromPacked(r.Packed(), d); err == nil {
			t.Errorf("6 numbers are a triangle of %d columns", d)
		}
	}
}
