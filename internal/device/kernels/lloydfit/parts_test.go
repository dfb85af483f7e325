package lloydfit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// alone is a world of one rank, or that of one of several ranks that has all rows.
type alone struct{ at, of int }

func (alone) Sum(context.Context, []float64) error { return nil }
func (alone) Min(context.Context, []float64) error { return nil }
func (w alone) Rank() (int, int)                   { return w.at, max(w.of, 1) }

// model is an engine on rows of a slice, with labels that the test sets.
type model struct {
	Engine
	rows   [][]float64 // partition 0 has all
	labels []int32
	far    []far
	seed   *modelSeeds
	sums   []float64 // result of pass
}

func (m *model) partitions() []partition { return []partition{{0, len(m.rows)}} }
func (m *model) round(v float64) float64 { return v }
func (m *model) farthest(context.Context, []float64, int) ([]far, error) {
	return m.far, nil
}

func (m *model) row(_ context.Context, _, row int, out []float64) (int32, error) {
	copy(out, m.rows[row])
	return m.labels[row], nil
}

func (m *model) seeds(context.Context, []float64, int) (seeds, error) { return m.seed, nil }

// modelSeeds has predefined potentials, with and without each candidate.
type modelSeeds struct {
	pots, left []float64
	kept       []int
	closed     int
}

func (s *modelSeeds) potentials(_ context.Context, out []float64) error {
	copy(out, s.pots)
	return nil
}
func (s *modelSeeds) find(_ context.Context, _ int, value float64) (int, error) {
	return int(value), nil
}
func (s *modelSeeds) try(_ context.Context, _, left []float64) error { copy(left, s.left); return nil }
func (s *modelSeeds) keep(trial int)                                 { s.kept = append(s.kept, trial) }
func (s *modelSeeds) close()                                         { s.closed++ }

// An empty center gets the farthest row, which is removed from its own center: the totals of sums and counts stay the
// same.
func TestRelocate(t *testing.T) {
	rows := [][]float64{{0, 0}, {1, 0}, {10, 0}, {20, 5}}
	for _, c := range []struct {
		what          string
		counts        []float64
		far           []far
		wantCounts    string
		wantSumsOfNew string
	}{
		{"none empty", []float64{2, 1, 1}, nil, "[2 1 1]", "[0 0]"},
		{"one empty", []float64{4, 0, 0}[:2], []far{{400, 0, 3}}, "[3 1]", "[20 5]"},
		{"two empty", []float64{4, 0, 0}, []far{{400, 0, 3}, {100, 0, 2}}, "[2 1 1]", "[20 5]"},
		{"fewer far rows than empty centers", []float64{4, 0, 0}, []far{{400, 0, 3}}, "[3 1 0]", "[20 5]"},
		{"all rows at their center", []float64{4, 0, 0}, []far{{0, 0, 1}}, "[4 0 0]", "[0 0]"},
		{"in another order", []float64{4, 0, 0}, []far{{100, 0, 2}, {400, 0, 3}}, "[2 1 1]", "[20 5]"},
	} {
		m := &model{rows: rows, labels: make([]int32, len(rows)), far: c.far}
		f := &fitter{w: alone{}, e: m, d: 2, shift: []float64{0, 0}}
		k := len(c.counts)
		sums := make([]float64, 2*k)
		for _, r := range rows {
			sums[0] += r[0]
			sums[1] += r[1]
		}
		counts := slices.Clone(c.counts)
		if err := f.relocate(t.Context(), nil, sums, counts); err != nil {
			t.Fatal(err)
		}
		var x, y, n float64
		for i := range k {
			x, y, n = x+sums[2*i], y+sums[2*i+1], n+counts[i]
		}
		if got := fmt.Sprint(counts); got != c.wantCounts || fmt.Sprint(sums[2:4]) != c.wantSumsOfNew || x != 31 ||
			y != 5 || n != 4 {
			t.Errorf("%s: got counts %s, sums %v, want %s, %s and the same totals", c.what, got, sums, c.wantCounts,
				c.wantSumsOfNew)
		}
	}
	// The rows of a rank are minus the shift, and rows of other ranks are left to them.
	m := &model{rows: rows, labels: []int32{0, 0, 0, 1}, far: []far{{400, 0, 3}, {7, 5, 1}}}
	f := &fitter{w: alone{1, 2}, e: m, d: 2, shift: []float64{2, 1}}
	sums, counts := make([]float64, 6), []float64{3, 1, 0}
	if err := f.relocate(t.Context(), nil, sums, counts); err != nil || fmt.Sprint(sums) != "[0 0 -18 -4 18 4]" ||
		fmt.Sprint(counts) != "[3 0 1]" {
		t.Errorf("with a shift: got %v, %v, %v, want [0 0 -18 -4 18 4], [3 0 1]", sums, counts, err)
	}
}

func (m *model) pass(_ context.Context, _, _, all []float64) error { copy(all, m.sums); return nil }

// A center that has no row and gets none is moved to the center with the most rows.
func TestEmptyCenters(t *testing.T) {
	for _, c := range []struct {
		sums []float64 // of three centers, then their counts and how many labels have changed
		want string
	}{
		{[]float64{6, 8, 0, 3, 1, 0, 2}, "[2 8 2]"}, {[]float64{6, 8, 0, 1, 4, 0, 2}, "[6 2 2]"},
		{[]float64{0, 8, 0, 0, 4, 0, 2}, "[2 2 2]"}, {[]float64{6, 8, 4, 3, 1, 2, 2}, "[2 8 2]"},
	} {
		m := &model{sums: c.sums}
		f := &fitter{w: alone{}, e: m, d: 1, p: Params{K: 3}, shift: []float64{0}, centers: []float64{0, 0, 0}}
		changed, moved, err := f.iterate(t.Context(), true)
		var want float64
		for _, v := range f.centers {
			want += v * v
		}
		if err != nil || changed != 2 || moved != want || fmt.Sprint(f.centers) != c.want {
			t.Errorf("sums %v: got centers %v, moved %v, changed %v, %v, want %s", c.sums, f.centers, moved, changed,
				err, c.want)
		}
	}
}

// The farthest rows are ordered; among equally far ones by partition and row.
func TestAmong(t *testing.T) {
	all := []far{{1, 0, 0}, {5, 0, 1}, {3, 0, 2}, {5, 1, 0}, {5, 0, 3}, {0, 2, 0}, {9, 3, 3}}
	want := slices.Clone(all)
	slices.SortFunc(want, byDistance)
	if want[0] != (far{9, 3, 3}) || want[1] != (far{5, 0, 1}) || want[2] != (far{5, 0, 3}) || want[3] != (far{5, 1,
		0}) {
		t.Errorf("got order %v", want)
	}
	for n := 1; n <= len(all)+1; n++ {
		for _, backward := range []bool{false, true} {
			var got []far
			for i := range all {
				if backward {
					i = len(all) - 1 - i
				}
				got = among(got, all[i], n)
			}
			if !slices.Equal(got, want[:min(n, len(want))]) {
				t.Errorf("%d farthest: got %v, want %v", n, got, want[:min(n, len(want))])
			}
		}
	}
}

// Among the candidates of k-means++ that with the lowest potential is kept, the first of equal ones.
func TestPlusPlusTakesTheBest(t *testing.T) {
	for _, c := range []struct {
		left []float64
		want int
	}{{[]float64{3, 2}, 1}, {[]float64{1, 2}, 0}, {[]float64{2, 2}, 0}, {[]float64{5, 0}, 1}} {
		s := &modelSeeds{pots: []float64{4}, left: c.left}
		m := &model{rows: [][]float64{{0}, {1}, {2}, {3}}, labels: make([]int32, 4), seed: s}
		f := &fitter{w: alone{}, e: m, d: 1, total: 1, rows: 4, p: Params{K: 2}}
		if err := f.plusPlus(t.Context(), []float64{4}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(s.kept) != fmt.Sprint([]int{c.want}) || s.closed != 1 || len(f.centers) != 2 {
			t.Errorf("left %v: kept %v, closed %d times, want %d and once", c.left, s.kept, s.closed, c.want)
		}
	}
	s := &modelSeeds{pots: []float64{math.NaN()}, left: []float64{0, 0}}
	m := &badModel{model{rows: [][]float64{{0}, {1}}, labels: make([]int32, 2), seed: s}, 0}
	f := &fitter{w: alone{}, e: m, d: 1, total: 1, rows: 2, p: Params{K: 2}}
	if err := f.plusPlus(t.Context(), []float64{2}); err == nil || !strings.Contains(err.Error(), `column 0`) ||
		s.closed != 1 {
		t.Errorf("a NaN: got %v, closed %d times, want the column and once", err, s.closed)
	}
}

type badModel struct {
	model
	at int
}

func (m *badModel) bad(context.Context) (int, error) { return m.at, nil }

// A sum that is not finite is caused by a value, or by numbers whose squares are too large.
func TestFinite(t *testing.T) {
	for _, c := range []struct {
		sum  float64
		at   int
		want string
	}{
		{1, 0, ""}, {0, -1, ""}, {math.NaN(), 0, `partition 0: column 0`}, {math.Inf(1), 5,
			`partition 2: column 1`},
		{math.Inf(-1), 4, `partition 2: column 0`}, {math.Inf(1), -1, "their squares are not finite"},
	} {
		f := &fitter{w: alone{}, e: &badModel{at: c.at}, d: 2}
		err := f.finite(t.Context(), c.sum)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, bad at %d: got %v, want %q", c.sum, c.at, err, c.want)
		}
	}
}

// A candidate is the row at which the potential reaches a value, summed through the partitions.
func TestCandidate(t *testing.T) {
	rows := [][]float64{{10}, {11}, {12}, {13}}
	for _, c := range []struct {
		value float64
		pots  []float64
		want  float64 // 0 if another rank has it
	}{
		{0, []float64{3}, 10}, {2, []float64{3}, 12}, {3, []float64{3}, 13}, {3.5, []float64{3, 0}, 13},
		{4, []float64{3, 2}, 0}, {3, []float64{3, 2}, 13}, {1, []float64{0, 2}, 0},
	} {
		f := &fitter{w: alone{}, e: &model{rows: rows, labels: make([]int32, 4)}, d: 1}
		out := []float64{0}
		if err := f.candidate(t.Context(), new(modelSeeds), c.value, c.pots, out); err != nil || out[0] != c.want {
			t.Errorf("%v of %v: got %v, %v, want %v", c.value, c.pots, out[0], err, c.want)
		}
	}
}

// The generator is that of numpy: RandomState(seed).random_sample().
func TestMT19937(t *testing.T) {
	for seed, want := range map[uint32][]float64{
		0:  {0.5488135039273248, 0.7151893663724195, 0.6027633760716439},
		42: {0.3745401188473625, 0.9507143064099162, 0.7319939418114051},
	} {
		m := newMT19937(seed)
		for i, w := range want {
			if got := m.float(); got != w {
				t.Errorf("seed %d, number %d: got %v, want %v", seed, i, got, w)
			}
		}
		for range 1000 { // beyond the first 624 words
			if v := m.float(); v < 0 || v >= 1 {
				t.Fatalf("got %v, want a number from 0 to 1", v)
			}
		}
	}
}

// The origin of the sums is the mean of the centers.
func TestShift(t *testing.T) {
	if got := shiftOf(&model{}, []float64{0, 10, 2, 20, 7, 30}, 2); fmt.Sprint(got) != "[3 20]" {
		t.Errorf("got %v, want [3 20]", got)
	}
	if got := shiftOf(&model{}, []float64{5}, 1); fmt.Sprint(got) != "[5]" {
		t.Errorf("one center: got %v, want [5]", got)
	}
}
