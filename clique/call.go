package clique

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/client"
)

// Fn is a function that runs on all ranks of a clique at once, each with its own input; see Func.
type Fn[In, Out any] struct {
	f *client.Fn2[Ticket, In, Out]
}

// Func registers a function of ranks under a name. Like client.Func it is called in a package-level variable, in a
// package that client and workers share. If the function fails or panics on one rank, the clique ends and the other
// ranks get an error that names it.
//
// Python calls it by name: see millstream.clique of the Python package.
func Func[In, Out any](name string, f func(ctx context.Context, r *Rank, in In) (Out, error)) *Fn[In, Out] {
	return &Fn[In, Out]{client.Func2(name, func(ctx context.Context, t Ticket, in In) (out Out, err error) {
		err = Do(ctx, t, func(r *Rank) (err error) {
			out, err = f(ctx, r, in)
			return err
		})
		return out, err
	})}
}

// Name returns the name under which the function is registered.
func (f *Fn[In, Out]) Name() string { return f.f.Name() }

// Submit starts a round: the function runs on the worker of each rank, with the argument of the rank. The futures are
// in the order of ranks. Results can be arguments of other tasks and rounds without passing through the client.
func (f *Fn[In, Out]) Submit(ctx context.Context, q *Clique, inputs []client.Arg[In],
	opts ...client.Option) ([]*client.Future[Out], error) {
	if len(inputs) != q.Size() {
		return nil, fmt.Errorf("clique %s: %s: %d inputs for %d ranks; pass one for each rank", q.id, f.Name(),
			len(inputs), q.Size())
	}
	t := q.Ticket()
	out := make([]*client.Future[Out], len(inputs))
	for i, m := range q.members {
		o := append(slices.Clone(opts), client.WithWorkers(m.Worker), client.WithImpure())
		out[i] = f.f.Submit(ctx, q.c, client.Val(t), inputs[i], o...)
	}
	return out, nil
}

// Run runs a round and returns the results in the order of ranks. Its error is a *RunError with the errors of all
// ranks. Run does not wait for a rank whose worker has left the cluster.
func (f *Fn[In, Out]) Run(ctx context.Context, q *Clique, inputs []In, opts ...client.Option) ([]Out, error) {
	args := make([]client.Arg[In], len(inputs))
	for i, x := range inputs {
		args[i] = client.Val(x)
	}
	futures, err := f.Submit(ctx, q, args, opts...)
	if err != nil {
		return nil, err
	}
	defer client.ReleaseAll(futures)
	if err := q.Wait(ctx, f.Name(), client.Futures(futures)); err != nil {
		return nil, err
	}
	return client.Gather(ctx, futures)
}

// RunAll is Run with the same input for every rank.
func (f *Fn[In, Out]) RunAll(ctx context.Context, q *Clique, in In, opts ...client.Option) ([]Out, error) {
	return f.Run(ctx, q, slices.Repeat([]In{in}, q.Size()), opts...)
}

// checkInterval is how often Wait checks that the workers of ranks are in the cluster. Their tasks cannot run
// elsewhere, so without the check their futures would stay pending.
const checkInterval = 500 * time.Millisecond

// Wait waits for the futures of a round, one for each rank in order, and returns nil if all have a result, else a
// *RunError. It cancels the tasks of ranks whose workers have left the cluster and does not wait for them. name is the
// name of the function, for the error.
func (q *Clique) Wait(ctx context.Context, name string, futures []client.AnyFuture) error {
	type end struct {
		rank int
		err  error
	}
	wait, stop := context.WithCancel(ctx)
	defer stop()
	ends := make(chan end, len(futures))
	for i, f := range futures {
		go func() { ends <- end{i, f.Wait(wait)} }()
	}
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	failed := &RunError{Clique: q.id, Func: name, Ranks: map[int]error{}}
	pending := make(map[int]bool, len(futures))
	for i := range futures {
		pending[i] = true
	}
	for len(pending) > 0 {
		select {
		case e := <-ends:
			if !pending[e.rank] {
				continue
			}
			delete(pending, e.rank)
			if e.err != nil {
				failed.Ranks[e.rank] = e.err
			}
		case <-check.C:
			for _, r := range q.lostRanks(ctx, pending) {
				delete(pending, r)
				failed.Dead = append(failed.Dead, r)
				failed.Ranks[r] = &RankError{Rank: r, Name: q.members[r].Worker,
					Reason: "the worker has left the cluster"}
				_ = q.c.Cancel(futures[r])
			}
		case <-ctx.Done():
			return fmt.Errorf("clique %s: %s: %d of %d ranks finished: %w", q.id, name, len(futures)-len(pending),
				len(futures), context.Cause(ctx))
		}
	}
	if len(failed.Ranks) == 0 {
		return nil
	}
	slices.Sort(failed.Dead)
	return failed
}

// lostRanks returns the pending ranks whose workers have left the cluster.
func (q *Clique) lostRanks(ctx context.Context, pending map[int]bool) []int {
	known, err := q.c.Workers(ctx)
	if err != nil {
		return nil // the futures report the cause
	}
	var out []int
	for r := range sorted(pending) {
		if _, ok := known[q.members[r].Worker]; !ok {
			out = append(out, r)
		}
	}
	return out
}
