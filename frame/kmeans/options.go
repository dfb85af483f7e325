package kmeans

import (
	"fmt"

	"go.millstream.dev/clique"
)

// Defaults of Options: scikit-learn's.
const (
	DefaultK       = 8
	DefaultMaxIter = 300
	DefaultTol     = 1e-4
)

// Options say what to look for. The zero value is useful.
type Options struct {
	// K is the number of groups (default DefaultK).
	K int
	// Columns are those that count, all numbers (default: all columns). Columns that are all
	// float32 are worked on as such, others as float64.
	Columns []string
	// Init are the centres to begin with, K of them (default: k-means++).
	Init [][]float64
	// Seed is that of k-means++: scikit-learn's random_state, with the same centres.
	Seed uint32
	// MaxIter bounds the iterations (default DefaultMaxIter).
	MaxIter int
	// Tol ends the iterations when the squared moves of the centres add up to no more than it
	// times the mean variance of the columns (default DefaultTol; negative: only when no label
	// changes).
	Tol float64
	// Clique is that of the workers (default: formed for the fit, of those that have
	// partitions).
	Clique *clique.Clique
	// Form are the options of the clique that is formed.
	Form clique.Options
}

// params is what travels to the ranks.
type params struct {
	K, MaxIter int
	Tol        float64
	Columns    []string
	Init       []float64 // row by row; empty: k-means++
	Seed       uint32
	Labels     bool
}

func (o Options) params(columns []string) (params, error) {
	p := params{K: o.K, MaxIter: o.MaxIter, Tol: o.Tol, Columns: columns, Seed: o.Seed}
	if p.K == 0 {
		if p.K = DefaultK; len(o.Init) > 0 {
			p.K = len(o.Init)
		}
	}
	if p.MaxIter == 0 {
		p.MaxIter = DefaultMaxIter
	}
	switch {
	case p.Tol == 0:
		p.Tol = DefaultTol
	case p.Tol < 0:
		p.Tol = 0
	}
	const most = 1 << 20
	switch {
	case p.K < 1 || p.K > most:
		return p, fmt.Errorf("kmeans: %d groups: there must be between 1 and %d", p.K, most)
	case p.MaxIter < 1:
		return p, fmt.Errorf("kmeans: %d iterations: there must be one at least", p.MaxIter)
	case len(columns) == 0:
		return p, fmt.Errorf("kmeans: there is no column")
	case len(o.Init) > 0 && len(o.Init) != p.K:
		return p, fmt.Errorf("kmeans: there are %d initial centres for %d groups", len(o.Init), p.K)
	}
	for i, c := range o.Init {
		if len(c) != len(columns) {
			return p, fmt.Errorf("kmeans: initial centre %d has %d coordinates and there are %d columns", i, len(c),
				len(columns))
		}
		p.Init = append(p.Init, c...)
	}
	return p, nil
}
