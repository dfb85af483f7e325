package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/cmdline"
)

type demoCliqueFlags struct {
	scheduler string
	workers   int
	rows      int
	algorithm string
}

func demoCliqueCommand() *cobra.Command {
	f := demoCliqueFlags{workers: 4, rows: 1_000_000}
	cmd := &cobra.Command{
		Use:   "clique",
		Short: "Reduce data across workers of a cluster",
		Long: `Form a clique of the Millstream workers of a cluster and run a typical
algorithm: partitions on the workers, local sums, a collective reduce across the
ranks, and the result as a partition. All totals are verified.

Without --scheduler the command starts a cluster on this machine. With it, the
scheduler may be that of Millstream or Dask; its Millstream workers become the
ranks.

--algorithm runs a function of a shared library instead of the one in Go. The
workers search for the library in the folders of MILLSTREAM_NATIVE_PATH.`,
		Example: `  millstream demo clique
  millstream demo clique --scheduler tcp://10.0.0.1:8786
  millstream demo clique --algorithm libsums.so:sums`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&f.scheduler, "scheduler", "", "address of a running scheduler (default: a new local "+
		"cluster)")
	cmd.Flags().IntVar(&f.workers, "workers", f.workers, "number of workers of the local cluster")
	cmd.Flags().IntVar(&f.rows, "rows", f.rows, "number of rows of each partition")
	cmd.Flags().StringVar(&f.algorithm, "algorithm", "", "native algorithm as library.so:name (default: the one in Go)")
	return cmd
}

var (
	// demoPart creates the partition of a rank: consecutive numbers, and ones.
	demoPart = client.Func2("millstream.demo.clique.part",
		func(_ context.Context, rank, rows int) ([][]float64, error) {
			x, y := make([]float64, rows), make([]float64, rows)
			for i := range rows {
				x[i], y[i] = float64(rank*rows+i), 1
			}
			return [][]float64{x, y}, nil
		})
	// demoSums computes local sums, and reduces them to one row of totals on rank 0.
	demoSums = clique.Func("millstream.demo.clique.sums",
		func(ctx context.Context, r *clique.Rank, columns [][]float64) ([][]float64, error) {
			sums := make([]float64, len(columns))
			for c, column := range columns {
				for _, x := range column {
					sums[c] += x
				}
			}
			if err := r.Do(ctx, clique.Reduce(clique.Of(sums), clique.Of(sums), clique.Sum, 0)); err != nil ||
				r.Rank() != 0 {
				return nil, err
			}
			out := make([][]float64, len(sums))
			for i := range sums {
				out[i] = sums[i : i+1]
			}
			return out, nil
		})
)

func (f *demoCliqueFlags) run(ctx context.Context, out io.Writer) error {
	if f.workers < 1 || f.rows < 1 {
		return cmdline.Usagef("--workers and --rows: want at least 1")
	}
	c, done, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	workers, err := goWorkers(ctx, c)
	if err != nil {
		return err
	}
	begin := time.Now()
	q, err := clique.Form(ctx, c, clique.Options{Name: "demo", Workers: workers})
	if err != nil {
		return err
	}
	defer func() { _ = q.Dissolve(context.WithoutCancel(ctx)) }()
	fmt.Fprintf(out, "1. a clique of %d ranks, formed in %v, over %s\n", q.Size(),
		time.Since(begin).Round(time.Millisecond), q.Backend())
	for _, m := range q.Members() {
		fmt.Fprintf(out, "   rank %d  %s\n", m.Rank, m.Worker)
	}
	parts := make([]client.Arg[[][]float64], q.Size())
	for i, m := range q.Members() {
		parts[i] = demoPart.Submit(ctx, c, client.Val(i), client.Val(f.rows), client.WithWorkers(m.Worker))
	}
	fmt.Fprintf(out, "2. a frame: %d partitions of %d rows, one on each rank's worker\n", q.Size(), f.rows)
	begin = time.Now()
	results, err := f.submit(ctx, q, parts)
	if err != nil {
		return err
	}
	if err := q.Wait(ctx, "the algorithm", client.Futures(results)); err != nil {
		return err
	}
	fmt.Fprintf(out, "3. local sums and a reduce across the ranks: %v\n", time.Since(begin).Round(time.Millisecond))
	frame, err := client.Gather(ctx, results)
	if err != nil {
		return err
	}
	n := float64(q.Size() * f.rows)
	totals := frame[0]
	if len(totals) != 2 || len(totals[0]) != 1 || totals[0][0] != n*(n-1)/2 || totals[1][0] != n {
		return fmt.Errorf("wrong totals %v, want %.0f and %.0f", totals, n*(n-1)/2, n)
	}
	fmt.Fprintf(out, "4. a frame of one row on rank 0: x %.0f, y %.0f (checked)\n", totals[0][0], totals[1][0])
	return nil
}

// submit starts the algorithm on all ranks.
func (f *demoCliqueFlags) submit(ctx context.Context, q *clique.Clique,
	parts []client.Arg[[][]float64]) ([]*client.Future[[][]float64], error) {
	if f.algorithm == "" {
		return demoSums.Submit(ctx, q, parts)
	}
	return native.Submit(ctx, q, f.algorithm, "", parts)
}

// connect connects to the scheduler, or starts a cluster.
func (f *demoCliqueFlags) connect(ctx context.Context) (*client.Client, func(), error) {
	if f.scheduler != "" {
		c, err := cluster.Connect(ctx, f.scheduler)
		if err != nil {
			return nil, nil, err
		}
		return c, func() { _ = c.Close() }, nil
	}
	k, err := cluster.Local(ctx, cluster.Config{Workers: f.workers, Threads: 1})
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

// goWorkers returns the workers that can be ranks; workers of Dask cannot.
func goWorkers(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for address, w := range all {
		if _, ok := w.Resources["go"]; ok {
			out = append(out, address)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the cluster has no Millstream workers; start some with `millstream worker ADDRESS`")
	}
	return out, nil
}
