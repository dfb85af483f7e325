package clique

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/client"
)

// Fn is a function that runs on all ranks of a clique at once, each with an input of its own:
// see Func.
type Fn[In, Out any] struct {
	f *client.Fn2[Ticket, In, Out]
}

// Func registers a function of ranks under a name. Like client.Func it is called in a
// package-level variable, in a package that client and workers share. If the function fails or
// panics on one rank, the clique ends and the other ranks get an error that names it.
//
// Python runs it by its name: see millstream.clique of the helper package.
func Func[In, Out any](name string, f func(ctx context.Context, r *Rank, in In) (Out, error)) *Fn[In, Out] {
	return &Fn[In, Out]{client.Func2(name, func(ctx context.Context, t Ticket, in In) (out Out, err error) {
		err = Do(ctx, t, func(r *Rank) (err error) {
			out, err = f(ctx, r, in)
			return err
		})
		return out, err
	})}
}

// Name is the name under which it is registered.
func (f *Fn[In, Out]) Name() string { return f.f.Name() }

// Submit starts a round: the function runs on each rank's worker, with the rank's argument. The
// futures are in the order of ranks. Results can be arguments of other tasks, and other
// rounds, without passing through the client.
func (f *Fn[In, Out]) Submit(ctx context.Context, q *Clique, inputs []client.Arg[In],
	opts ...client.Option) ([]*client.Future[Out], error) {
	if len(inputs) != q.Size() {
		return nil, fmt.Errorf("clique %s: %s: %d inputs for %d ranks: give one for each", q.id, f.Name(), len(inputs),
			q.Size())
	}
	t := q.Ticket()
	out := make([]*client.Future[Out], len(inputs))
	for i, m := range q.members {
		o := append(slices.Clone(opts), client.WithWorkers(m.Worker), client.WithImpure())
		out[i] = f.f.Submit(ctx, q.c, client.Val(t), inputs[i], o...)
	}
	return out, nil
}

// Run runs a round and returns the results in the order of ranks. An error is a *RunError with
// those of all ranks. A rank whose worker has died does not keep it waiting.
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

// lookTime is how often Wait looks whether the workers of ranks are still there: their tasks
// can run nowhere else, so that without them their futures would stay pending for ever.
const lookTime = 500 * time.Millisecond

// Wait waits for the futures of a round, one for each rank in their order, and returns nil if
// all have a result, else a *RunError. It does not wait for ranks whose workers are gone: their
// tasks are cancelled. name is the function's, for the error.
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
	look := time.NewTicker(lookTime)
	defer look.Stop()
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
		case <-look.C:
			for _, r := range q.gone(ctx, pending) {
				delete(pending, r)
				failed.Dead = append(failed.Dead, r)
				failed.Ranks[r] = &RankError{Rank: r, Name: q.members[r].Worker, Reason: "its worker is gone"}
				_ = q.c.Cancel(futures[r])
			}
		case <-ctx.Done():
			return fmt.Errorf("clique %s: %s: %d of %d ranks have ended: %w", q.id, name, len(futures)-len(pending),
				len(futures), context.Cause(ctx))
		}
	}
	if len(failed.Ranks) == 0 {
		return nil
	}
	slices.Sort(failed.Dead)
	return failed
}

// gone are the ranks among those pending whose workers the cluster no longer has.
func (q *Clique) gone(ctx context.Context, pending map[int]bool) []int {
	known, err := q.c.Workers(ctx)
	if err != nil {
		return nil // the futures say what is wrong
	}
	var out []int
	for r := range sorted(pending) {
		if _, ok := known[q.members[r].Worker]; !ok {
			out = append(out, r)
		}
	}
	return out
}
