package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/collbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func allReduceCommand() *cobra.Command {
	o := &collbench.Options{}
	return benchmark{
		name:  "allreduce",
		short: "All-reduce of float32 among processes of this host",
		long: `Measures the sum of float32 arrays over processes of this host, the collective
that cliques spend their time in. Each competitor runs in fresh processes, one
after the other, in alternating rounds; results are checked.

Settings
  shm       memory that the processes share
  ucx       UCX, which uses shared memory of its own
  tcp       plain comms
  nccl      device memory, two workers of a clique on one GPU, by NCCL
  cuda      the same by Millstream's own kernels over CUDA IPC

Peers
  openmpi   Open MPI, as it is and with processes that yield while they wait
            (mode in the figures); compare with the better of the two
  gloo      torch.distributed with Gloo
  nccl      a loop in C around ncclAllReduce, in processes that share the GPU:
            for the settings nccl and cuda, which it is measured with alone;
            the figure "form" is forming a clique beside NCCL's own init

The peers come with scripts/setup collectives. --peers fails when one is missing.`,
		example: `  millstream bench allreduce --quick
  millstream bench allreduce --peers --svg allreduce.svg
  millstream bench allreduce --peers=openmpi --ranks 2 --size 4KiB-4MiB*8 --json
  millstream bench allreduce --peers=nccl`,
		settings:  choice{chosen: &o.Settings, known: collbench.SettingNames(), help: "shm"},
		sizes:     &o.Sizes,
		sizesHelp: "sizes of the array (default 4KiB,64KiB,1MiB,8MiB,64MiB)",
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Ranks, "ranks", 0, "number of processes (default 4, on a GPU 2)")
		},
		peers:  collbench.PeerNames(),
		bare:   []string{allPeers}, // those of the settings: see complete
		rounds: &o.Rounds, roundsHelp: "5, quick 2",
		roundTime: &o.RoundTime, roundTimeHelp: "500ms, quick 150ms, for each size",
		quick: &o.Quick, quickHelp: "fewer and shorter rounds",
		complete: func(s *session) error {
			if len(o.Settings) == 0 && slices.Equal(s.peers, []string{collbench.NCCL}) {
				o.Settings = collbench.DeviceSettings()
			}
			if err := o.Complete(); err != nil {
				return err
			}
			return allReducePeers(o, s)
		},
		prepare: func(s *session) (measurement, error) {
			all, err := competitors(o, s)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				if slices.Contains(o.Settings, collbench.SettingNCCL) {
					if err := collbench.RunForm(ctx, *o, sink, progress); err != nil {
						return err
					}
				}
				return collbench.Run(ctx, all, *o, sink, progress)
			}, nil
		},
		plot: func(figures []benchfmt.Figure) io.WriterTo { return collbench.Plot(figures, o.Ranks) },
	}.command()
}

// allReducePeers replaces all peers by those of the settings, and returns an error for one that is not of them.
func allReducePeers(o *collbench.Options, s *session) error {
	if s.wants(allPeers) {
		if s.peers = collbench.HostPeers(); o.OnDevice() {
			s.peers = []string{collbench.NCCL}
		}
	}
	for _, name := range s.peers {
		if (name == collbench.NCCL) != o.OnDevice() {
			return fmt.Errorf("peer %s and the settings %s: NCCL is measured with the settings on device memory (%s), "+
				"the others with those on the host's", name, strings.Join(o.Settings, ", "),
				strings.Join(collbench.DeviceSettings(), ", "))
		}
	}
	return nil
}

// competitors are ours and the peers that were asked for.
func competitors(o *collbench.Options, s *session) ([]collbench.Competitor, error) {
	var all []collbench.Competitor
	for _, setting := range o.Settings {
		if o.OnDevice() {
			all = append(all, collbench.OursOnDevice(setting))
		} else {
			all = append(all, collbench.Ours(setting, own(allReducePeerName)))
		}
	}
	root, _ := benchpeer.Repository()
	for _, name := range s.peers {
		switch name {
		case collbench.NCCL:
			found, err := collbench.FindNCCL(root)
			if err != nil {
				return nil, err
			}
			all = append(all, found)
		case collbench.OpenMPI:
			found, err := collbench.FindOpenMPI(root)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		case collbench.Gloo:
			python, err := collbench.FindTorch(os.Environ())
			if err != nil {
				return nil, err
			}
			program, err := s.keep(benchpeer.Unpack(python, benchpeer.ScriptAllReduce))
			if err != nil {
				return nil, err
			}
			all = append(all, collbench.GlooOf(program))
		}
	}
	return all, nil
}

const allReducePeerName = "bench-allreduce-rank"

// allReducePeerCommand is one of the processes that measure.
func allReducePeerCommand() *cobra.Command {
	return peerCommand(allReducePeerName, "One process of a benchmark; started by `bench allreduce`", collbench.Serve)
}
