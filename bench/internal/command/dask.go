package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/daskbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func daskCommand() *cobra.Command {
	o := &daskbench.Options{}
	return benchmark{
		name:  "dask",
		short: "Measure Python programs with the schedulers of Millstream and Dask",
		long: `Run unmodified Python clients and workers of Dask with the Millstream scheduler
and, with --peers, with that of Dask. Scheduler, workers and client are separate
processes on the loopback interface, over tcp. Sides alternate, each round with
fresh processes.

Cases
` + aboutList(daskbench.Cases(), func(c daskbench.Case) (string, string) { return c.Name, c.About }) + `
The median of the rounds counts. Both sides must compute the same. The time of
a scheduler includes that of its helper processes.

Peers
  dask         distributed; scripts/setup peers installs it

Python is needed without --peers, too.`,
		example: `  millstream bench dask --quick --peers
  millstream bench dask --case scheduler-cpu --peers --rounds 3 --json`,
		cases: choice{chosen: &o.Cases, known: daskbench.CaseNames()},
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Workers, "workers", 0, "number of worker processes (default 2)")
			flags.IntVar(&o.Threads, "threads", 0, "number of concurrent tasks of each worker (default 1)")
			flags.IntVar(&o.Tasks, "tasks", 0, "number of tasks of scheduler-cpu and map-noop (default 20000)")
			flags.IntVar(&o.DAG, "dag", 0, "number of tasks of random-dag (default 3001)")
			flags.IntVar(&o.Leaves, "leaves", 0, "number of leaves of merge-tree (default 2048)")
			flags.IntVar(&o.Rows, "rows", 0, "number of rows of each frame of df-merge (default 10000000)")
			flags.IntVar(&o.Parts, "parts", 0, "number of partitions of each frame of df-merge (default 20)")
			flags.IntVar(&o.Seed, "seed", 0, "seed of the random graph and rows (default 1)")
		},
		peers:  []string{daskbench.PeerName},
		rounds: &o.Rounds, roundsHelp: "7, quick 1", counts: "median",
		quick: &o.Quick, quickHelp: "small graphs, one round",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			client, err := s.python(daskbench.PeerName, benchpeer.ScriptDask)
			if err != nil {
				return nil, err
			}
			o.Peer = s.wants(daskbench.PeerName)
			programs := daskbench.Programs{Client: client, Millstream: ownCommand}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return daskbench.Run(ctx, programs, *o, sink, progress)
			}, nil
		},
	}.command()
}
