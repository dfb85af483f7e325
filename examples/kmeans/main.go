// Command kmeans divides points into groups with Lloyd's algorithm on a clique: each worker keeps its points, and the
// workers sum their groups with an all-reduce in each iteration.
//
//	kmeans                                     on this machine
//	kmeans -scheduler tcp://10.0.0.1:8786      on a cluster of Millstream or Dask,
//	kmeans worker tcp://10.0.0.1:8786          which such workers have joined
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

func main() {
	millstream.Main() // workers go no further
	cli.Serve()       // kmeans worker
	scheduler := flag.String("scheduler", "", "address of a scheduler (default: a cluster on this machine)")
	points := flag.Int("points", 100_000, "points of each worker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *scheduler, *points); err != nil {
		fmt.Fprintln(os.Stderr, "kmeans:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, scheduler string, points int) error {
	c, done, err := connect(ctx, scheduler)
	if err != nil {
		return err
	}
	defer done()
	q, err := clique.Form(ctx, c, clique.Options{Name: "kmeans"})
	if err != nil {
		return err
	}
	defer func() { _ = q.Dissolve(context.WithoutCancel(ctx)) }()

	// The points are made on the workers and stay there.
	parts := make([]client.Arg[Points], q.Size())
	for i, m := range q.Members() {
		parts[i] = generate.Submit(ctx, c, client.Val(uint64(i)), client.Val(points), client.WithWorkers(m.Worker))
	}
	results, err := fit.Submit(ctx, q, parts)
	if err != nil {
		return err
	}
	if err := q.Wait(ctx, fit.Name(), client.Futures(results)); err != nil {
		return err
	}
	models, err := client.Gather(ctx, results)
	if err != nil {
		return err
	}
	m := models[0] // all ranks have the same
	fmt.Fprintf(out, "%d points on %d ranks over %s: %d iterations, inertia %.4g per point\n", m.Points, q.Size(),
		q.Backend(), m.Iterations, m.Inertia/float64(m.Points))
	for _, center := range m.Centers {
		fmt.Fprintf(out, "%8.3f %8.3f\n", center[0], center[1])
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
