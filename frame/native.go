package frame

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/clique"
)

// Parts is what one rank of a native algorithm works on.
type Parts struct {
	// Batches are the partitions that this rank has, in their order in the frame. They are
	// borrowed: others use them too.
	Batches []arrow.RecordBatch
	// Index says which partitions of the frame they are, Total how many the frame has.
	Index []int
	Total int
	// Threads is how many tasks the rank's worker runs at once: the algorithm has the worker
	// for itself, and may use as many.
	Threads int
}

// Native is an algorithm that works on all partitions of a frame at once: on every worker that
// has some it gets them, and a rank of a clique by which the workers talk to each other, and
// returns partitions. P are its parameters, R is what each rank returns besides.
type Native[P, R any] struct {
	a *algorithm[arrow.RecordBatch, P, R]
}

// NewNative registers an algorithm under a name. Like client.Func it is called in a
// package-level variable, in a package that client and workers share. The function returns
// either one batch for each that it was given, in the same order, or none. If it fails on one
// rank, all get an error that names that rank.
func NewNative[P, R any](name string, f func(ctx context.Context, r *clique.Rank, parts Parts, params P) ([]arrow.RecordBatch, R, error)) *Native[P, R] {
	return &Native[P, R]{newAlgorithm(name, func(ctx context.Context, r *clique.Rank, in nativeIn[arrow.RecordBatch, P], batches []arrow.RecordBatch) ([]arrow.RecordBatch, R, error) {
		return f(ctx, r, Parts{Batches: batches, Index: in.Index, Total: in.Total, Threads: max(1, in.Threads)}, in.Params)
	})}
}

// NativeOptions say how a native algorithm runs. The zero value is useful.
type NativeOptions struct {
	// Clique is that of the workers which run it (default: one that is formed for the run, of
	// all workers that have partitions). Partitions that are elsewhere move to its workers.
	Clique *clique.Clique
	// Schema is that of the partitions which it returns; nil if it returns none.
	Schema *arrow.Schema
	// Form are the options of a clique that is formed for the run; its workers are set.
	Form clique.Options
}

// Run runs the algorithm on a frame. It returns what each rank did, in the order of ranks, and
// with a schema the frame of the partitions that were returned, in the order of those that
// went in. It waits for the algorithm.
func (a *Native[P, R]) Run(ctx context.Context, f *Frame, params P, opts NativeOptions) (*Frame, []R, error) {
	if err := f.usable(); err != nil {
		return nil, nil, err
	}
	parts, results, err := a.a.run(ctx, f.c, f.parts, params, opts, nil)
	if err != nil || opts.Schema == nil {
		return nil, results, err
	}
	out, err := verified(ctx, f.c, opts.Schema, parts)
	if err != nil {
		return nil, nil, err
	}
	if err := out.Persist(ctx); err != nil {
		out.Release()
		return nil, nil, err
	}
	return out, results, nil
}

// typedRun gives the error of a round its kind: that of the rank where it began.
func typedRun(err error) error {
	if run, ok := errors.AsType[*clique.RunError](err); ok {
		for _, e := range run.Ranks {
			if r, ok := typed(e).(*remoteError); ok {
				return &remoteError{kind: r.kind, err: err}
			}
		}
	}
	return err
}
