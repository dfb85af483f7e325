package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/poolbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// pythonAllocators is the name of all peers of `bench pool`, which are measured together.
const pythonAllocators = "rmm"

func poolCommand() *cobra.Command {
	o := &poolbench.Options{}
	return benchmark{
		name:  "pool",
		short: "Measure allocations of memory pools, and their driver calls",
		long: `Measure how long a pool takes to allocate and release one buffer, and count calls
of the CUDA driver meanwhile, with a library in front of the driver that is
compiled here (cc). With --peers Python allocators do the same in alternating
rounds.

Cases
  alloc-free            memory for any use
  alloc-free-on-stream  memory for one stream, in its order

Peers (all of "rmm")
  rmm-pool      RMM pool of device memory
  cuda-async    RMM with the pool of the driver (cudaMallocAsync)
  cuda-malloc   RMM with cudaMalloc

--peers fails if RMM is missing and prints the command that installs it.`,
		example: `  millstream bench pool --mem host
  millstream bench pool --peers
  millstream bench pool --size 1KiB,1MiB,64MiB --json`,
		cases:     choice{chosen: &o.Cases, known: poolbench.CaseNames},
		sizes:     &o.Sizes,
		sizesHelp: "sizes of a buffer (default 1MiB)",
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&o.Mem, "mem", "", "memory of the pool: "+strings.Join(poolbench.MemNames, ", ")+
				" (default cuda)")
			flags.IntVar(&o.Device, "device", 0, "CUDA device of the pool")
		},
		values: map[string][]string{"mem": poolbench.MemNames},
		peers:  []string{pythonAllocators},
		rounds: &o.Rounds, roundsHelp: "5, quick 2",
		roundTime: &o.RoundTime, roundTimeHelp: "200ms, quick 50ms",
		quick: &o.Quick, quickHelp: "fewer and shorter rounds",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			var peers benchpeer.Starter
			if s.wants(pythonAllocators) {
				python, err := s.python(pythonAllocators, benchpeer.ScriptPool)
				if err != nil {
					return nil, err
				}
				peers = python.Start
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return poolbench.Run(ctx, own(poolPeerName), peers, *o, sink, progress)
			}, nil
		},
	}.command()
}

const poolPeerName = "bench-pool-peer"

// poolPeerCommand is the process of the pool.
func poolPeerCommand() *cobra.Command {
	return peerCommand(poolPeerName, "Process of `bench pool`", poolbench.Serve)
}
