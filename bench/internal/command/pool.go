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

// pythonAllocators is the name of all peers of `bench pool`: they come together.
const pythonAllocators = "rmm"

func poolCommand() *cobra.Command {
	o := &poolbench.Options{}
	return benchmark{
		name:  "pool",
		short: "Time and driver calls of an allocation, beside RMM and CUDA",
		long: `Measures how long a pool takes to give one buffer and to take it back, and counts
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

// poolPeerCommand is the process whose pool `bench pool` measures.
func poolPeerCommand() *cobra.Command {
	return peerCommand(poolPeerName, "The process that `bench pool` measures", poolbench.Serve)
}
