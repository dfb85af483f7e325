package lloyd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func random[T Float](r *rand.Rand, n, d int, middle float64) [][]T {
	out := make([][]T, d)
	for j := range out {
		out[j] = make([]T, n)
		for i := range out[j] {
			out[j][i] = T(middle + r.NormFloat64())
		}
	}
	return out
}

// nearest is the plain way, in double precision: labels, and by how much the second is farther.
func nearest[T Float](columns [][]T, centers []T) (labels []int32, margin []float64) {
	d := len(columns)
	for i := range columns[0] {
		best, second, at := math.Inf(1), math.Inf(1), 0
		for c := range len(centers) / d {
			var sum float64
			for j := range d {
				e := float64(columns[j][i]) - float64(centers[c*d+j])
				sum += e * e
			}
			switch {
			case sum < best:
				best, second, at = sum, best, c
			case sum < second:
				second = sum
			}
		}
		labels, margin = append(labels, int32(at)), append(margin, second-best)
	}
	return labels, margin
}

func testPass[T Float](t *testing.T, tolerance float64) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []int{1, 2, 3, 17, 32} {
		for _, k := range []int{1, 2, 3, 8, 9, 31} {
			for _, n := range []int{1, 7, 31, 512, 513, 1500} {
				columns := random[T](r, n, d, 100)
				labels := make([]int32, n)
				for i := range labels {
					labels[i] = -1
				}
				sums, counts := make([]float64, k*d), make([]int64, k)
				shift := make([]T, d)
				for j := range shift {
					shift[j] = 100
				}
				// Two passes: the second moves rows from center to center.
				for pass := range 2 {
					centers := make([]T, k*d)
					for i := range centers {
						centers[i] = T(100 + r.NormFloat64())
					}
					before := append([]int32(nil), labels...)
					changed := Pass(columns, centers, shift, labels, sums, counts)
					want, margin := nearest(columns, centers)
					name := fmt.Sprintf("%s, %d rows, %d features, %d centers, pass %d", Kernel(), n, d, k, pass)
					moved, wantSums, wantCounts := 0, make([]float64, k*d), make([]int64, k)
					for i, l := range labels {
						if l != want[i] && margin[i] > tolerance {
							t.Fatalf("%s: row %d has label %d, want %d", name, i, l, want[i])
						}
						if l != before[i] {
							moved++
						}
						wantCounts[l]++
						for j := range d {
							wantSums[int(l)*d+j] += float64(columns[j][i]) - 100
						}
					}
					if moved != changed {
						t.Errorf("%s: %d labels have changed, not %d", name, moved, changed)
					}
					for c := range counts {
						if counts[c] != wantCounts[c] {
							t.Errorf("%s: counts %v, want %v", name, counts, wantCounts)
							break
						}
					}
					for i := range sums {
						if math.Abs(sums[i]-wantSums[i]) > 1e-8 {
							t.Errorf("%s: sum %d is %v, want %v", name, i, sums[i], wantSums[i])
							break
						}
					}
					var inertia float64
					dist := make([]float64, n)
					for c := range k {
						Distances(columns, centers[c*d:(c+1)*d], dist)
						for i, l := range labels {
							if int(l) == c {
								inertia += dist[i]
							}
						}
					}
					if got := Inertia(columns, centers, labels); math.Abs(got-inertia) > 1e-9*(1+inertia) {
						t.Errorf("%s: inertia %v, want %v", name, got, inertia)
					}
				}
			}
		}
	}
}

func TestGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	columns := random[float64](r, 1300, 5, 0)
	centers := []float64{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, -1, 0, -1, 0, -1}
	ours, theirs := make([]int32, 1300), make([]int32, 1300)
	for i := range ours {
		ours[i], theirs[i] = -1, -1
	}
	s1, s2, c1, c2 := make([]float64, 15), make([]float64, 15), make([]int64, 3), make([]int64, 3)
	shift := make([]float64, 5)
	if a, b := Pass(columns, centers, shift, ours, s1, c1), passGo(columns, centers, shift, theirs, s2, c2); a != b ||
		a != 1300 {
		t.Errorf("%d and %d labels have changed", a, b)
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Fatalf("row %d: %d in %s and %d in Go", i, ours[i], Kernel(), theirs[i])
		}
	}
	if c1[0] != c2[0] || c1[1] != c2[1] || math.Abs(s1[7]-s2[7]) > 1e-9 {
		t.Errorf("sums %v and %v", s1, s2)
	}
	turned := []float64{0, 1, -1, 0, 1, 0, 0, 1, -1, 0, 1, 0, 0, 1, -1}
	if a, b := Inertia(columns, centers, ours), inertiaGo(columns, turned, 3, ours); math.Abs(a-b) > 1e-9*a {
		t.Errorf("inertia %v and %v", a, b)
	}
	d1, d2 := make([]float64, 1300), make([]float64, 1300)
	Distances(columns, centers[:5], d1)
	distancesGo(columns, centers[:5], d2)
	for i := range d1 {
		if math.Abs(d1[i]-d2[i]) > 1e-12*(1+d2[i]) {
			t.Fatalf("distance %v and %v", d1[i], d2[i])
		}
	}
	if at := Finite(columns); at != -1 {
		t.Errorf("column %d is not finite", at)
	}
	columns[3][77] = math.NaN()
	if at := Finite(columns); at != 3 {
		t.Errorf("column %d is not finite", at)
	}
	for name, f := range map[string]func(){
		"labels":  func() { Pass(columns, centers, shift, ours[1:], nil, nil) },
		"centers": func() { Pass(columns, centers[1:], shift, ours, nil, nil) },
		"counts":  func() { Pass(columns, centers, shift, ours, s1, c1[1:]) },
		"point":   func() { Distances(columns, centers, d1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("wrong %s are taken", name)
				}
			}()
			f()
		}()
	}
}
