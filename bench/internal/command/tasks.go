package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/taskbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func tasksCommand() *cobra.Command {
	o := &taskbench.Options{}
	var shuffle string
	return benchmark{
		name:  "tasks",
		short: "Measure tasks, latency, scheduler cost and shuffles of a cluster",
		long: `Measure a local cluster: scheduler and client in one process, each worker in a
separate process, TLS on all control connections, data over the fastest transport.
With --peers the same graphs run on LocalCluster of Dask with as many processes
and threads, also with TLS. Sides alternate, each round with a fresh cluster.

Cases
` + aboutList(taskbench.Cases(), func(c taskbench.Case) (string, string) { return c.Name, c.About }) + `
Every round is verified: each task has a distinct key and ran once, in a worker
process; /metrics of the scheduler counts as many; results of both sides are
equal.

fetch and client-fetch are compared with package ucx alone: one message of the
same size between two processes, in memory that is reused.

shuffle-again is a second shuffle in the same cluster, whose workers reuse the
memory of the first.

dashboard runs 50,000 tasks per second whose workers do nothing, with 20 viewers
of the dashboard that follow the live stream and fetch a tile each second, and
without a dashboard. dashboard-cpu is the difference of the processor time of the
scheduler.

device-fetch needs a GPU, which its two workers share. It is compared with package
ucx alone (64 MiB x 32 in flight, 1 GiB) and, with --peers, with the asyncio API
of UCXX (one message of 64 MiB).

device-spill needs a GPU. Its worker has room for a third of its results there;
the others are moved to host memory, and back when they are read. It is compared
with copies between the GPU and pinned memory by package cuda alone.

Peers
  dask         distributed; scripts/setup peers installs it

--peers fails if the peer is missing and prints the command that installs it.
A full run takes an hour, nearly all of it for Dask; --quick takes minutes.`,
		example: `  millstream bench tasks --quick --peers
  millstream bench tasks --case map-noop,tree --peers --json
  millstream bench tasks --case scheduler-only --profile /tmp
  millstream bench tasks --case device-fetch --peers`,
		cases: choice{chosen: &o.Cases, known: taskbench.CaseNames(),
			help: "all but device-fetch and device-spill"},
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Workers, "workers", 0, "number of worker processes (default 2)")
			flags.IntVar(&o.Threads, "threads", 0, "number of concurrent tasks of each worker (default 1)")
			flags.IntVar(&o.Tasks, "tasks", 0, "number of tasks of map-noop (default 100000, quick 5000)")
			flags.IntVar(&o.Leaves, "leaves", 0, "number of leaves of tree, a power of two (default 32768, quick 1024)")
			flags.IntVar(&o.DAG, "dag", 0, "number of tasks of random-dag (default 50000, quick 2000)")
			flags.IntVar(&o.Chain, "chain", 0, "number of tasks of chain (default 5000, quick 200)")
			flags.IntSliceVar(&o.Scheduler, "scheduler-tasks", nil, "numbers of tasks of scheduler-only "+
				"(default 10000,100000,1000000)")
			flags.IntVar(&o.Watched, "dashboard-tasks", 0, "number of tasks of dashboard (default 500000, quick 20000)")
			flags.StringVar(&shuffle, "shuffle-size", "", "size of the shuffle (default 2GiB, quick 128MiB)")
			flags.IntVar(&o.ShuffleWorkers, "shuffle-workers", 0, "number of worker processes of the shuffle "+
				"(default 4)")
			flags.IntVar(&o.ShuffleParts, "shuffle-parts", 0, "number of partitions of the shuffle (default 32, "+
				"quick 16)")
			flags.IntVar(&o.DeviceFetches, "fetches", 0, "number of repetitions of device-fetch per round (default "+
				"20, quick 5)")
			flags.IntVar(&o.Device, "device", 0, "GPU of device-fetch and device-spill")
			flags.Uint64Var(&o.Seed, "seed", 0, "seed of the random graph and rows (default 1)")
			flags.StringVar(&o.Profile, "profile", "", "folder for CPU profiles of Millstream processes")
		},
		peers:  []string{taskbench.PeerName},
		rounds: &o.Rounds, roundsHelp: "3, quick 1",
		quick: &o.Quick, quickHelp: "smaller graphs, one round",
		complete: func(*session) (err error) {
			if shuffle != "" {
				if o.ShuffleBytes, err = benchfmt.ParseSize(shuffle); err != nil {
					return err
				}
			}
			return o.Complete()
		},
		prepare: func(s *session) (measurement, error) {
			programs := taskbench.Programs{Go: own(tasksPeerName), Raw: rawDevice, RawHost: rawHost}
			if o.Peer = s.wants(taskbench.PeerName); o.Peer {
				python, err := s.python(taskbench.PeerName, benchpeer.ScriptTasks)
				if err != nil {
					return nil, err
				}
				programs.Python, programs.Async = python.Start, asyncDevice
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return taskbench.Run(ctx, programs, *o, sink, progress)
			}, nil
		},
	}.command()
}

const tasksPeerName = "bench-tasks-peer"

// tasksPeerCommand is a process of the benchmark.
func tasksPeerCommand() *cobra.Command {
	return peerCommand(tasksPeerName, "Process of `bench tasks`", taskbench.Serve)
}
