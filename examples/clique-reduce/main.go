// Command clique-reduce reduces a distributed frame over the workers of a running cluster, in
// four steps: partitions on the workers, a clique of these workers, an algorithm on every rank
// that reduces across them, and the result as partitions again.
//
//	clique-reduce                                     on this machine
//	clique-reduce -scheduler tcp://10.0.0.1:8786      on a cluster, Millstream's or Dask's,
//	clique-reduce worker tcp://10.0.0.1:8786          which such workers have joined
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/client"
	"go.millstream.dev/clique"
)

// Part is a partition of a frame: columns of one length.
type Part struct {
	X, Y []float64
}

// Functions are package-level variables, so that every process of the cluster has them.
var (
	// load makes a partition; a real one would read a file.
	load = client.Func2("clique-reduce.load", func(_ context.Context, part, rows int) (Part, error) {
		p := Part{X: make([]float64, rows), Y: make([]float64, rows)}
		for i := range rows {
			p.X[i], p.Y[i] = float64(part*rows+i), 1
		}
		return p, nil
	})
	// reduce is the algorithm: local sums, a reduce across the ranks, and one row of totals on
	// rank 0. The other ranks have no rows.
	reduce = clique.Func("clique-reduce.reduce", func(ctx context.Context, r *clique.Rank, p Part) (Part, error) {
		sums := make([]float64, 2)
		for i := range p.X {
			sums[0] += p.X[i]
			sums[1] += p.Y[i]
		}
		if err := r.Do(ctx, clique.Reduce(clique.Of(sums), clique.Of(sums), clique.Sum, 0)); err != nil ||
			r.Rank() != 0 {
			return Part{}, err
		}
		return Part{X: sums[:1], Y: sums[1:]}, nil
	})
)

func main() {
	millstream.Main() // workers go no further
	cli.Serve()       // clique-reduce worker
	scheduler := flag.String("scheduler", "", "address of a scheduler (default: a cluster on this machine)")
	rows := flag.Int("rows", 1_000_000, "rows of each partition")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *scheduler, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "clique-reduce:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, scheduler string, rows int) error {
	c, done, err := connect(ctx, scheduler)
	if err != nil {
		return err
	}
	defer done()

	// 1. A clique of all workers. The cluster carries their addresses: no launcher, no MPI.
	q, err := clique.Form(ctx, c, clique.Options{Name: "reduce"})
	if err != nil {
		return err
	}
	defer func() { _ = q.Dissolve(context.WithoutCancel(ctx)) }()
	fmt.Fprintf(out, "%d ranks over %s\n", q.Size(), q.Backend())

	// 2. A frame: one partition on each rank's worker.
	parts := make([]client.Arg[Part], q.Size())
	for i, m := range q.Members() {
		parts[i] = load.Submit(ctx, c, client.Val(i), client.Val(rows), client.WithWorkers(m.Worker))
	}

	// 3. The algorithm runs on all ranks at once, where the partitions are.
	results, err := reduce.Submit(ctx, q, parts)
	if err != nil {
		return err
	}
	if err := q.Wait(ctx, reduce.Name(), client.Futures(results)); err != nil {
		return err
	}

	// 4. The results are a frame again, and only they come here.
	frame, err := client.Gather(ctx, results)
	if err != nil {
		return err
	}
	for _, p := range frame {
		for i := range p.X {
			fmt.Fprintf(out, "x %.0f  y %.0f\n", p.X[i], p.Y[i])
		}
	}
	n := float64(q.Size() * rows)
	if len(frame[0].X) != 1 || frame[0].X[0] != n*(n-1)/2 || frame[0].Y[0] != n {
		return fmt.Errorf("the totals must be %.0f and %.0f", n*(n-1)/2, n)
	}
	return nil
}

// connect connects to a scheduler, or starts a cluster.
func connect(ctx context.Context, scheduler string) (*millstream.Client, func(), error) {
	if scheduler != "" {
		c, err := millstream.Connect(ctx, scheduler)
		if err != nil {
			return nil, nil, err
		}
		return c, func() { _ = c.Close() }, nil
	}
	k, err := millstream.Local(ctx, millstream.LocalConfig{Workers: 4, Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	c, err := k.Client(ctx)
	if err != nil {
		_ = k.Close()
		return nil, nil, err
	}
	return c, func() {
		_ = c.Close()
		_ = k.Close()
	}, nil
}
