package kmeans

import (
	"errors"
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/device/kernels/lloydfit"
)

// Defaults of Options, as in scikit-learn.
const (
	DefaultK       = 8
	DefaultMaxIter = 300
	DefaultTol     = 1e-4
)

// Options specifies a fit. The zero value is useful.
type Options struct {
	// K is the number of groups (default DefaultK).
	K int
	// Columns are the columns of the fit, which must be numbers (default: all columns). If all are float32 the fit uses
	// float32, otherwise float64.
	Columns []string
	// Init are the K initial centers (default: k-means++).
	Init [][]float64
	// Seed is the seed of k-means++: random_state of scikit-learn, with the same centers.
	Seed uint32
	// MaxIter bounds the iterations (default DefaultMaxIter).
	MaxIter int
	// Tol ends the iterations when the sum of the squared moves of the centers is at most Tol times the mean variance
	// of the columns (default DefaultTol; negative: only when no label changes).
	Tol float64
	// Clique is the clique of the workers (default: formed for the fit, of those that have partitions).
	Clique *clique.Clique
	// Form are the options of the clique that is formed for the fit.
	Form clique.Options
}

// params are the parameters that are sent to the ranks.
type params struct {
	K, MaxIter int
	Tol        float64
	Columns    []string
	Init       []float64 // row by row; empty for k-means++
	Seed       uint32
	Labels     bool
}

// fit returns the parameters of the algorithm.
func (p params) fit() lloydfit.Params {
	return lloydfit.Params{K: p.K, MaxIter: p.MaxIter, Tol: p.Tol, Init: p.Init, Seed: p.Seed}
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
		return p, fmt.Errorf("kmeans: %d groups; use between 1 and %d", p.K, most)
	case p.MaxIter < 1:
		return p, fmt.Errorf("kmeans: %d iterations; use at least one", p.MaxIter)
	case len(columns) == 0:
		return p, errors.New("kmeans: no columns")
	case len(o.Init) > 0 && len(o.Init) != p.K:
		return p, fmt.Errorf("kmeans: %d initial centers for %d groups", len(o.Init), p.K)
	}
	for i, c := range o.Init {
		if len(c) != len(columns) {
			return p, fmt.Errorf("kmeans: initial center %d has %d coordinates for %d columns", i, len(c),
				len(columns))
		}
		p.Init = append(p.Init, c...)
	}
	return p, nil
}
