package pca

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/internal/tall"
)

// Options specifies a fit. The zero value is useful.
type Options struct {
	// Components is the number of components (default: as many as rows or columns, whichever are fewer).
	Components int
	// Columns are the columns of the fit, which must be numbers (default: all columns). The computation is in float64.
	Columns []string
	// Uncentered decomposes the rows themselves, as TruncatedSVD of scikit-learn does, not the rows minus the means.
	Uncentered bool
	// Clique is the clique of the workers (default: formed for the fit, of those that have partitions).
	Clique *clique.Clique
	// Form are the options of the clique that is formed for the fit.
	Form clique.Options
}

// Model is the result of a fit. The comments name the attributes of scikit-learn.
type Model struct {
	// Columns are the columns of the fit, Mean their means (mean_), which are zero for an uncentered fit.
	Columns []string
	Mean    []float64
	// Components are the directions, of length one and orthogonal to each other, with an element for each column
	// (components_). The element with the largest absolute value is positive.
	Components [][]float64
	// SingularValues are those of the components, in decreasing order (singular_values_).
	SingularValues []float64
	// ExplainedVariance is the variance of the rows along each component: of a sample, or for an uncentered fit of a
	// population (explained_variance_). ExplainedVarianceRatio divides it by the variance of all columns
	// (explained_variance_ratio_).
	ExplainedVariance, ExplainedVarianceRatio []float64
	// NoiseVariance is the mean variance along the directions that were left out (noise_variance_).
	NoiseVariance float64
	// Rows is the number of rows of the frame (n_samples_).
	Rows int64
}

// Fit finds the components of a frame. On a frame on devices the rows are reduced by kernels on the devices that have
// the partitions.
func Fit(ctx context.Context, f *frame.Frame, opts Options) (*Model, error) {
	columns := slices.Clone(opts.Columns)
	if len(columns) == 0 {
		columns = tall.Names(f.Schema())
	}
	if opts.Components < 0 || opts.Components > len(columns) {
		return nil, fmt.Errorf("pca: %d components of %d columns; use between 1 and %d, or 0 for all", opts.Components,
			len(columns), len(columns))
	}
	s, err := tall.Summarize(ctx, f, columns, tall.Options{Clique: opts.Clique, Form: opts.Form})
	if err != nil {
		return nil, fmt.Errorf("pca: %w", err)
	}
	k := opts.Components
	if k == 0 {
		k = int(min(int64(len(columns)), s.Rows))
	}
	switch {
	case int64(k) > s.Rows:
		return nil, fmt.Errorf("pca: %d components of %d rows; use at most %d", k, s.Rows, s.Rows)
	case !opts.Uncentered && s.Rows < 2:
		return nil, fmt.Errorf("pca: %d row has no variance; use at least two", s.Rows)
	}
	c := s.Components(k, !opts.Uncentered)
	m := &Model{Columns: columns, Mean: s.Mean, Components: c.Vectors, SingularValues: c.Values,
		ExplainedVariance: c.Variance, ExplainedVarianceRatio: c.Ratio, NoiseVariance: c.Noise, Rows: s.Rows}
	if opts.Uncentered {
		m.Mean = make([]float64, len(columns))
	}
	return m, nil
}

// Transform returns the coordinates of every row along the components: a frame of the columns pc0, pc1, … with the same
// partitions in the same location, of float32 if all columns are, otherwise of float64. The frame must have the columns
// of the model, and may have others.
func (m *Model) Transform(ctx context.Context, f *frame.Frame) (*frame.Frame, error) {
	p := tall.Product{Columns: m.Columns, Mean: m.Mean, Add: make([]float64, len(m.Components))}
	for i, c := range m.Components {
		if len(c) != len(m.Columns) {
			return nil, fmt.Errorf("pca: component %d has %d elements for %d columns", i, len(c), len(m.Columns))
		}
		p.Names = append(p.Names, fmt.Sprintf("pc%d", i))
		p.Weights = append(p.Weights, c...)
	}
	out, err := tall.Multiply(ctx, f, p)
	if err != nil {
		return nil, fmt.Errorf("pca: %w", err)
	}
	return out, nil
}
