package command

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/daskbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type daskFlags struct {
	options daskbench.Options
	peers   string
	json    bool
}

func daskCommand() *cobra.Command {
	f := &daskFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "dask",
		Short: "Python programs that use Dask, on our scheduler and on Dask's",
		Long: `Runs unmodified Python clients and workers of Dask on this scheduler and, with
--peers, on Dask's own. Scheduler, workers and client are processes of their
own on the loopback, over tcp. Sides take turns, each round with fresh processes.

Cases
` + aboutList(daskbench.Cases(), func(c daskbench.Case) (string, string) { return fmt.Sprintf("%-14s", c.Name), c.About }) + `
The median of the rounds counts. Both sides must compute the same. The time of
a scheduler has that of its helper processes in it.

Peers
  dask         distributed; its packages come with scripts/setup peers

Python is needed without --peers, too: it is what is served.`,
		Example: `  millstream bench dask --quick --peers
  millstream bench dask --case scheduler-cpu --peers --rounds 3 --json`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	flags.StringVar(&f.peers, "peers", "", "compare with this program: "+daskbench.PeerName)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the median counts (default 7)")
	flags.IntVar(&o.Workers, "workers", 0, "worker processes (default 2)")
	flags.IntVar(&o.Threads, "threads", 0, "tasks at once in each worker (default 1)")
	flags.IntVar(&o.Tasks, "tasks", 0, "tasks of scheduler-cpu and map-noop (default 20000)")
	flags.IntVar(&o.DAG, "dag", 0, "tasks of random-dag (default 3001)")
	flags.IntVar(&o.Leaves, "leaves", 0, "leaves of merge-tree (default 2048)")
	flags.IntVar(&o.Rows, "rows", 0, "rows of each frame of df-merge (default 10000000)")
	flags.IntVar(&o.Parts, "parts", 0, "partitions of each frame of df-merge (default 20)")
	flags.IntVar(&o.Seed, "seed", 0, "of the random graph and rows (default 1)")
	flags.BoolVar(&o.Quick, "quick", false, "small graphs, one round")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{"case": daskbench.CaseNames(), "peers": {daskbench.PeerName}})
	return cmd
}

// daskScript is the Python client, relative to the repository.
const daskScript = "tests/dask/peers/bench_dask.py"

func (f *daskFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	var err error
	if f.options.Peer, err = onePeer(f.peers, daskbench.PeerName); err != nil {
		return err
	}
	python, script, err := benchpeer.FindPython(daskbench.PeerName, daskScript, os.Environ())
	if err != nil {
		return err
	}
	programs := daskbench.Programs{Python: python, Client: script, Millstream: ownCommand}
	report := report{json: f.json, rounds: f.options.Rounds, counts: "median"}
	return report.of(stdout, stderr, func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
		return daskbench.Run(ctx, programs, f.options, sink, progress)
	})
}
