package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/poolbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type poolFlags struct {
	options poolbench.Options
	sizes   string
	peers   string
	json    bool
}

// pythonAllocators is the name of all peers of `bench pool`: they come together.
const pythonAllocators = "rmm"

func poolCommand() *cobra.Command {
	f := &poolFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Time and driver calls of an allocation, beside RMM and CUDA",
		Long: `Measures how long a pool takes to give one buffer and to take it back, and counts
the calls of the CUDA driver meanwhile, by a library that stands before it and is
compiled here (cc). With --peers Python's allocators do the same in turns.

Cases
  alloc-free            memory that anybody may use
  alloc-free-on-stream  memory for one stream, in its order

Peers (all of "rmm")
  rmm-pool      RMM's pool of device memory
  cuda-async    RMM on the driver's pool (cudaMallocAsync)
  cuda-malloc   RMM on cudaMalloc

--peers fails when RMM is missing and names the command that installs it.`,
		Example: `  millstream bench pool --mem host
  millstream bench pool --peers
  millstream bench pool --size 1KiB,1MiB,64MiB --json`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	flags.StringVar(&o.Mem, "mem", "", "memory of the pool: "+strings.Join(poolbench.MemNames, ", ")+" (default cuda)")
	flags.StringVar(&f.sizes, "size", "", "sizes of a buffer (default 1MiB)")
	flags.StringVar(&f.peers, "peers", "", "compare with Python's allocators: "+pythonAllocators)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the best counts (default 5)")
	flags.DurationVar(&o.RoundTime, "round-time", 0, "length of one round (default 200ms)")
	flags.IntVar(&o.Device, "device", 0, "CUDA device of the pool")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{"case": poolbench.CaseNames, "mem": poolbench.MemNames,
		"peers": {pythonAllocators}})
	return cmd
}

func (f *poolFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := setSizes(&f.options.Sizes, f.sizes); err != nil {
		return cmdline.Usage(err)
	}
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	wanted, err := onePeer(f.peers, pythonAllocators)
	if err != nil {
		return err
	}
	var peers benchpeer.Starter
	if wanted {
		python, script, err := benchpeer.FindPython(pythonAllocators, "tests/interop/peers/bench_pool.py", os.Environ())
		if err != nil {
			return err
		}
		peers = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, script) }
	}
	own := func(ctx context.Context) *exec.Cmd { return ownCommand(ctx, poolPeerName) }
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			return poolbench.Run(ctx, own, peers, f.options, sink, progress)
		})
}

const poolPeerName = "bench-pool-peer"

// poolPeerCommand is the process whose pool `bench pool` measures.
func poolPeerCommand() *cobra.Command {
	return peerCommand(poolPeerName, "The process that `bench pool` measures", poolbench.Serve)
}
