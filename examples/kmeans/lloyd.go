package main

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
)

const (
	dims          = 2
	maxIterations = 100
	tolerance     = 1e-9 // of the squared move of all centers
)

// Points are points of the plane, one after the other.
type Points []float64

// Model is the result of a fit.
type Model struct {
	Centers    [][dims]float64
	Inertia    float64 // sum of the squared distances to the nearest centers
	Points     int64
	Iterations int
}

// truth are the centers around which points are made.
var truth = [][dims]float64{{-4, -4}, {0, 5}, {6, 0}}

var (
	// generate makes the points of a part; a real program would read a file.
	generate = client.Func2("kmeans.generate", func(_ context.Context, part uint64, n int) (Points, error) {
		r := rand.New(rand.NewPCG(part, 1))
		points := make(Points, 0, n*dims)
		for i := range n {
			for _, x := range truth[i%len(truth)] {
				points = append(points, x+1.2*r.NormFloat64())
			}
		}
		return points, nil
	})
	// fit runs on all ranks at the same time, each with its own points.
	fit = clique.Func("kmeans.fit", func(ctx context.Context, r *clique.Rank, points Points) (Model, error) {
		m := Model{Centers: make([][dims]float64, len(truth))}
		// The first points of rank 0 are the initial centers of all ranks.
		first := make([]float64, len(m.Centers)*dims)
		if r.Rank() == 0 {
			copy(first, points)
		}
		if err := r.Do(ctx, clique.Broadcast(clique.Of(first), 0)); err != nil {
			return m, err
		}
		for i := range m.Centers {
			copy(m.Centers[i][:], first[i*dims:])
		}
		for m.Iterations < maxIterations {
			m.Iterations++
			sums := assign(points, m.Centers)
			// One all-reduce: sums and sizes of all groups, and the inertia.
			if err := r.Do(ctx, clique.AllReduce(clique.Of(sums), clique.Of(sums), clique.Sum)); err != nil {
				return m, err
			}
			// Every rank computes the same move from the same sums, and all of them end in the same iteration.
			if m.move(sums) <= tolerance {
				break
			}
		}
		slices.SortFunc(m.Centers, func(a, b [dims]float64) int { return cmp.Compare(a[0], b[0]) })
		return m, nil
	})
)

// assign adds each point to the group of its nearest center. It returns for each group the sums of its coordinates and
// its number of points, then the inertia.
func assign(points Points, centers [][dims]float64) []float64 {
	sums := make([]float64, len(centers)*(dims+1)+1)
	for at := 0; at < len(points); at += dims {
		p := points[at : at+dims]
		nearest, best := 0, math.Inf(1)
		for i, c := range centers {
			if d := (p[0]-c[0])*(p[0]-c[0]) + (p[1]-c[1])*(p[1]-c[1]); d < best {
				nearest, best = i, d
			}
		}
		group := sums[nearest*(dims+1):]
		group[0] += p[0]
		group[1] += p[1]
		group[dims]++
		sums[len(sums)-1] += best
	}
	return sums
}

// move sets the centers to the means of their groups and returns the sum of the squared moves. A group without points
// keeps its center.
func (m *Model) move(sums []float64) float64 {
	m.Points, m.Inertia = 0, sums[len(sums)-1]
	moved := 0.0
	for i := range m.Centers {
		group := sums[i*(dims+1) : (i+1)*(dims+1)]
		n := group[dims]
		m.Points += int64(n)
		if n == 0 {
			continue
		}
		for d := range dims {
			x := group[d] / n
			moved += (x - m.Centers[i][d]) * (x - m.Centers[i][d])
			m.Centers[i][d] = x
		}
	}
	return moved
}
