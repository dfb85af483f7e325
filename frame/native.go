package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/task"
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
	f      *clique.Fn[nativeIn[P], nativeOut[R]]
	batch  *client.Fn2[nativeOut[R], int, arrow.RecordBatch]
	result *client.Fn1[nativeOut[R], R]
}

type nativeIn[P any] struct {
	Parts   []task.Ref[arrow.RecordBatch]
	Index   []int
	Total   int
	Threads int
	Params  P
}

// nativeOut stays on its worker; its parts are taken out by tasks.
type nativeOut[R any] struct {
	Batches []arrow.RecordBatch
	Result  R
}

// NewNative registers an algorithm under a name. Like client.Func it is called in a
// package-level variable, in a package that client and workers share. The function returns
// either one batch for each that it was given, in the same order, or none. If it fails on one
// rank, all get an error that names that rank.
func NewNative[P, R any](name string, f func(ctx context.Context, r *clique.Rank, parts Parts, params P) ([]arrow.RecordBatch, R, error)) *Native[P, R] {
	return &Native[P, R]{
		f: clique.Func(name, func(ctx context.Context, r *clique.Rank, in nativeIn[P]) (out nativeOut[R], err error) {
			p := Parts{Index: in.Index, Total: in.Total, Threads: max(1, in.Threads)}
			for _, b := range in.Parts {
				p.Batches = append(p.Batches, b.Get())
			}
			if len(p.Index) != len(p.Batches) {
				return out, fmt.Errorf("frame: %s: %d partitions and %d numbers of them", name, len(p.Batches), len(p.Index))
			}
			out.Batches, out.Result, err = f(ctx, r, p, in.Params)
			if n := len(out.Batches); err == nil && n != 0 && n != len(p.Batches) {
				err = fmt.Errorf("frame: %s returned %d partitions for the %d that it was given: it must return as many, or none", name, n, len(p.Batches))
			}
			return out, err
		}),
		batch: client.Func2(name+".batch", func(_ context.Context, o nativeOut[R], i int) (arrow.RecordBatch, error) {
			if i < 0 || i >= len(o.Batches) {
				return nil, fmt.Errorf("frame: %s returned no partition %d", name, i)
			}
			return o.Batches[i], nil
		}),
		result: client.Func(name+".result", func(_ context.Context, o nativeOut[R]) (R, error) { return o.Result, nil }),
	}
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
	if err := f.Persist(ctx); err != nil { // so that it is known where they are
		return nil, nil, err
	}
	if len(f.parts) == 0 {
		return nil, nil, fmt.Errorf("frame: %s: the frame has no partition", a.f.Name())
	}
	where, err := f.c.WhoHas(ctx, client.Futures(f.parts)...)
	if err != nil {
		return nil, nil, fmt.Errorf("frame: %s: %w", a.f.Name(), err)
	}
	workers, err := f.c.Workers(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("frame: %s: %w", a.f.Name(), err)
	}
	q := opts.Clique
	if q == nil {
		form := opts.Form
		if form.Workers = f.holders(where, workers); len(form.Workers) == 0 {
			return nil, nil, fmt.Errorf("frame: %s: the cluster has no Millstream worker", a.f.Name())
		}
		if form.Name == "" {
			form.Name = a.f.Name()
		}
		if q, err = clique.Form(ctx, f.c, form); err != nil {
			return nil, nil, err
		}
		defer func() { _ = q.Dissolve(context.WithoutCancel(ctx)) }() // workers forget it by themselves too
	}
	ranks := q.Workers()
	inputs, place := a.inputs(f, where, workers, ranks, params)
	futures, err := a.f.Submit(ctx, q, inputs)
	if err != nil {
		return nil, nil, err
	}
	defer client.ReleaseAll(futures)
	if err := q.Wait(ctx, a.f.Name(), client.Futures(futures)); err != nil {
		return nil, nil, typedRun(err)
	}
	taken := make([]*client.Future[R], len(futures))
	for i, o := range futures {
		taken[i] = a.result.Submit(ctx, f.c, o)
	}
	defer client.ReleaseAll(taken)
	var out *Frame
	if opts.Schema != nil {
		parts := make([]*client.Future[arrow.RecordBatch], len(f.parts))
		for i, p := range place {
			parts[i] = a.batch.Submit(ctx, f.c, futures[p.rank], client.Val(p.at))
		}
		if out, err = verified(ctx, f.c, opts.Schema, parts); err != nil {
			return nil, nil, err
		}
		if err := out.Persist(ctx); err != nil {
			out.Release()
			return nil, nil, err
		}
	}
	results, err := client.Gather(ctx, taken)
	if err != nil {
		return nil, nil, typed(err)
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

// holders are the Millstream workers that have partitions, all that there are if none has.
func (f *Frame) holders(where map[task.Key][]string, workers map[string]client.Worker) []string {
	var ours []string
	for address, w := range workers {
		if w.Resources["go"] > 0 {
			ours = append(ours, address)
		}
	}
	if len(ours) == 0 {
		for address := range workers {
			ours = append(ours, address)
		}
	}
	slices.Sort(ours)
	var out []string
	for _, w := range ours {
		for _, p := range f.parts {
			if slices.Contains(where[p.Key()], w) {
				out = append(out, w)
				break
			}
		}
	}
	if len(out) == 0 {
		return ours
	}
	return out
}

// placed is where a partition is worked on: a rank, and its place among that rank's.
type placed struct{ rank, at int }

// inputs gives each partition to a rank whose worker has it, that with the fewest, and such
// that no rank has, to that with the fewest of all.
func (a *Native[P, R]) inputs(f *Frame, where map[task.Key][]string, workers map[string]client.Worker, ranks []string, params P) ([]client.Arg[nativeIn[P]], []placed) {
	in := make([]nativeIn[P], len(ranks))
	for i, w := range ranks {
		in[i] = nativeIn[P]{Total: len(f.parts), Threads: workers[w].Threads, Params: params}
	}
	place := make([]placed, len(f.parts))
	for i, p := range f.parts {
		has := where[p.Key()]
		best := -1
		for r, w := range ranks {
			if slices.Contains(has, w) && (best < 0 || len(in[r].Parts) < len(in[best].Parts)) {
				best = r
			}
		}
		if best < 0 {
			best = 0
			for r := range ranks {
				if len(in[r].Parts) < len(in[best].Parts) {
					best = r
				}
			}
		}
		place[i] = placed{best, len(in[best].Parts)}
		in[best].Parts = append(in[best].Parts, p.Ref())
		in[best].Index = append(in[best].Index, i)
	}
	args := make([]client.Arg[nativeIn[P]], len(in))
	for i := range in {
		args[i] = client.Val(in[i])
	}
	return args, place
}
