package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/taskbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type tasksFlags struct {
	options taskbench.Options
	shuffle string
	peers   string
	json    bool
}

func tasksCommand() *cobra.Command {
	f := &tasksFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Tasks per second, latency, scheduler cost and shuffle of a cluster",
		Long: `Measures a local cluster: scheduler and client in one process, each worker in a
process of its own, TLS on all control connections, data over the fastest lane.
With --peers the same graphs run on Dask's LocalCluster with as many processes and
threads, also with TLS. Sides take turns, each round with a fresh cluster.

Cases
` + aboutList(taskbench.Cases(), func(c taskbench.Case) (string, string) { return fmt.Sprintf("%-14s", c.Name), c.About }) + `
Every round is checked: each task has a key of its own and ran once, in a worker's
process; the scheduler's /metrics count as many; both sides' results are equal.

device-fetch needs a GPU, which its two workers share. It is held against package
ucx alone (64 MiB x 32 in flight, 1 GiB) and, with --peers, against UCXX's asyncio
interface (one of 64 MiB).

Peers
  dask         distributed; its packages come with scripts/setup peers

--peers fails when the peer is missing and names the command that installs it.
A full run takes an hour with Dask, nearly all of it Dask's; --quick minutes.`,
		Example: `  millstream bench tasks --quick --peers
  millstream bench tasks --case map-noop,tree --peers --json
  millstream bench tasks --case scheduler-only --profile /tmp
  millstream bench tasks --case device-fetch --peers`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	flags.StringVar(&f.peers, "peers", "", "compare with this program: "+taskbench.PeerName)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the best counts (default 3, quick 1)")
	flags.IntVar(&o.Workers, "workers", 0, "worker processes (default 2)")
	flags.IntVar(&o.Threads, "threads", 0, "tasks at once in each worker (default 1)")
	flags.IntVar(&o.Tasks, "tasks", 0, "tasks of map-noop (default 100000, quick 5000)")
	flags.IntVar(&o.Leaves, "leaves", 0, "leaves of tree, a power of two (default 32768, quick 1024)")
	flags.IntVar(&o.DAG, "dag", 0, "tasks of random-dag (default 50000, quick 2000)")
	flags.IntSliceVar(&o.Scheduler, "scheduler-tasks", nil, "tasks of scheduler-only, one figure for each (default "+
		"10000,100000,1000000)")
	flags.StringVar(&f.shuffle, "shuffle-size", "", "bytes of the shuffle (default 2GiB, quick 128MiB)")
	flags.IntVar(&o.ShuffleWorkers, "shuffle-workers", 0, "worker processes of the shuffle (default 4)")
	flags.IntVar(&o.ShuffleParts, "shuffle-parts", 0, "partitions of the shuffle (default 32, quick 16)")
	flags.IntVar(&o.DeviceFetches, "fetches", 0, "repetitions of device-fetch per round (default 20, quick 5)")
	flags.IntVar(&o.Device, "device", 0, "GPU of device-fetch")
	flags.Uint64Var(&o.Seed, "seed", 0, "of the random graph and rows (default 1)")
	flags.StringVar(&o.Profile, "profile", "", "folder for CPU profiles of our processes")
	flags.BoolVar(&o.Quick, "quick", false, "smaller graphs, one round")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{"case": taskbench.CaseNames(), "peers": {taskbench.PeerName}})
	return cmd
}

// tasksScript is Dask's side, relative to the repository.
const tasksScript = "tests/interop/peers/bench_tasks.py"

func (f *tasksFlags) programs() (taskbench.Programs, error) {
	p := taskbench.Programs{Go: func(ctx context.Context) *exec.Cmd {
		return ownCommand(ctx, tasksPeerName)
	}, Raw: rawDevice}
	wanted, err := onePeer(f.peers, taskbench.PeerName)
	if err != nil || !wanted {
		return p, err
	}
	python, script, err := benchpeer.FindPython(taskbench.PeerName, tasksScript, os.Environ())
	if err != nil {
		return p, err
	}
	p.Python = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, script) }
	p.Async = asyncDevice
	f.options.Peer = true
	return p, nil
}

func (f *tasksFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.shuffle != "" {
		n, err := benchfmt.ParseSize(f.shuffle)
		if err != nil {
			return cmdline.Usage(err)
		}
		f.options.ShuffleBytes = n
	}
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	programs, err := f.programs()
	if err != nil {
		return err
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			return taskbench.Run(ctx, programs, f.options, sink, progress)
		})
}

const tasksPeerName = "bench-tasks-peer"

// tasksPeerCommand is one process of the benchmark.
func tasksPeerCommand() *cobra.Command {
	return peerCommand(tasksPeerName, "One process of a benchmark; started by `bench tasks`", taskbench.Serve)
}
