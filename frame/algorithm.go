package frame

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/libcodec"
)

// algorithm is a native algorithm in one location. B is a partition.
type algorithm[B, P, R any] struct {
	f      *clique.Fn[nativeIn[B, P], nativeOut[B, R]]
	batch  *client.Fn2[nativeOut[B, R], int, B]
	result *client.Fn1[nativeOut[B, R], R]
}

type nativeIn[B, P any] struct {
	Parts   []task.Ref[B]
	Index   []int
	Total   int
	Threads int
	Params  P
}

// nativeOut is the result of one rank. Tasks extract its parts, if possible on the worker that has it; otherwise it is
// transferred like any other result.
type nativeOut[B, R any] struct {
	Batches []B
	Result  R
}

func newAlgorithm[B, P, R any](name string, f func(ctx context.Context, r *clique.Rank, in nativeIn[B, P],
	batches []B) ([]B, R, error)) *algorithm[B, P, R] {
	return &algorithm[B, P, R]{
		f: clique.Func(name, func(ctx context.Context, r *clique.Rank, in nativeIn[B, P]) (out nativeOut[B, R],
			err error) {
			batches := make([]B, len(in.Parts))
			for i, b := range in.Parts {
				batches[i] = b.Get()
			}
			if len(in.Index) != len(batches) {
				return out, fmt.Errorf("frame: %s: %d partitions with %d indexes", name, len(batches),
					len(in.Index))
			}
			out.Batches, out.Result, err = f(ctx, r, in, batches)
			for _, b := range out.Batches {
				libcodec.Prepare(b) // tasks share them
			}
			if n := len(out.Batches); err == nil && n != 0 && n != len(batches) {
				err = fmt.Errorf("frame: %s returned %d partitions for %d; return as many as were given, or "+
					"none", name, n, len(batches))
			}
			return out, err
		}),
		batch: client.Func2(name+".batch", func(_ context.Context, o nativeOut[B, R], i int) (out B, err error) {
			if i < 0 || i >= len(o.Batches) {
				return out, fmt.Errorf("frame: %s returned no partition %d", name, i)
			}
			return o.Batches[i], nil
		}),
		result: client.Func(name+".result", func(_ context.Context, o nativeOut[B, R]) (R, error) {
			return o.Result,
				nil
		}),
	}
}

// run runs the algorithm on partitions and waits for it. It returns the result of each rank, in the order of ranks, and
// with a schema futures of the returned partitions, which the caller owns. If among is not nil, ranks are on these
// workers only.
func (a *algorithm[B, P, R]) run(ctx context.Context, c *client.Client, parts []*client.Future[B], params P,
	opts NativeOptions, among []string) (_ []*client.Future[B], _ []R, err error) {
	if err := persist(ctx, parts); err != nil { // their locations are then known
		return nil, nil, err
	}
	if len(parts) == 0 {
		return nil, nil, fmt.Errorf("frame: %s: frame without partitions", a.f.Name())
	}
	where, err := c.WhoHas(ctx, client.Futures(parts)...)
	if err != nil {
		return nil, nil, fmt.Errorf("frame: %s: %w", a.f.Name(), err)
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("frame: %s: %w", a.f.Name(), err)
	}
	q := opts.Clique
	if q == nil {
		form := opts.Form
		if form.Workers = holders(parts, where, workers, among); len(form.Workers) == 0 {
			return nil, nil, fmt.Errorf("frame: %s: no Millstream worker in the cluster", a.f.Name())
		}
		if form.Name == "" {
			form.Name = a.f.Name()
		}
		if q, err = clique.Form(ctx, c, form); err != nil {
			return nil, nil, err
		}
		defer func() { _ = q.Dissolve(context.WithoutCancel(ctx)) }() // workers also remove it by themselves
	}
	ranks := q.Workers()
	inputs, place := a.inputs(parts, where, workers, ranks, params)
	futures, err := a.f.Submit(ctx, q, inputs)
	if err != nil {
		return nil, nil, err
	}
	defer client.ReleaseAll(futures)
	if err := q.Wait(ctx, a.f.Name(), client.Futures(futures)); err != nil {
		return nil, nil, withRunKind(err)
	}
	taken := make([]*client.Future[R], len(futures))
	for i, o := range futures {
		taken[i] = a.result.Submit(ctx, c, o, client.WithWorkers(ranks[i]), client.WithOtherWorkers())
	}
	defer client.ReleaseAll(taken)
	var out []*client.Future[B]
	if opts.Schema != nil {
		for _, p := range place {
			on := []client.Option{client.WithWorkers(ranks[p.rank])}
			if among == nil { // on devices the worker is required, in host memory preferred
				on = append(on, client.WithOtherWorkers())
			}
			out = append(out, a.batch.Submit(ctx, c, futures[p.rank], client.Val(p.at), on...))
		}
	}
	results, err := client.Gather(ctx, taken)
	if err != nil {
		client.ReleaseAll(out)
		return nil, nil, withKind(err)
	}
	return out, results, nil
}

// holders returns the Millstream workers, limited to among if that is not nil, that have partitions, or all of them if
// none has.
func holders[B any](parts []*client.Future[B], where map[task.Key][]string, workers map[string]client.Worker,
	among []string) []string {
	var ours []string
	for address, w := range workers {
		if w.Resources["go"] > 0 && (among == nil || slices.Contains(among, address)) {
			ours = append(ours, address)
		}
	}
	if len(ours) == 0 && among == nil {
		for address := range workers {
			ours = append(ours, address)
		}
	}
	slices.Sort(ours)
	var out []string
	for _, w := range ours {
		for _, p := range parts {
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

// placement is the rank of a partition, and its position among the partitions of that rank.
type placement struct{ rank, at int }

// inputs assigns each partition to the rank with the fewest partitions among those whose worker has it, or among all
// ranks if no worker has it.
func (a *algorithm[B, P, R]) inputs(parts []*client.Future[B], where map[task.Key][]string,
	workers map[string]client.Worker, ranks []string, params P) ([]client.Arg[nativeIn[B, P]], []placement) {
	in := make([]nativeIn[B, P], len(ranks))
	for i, w := range ranks {
		in[i] = nativeIn[B, P]{Total: len(parts), Threads: workers[w].Threads, Params: params}
	}
	place := make([]placement, len(parts))
	for i, p := range parts {
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
		place[i] = placement{best, len(in[best].Parts)}
		in[best].Parts = append(in[best].Parts, p.Ref())
		in[best].Index = append(in[best].Index, i)
	}
	args := make([]client.Arg[nativeIn[B, P]], len(in))
	for i := range in {
		args[i] = client.Val(in[i])
	}
	return args, place
}
