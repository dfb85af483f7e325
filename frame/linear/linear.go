package linear

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/internal/tall"
	"go.millstream.dev/internal/device/kernels/tsqr"
)

// defaultCutoff is the default of Options.Cutoff, that of scikit-learn.
const defaultCutoff = 1e-6

// Options specifies a fit. Target is required.
type Options struct {
	// Target is the column that the model predicts.
	Target string
	// Columns are the columns that it is predicted from (default: all others). They and Target must be numbers. The
	// computation is in float64.
	Columns []string
	// NoIntercept omits the constant of the model.
	NoIntercept bool
	// Ridge is the weight of the squares of the coefficients (alpha of scikit-learn; default 0: ordinary least
	// squares). The intercept has none.
	Ridge float64
	// Cutoff is the ratio to the largest singular value of the columns up to which others count as zero: directions in
	// which the columns nearly depend on each other get no coefficients (tol of scikit-learn; default 1e-6,
	// negative: none). With a Ridge it only determines Rank.
	Cutoff float64
	// Clique is the clique of the workers (default: formed for the fit, of those that have partitions).
	Clique *clique.Clique
	// Form are the options of the clique that is formed for the fit.
	Form clique.Options
}

// Model is the result of a fit. The comments name the attributes of scikit-learn.
type Model struct {
	// Columns are the columns of the fit, Target the column that is predicted.
	Columns []string
	Target  string
	// Coefficients has one coefficient for each of Columns (coef_), the solution of least norm if the columns are
	// linearly dependent. Intercept is the constant (intercept_).
	Coefficients []float64
	Intercept    float64
	// Rank is the rank of the columns, minus the means if the model has an intercept (rank_), and SingularValues are
	// their singular values (singular_).
	Rank           int
	SingularValues []float64
	// R2 is the coefficient of determination of the rows of the fit (score).
	R2 float64
	// Rows is the number of rows of the frame.
	Rows int64
}

// Fit fits a model to a frame. On a frame on devices the rows are reduced by kernels on the devices that have the
// partitions.
func Fit(ctx context.Context, f *frame.Frame, opts Options) (*Model, error) {
	switch {
	case opts.Target == "":
		return nil, errors.New("linear: no target; set Options.Target")
	case math.IsNaN(opts.Cutoff) || opts.Cutoff >= 1:
		return nil, fmt.Errorf("linear: cutoff %v; use a number below 1", opts.Cutoff)
	case !(opts.Ridge >= 0) || math.IsInf(opts.Ridge, 1):
		return nil, fmt.Errorf("linear: ridge %v; use a finite number that is not negative", opts.Ridge)
	case slices.Contains(opts.Columns, opts.Target):
		return nil, fmt.Errorf("linear: target %q is also one of the columns", opts.Target)
	}
	columns := slices.Clone(opts.Columns)
	if len(columns) == 0 {
		columns = tall.Names(f.Schema(), opts.Target)
	}
	if _, err := tall.Narrow(f.Schema(), columns); err != nil {
		return nil, fmt.Errorf("linear: %w", err)
	}
	s, err := tall.Summarize(ctx, f, append(slices.Clone(columns), opts.Target),
		tall.Options{Clique: opts.Clique, Form: opts.Form})
	if err != nil {
		return nil, fmt.Errorf("linear: %w", err)
	}
	cutoff := opts.Cutoff
	switch {
	case cutoff == 0:
		cutoff = defaultCutoff
	case cutoff < 0:
		cutoff = 0
	}
	x := s.Solve(tsqr.Fit{Intercept: !opts.NoIntercept, Ridge: opts.Ridge, Cutoff: cutoff})
	return &Model{Columns: columns, Target: opts.Target, Coefficients: x.Coefficients, Intercept: x.Intercept,
		Rank: x.Rank, SingularValues: x.Values[:min(int64(len(columns)), s.Rows)], R2: x.R2, Rows: s.Rows}, nil
}

// Predict returns the prediction for every row of a frame: a frame of one column, prediction, with the same partitions
// in the same location, of float32 if all columns are, otherwise of float64. The frame must have the columns of the
// model, and may have others.
func (m *Model) Predict(ctx context.Context, f *frame.Frame) (*frame.Frame, error) {
	out, err := tall.Multiply(ctx, f, tall.Product{Columns: m.Columns, Names: []string{"prediction"},
		Mean: make([]float64, len(m.Columns)), Weights: m.Coefficients, Add: []float64{m.Intercept}})
	if err != nil {
		return nil, fmt.Errorf("linear: %w", err)
	}
	return out, nil
}
