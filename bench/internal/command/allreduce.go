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
		short: "Measure all-reduce of float32 among processes of this host",
		long: `Measure the sum of float32 arrays over processes of this host. Each competitor
runs in fresh processes, one after the other, in alternating rounds; results are
verified.

Settings
  shm       shared memory
  ucx       UCX, which uses its own shared memory
  tcp       plain comms
  python    numpy arrays in Python processes with libmillstream (make library)
  nccl      device memory, two workers of a clique on one GPU, with NCCL
  cuda      the same with kernels of Millstream over CUDA IPC

Peers
  openmpi   Open MPI, by default and with processes that yield while they wait
            (mode in the figures); compare with the better of the two
  gloo      torch.distributed with Gloo
  mpi4py    mpi4py with Open MPI, for the setting python
  nccl      a loop in C around ncclAllReduce, in processes that share the GPU,
            only for the settings nccl and cuda; the figure "form" compares the
            forming of a clique with ncclCommInit

scripts/setup collectives installs the peers. --peers fails if one is missing.`,
		example: `  millstream bench allreduce --quick
  millstream bench allreduce --peers --svg allreduce.svg
  millstream bench allreduce --peers=openmpi --ranks 2 --size 4KiB-4MiB*8 --json
  millstream bench allreduce --setting python --peers=mpi4py
  millstream bench allreduce --peers=nccl`,
		settings:  choice{chosen: &o.Settings, known: collbench.SettingNames(), help: "shm"},
		sizes:     &o.Sizes,
		sizesHelp: "sizes of the array (default 4KiB,64KiB,1MiB,8MiB,64MiB)",
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Ranks, "ranks", 0, "number of processes (default 4, on a GPU 2)")
		},
		peers:  collbench.PeerNames(),
		bare:   []string{allPeers}, // the peers of the settings: see complete
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

// allReducePeers replaces all peers by those of the settings, and returns an error for a peer of other settings.
func allReducePeers(o *collbench.Options, s *session) error {
	python := slices.Contains(o.Settings, collbench.SettingPython)
	if s.wants(allPeers) {
		switch {
		case o.OnDevice():
			s.peers = []string{collbench.NCCL}
		case python && len(o.Settings) == 1:
			s.peers = []string{collbench.MPI4Py}
		case python:
			s.peers = append(collbench.HostPeers(), collbench.MPI4Py)
		default:
			s.peers = collbench.HostPeers()
		}
	}
	for _, name := range s.peers {
		if (name == collbench.NCCL) != o.OnDevice() {
			return fmt.Errorf("peer %s does not match the settings %s: use NCCL with settings on device memory (%s), "+
				"the other peers with those on host memory", name, strings.Join(o.Settings, ", "),
				strings.Join(collbench.DeviceSettings(), ", "))
		}
		if name == collbench.MPI4Py && !python || name != collbench.MPI4Py && python && len(o.Settings) == 1 {
			return fmt.Errorf("peer %s does not match the settings %s: use mpi4py with the setting python, and no other "+
				"peer with it", name, strings.Join(o.Settings, ", "))
		}
	}
	return nil
}

// competitors returns Millstream and the requested peers.
func competitors(o *collbench.Options, s *session) ([]collbench.Competitor, error) {
	var all []collbench.Competitor
	root, _ := benchpeer.Repository()
	for _, setting := range o.Settings {
		switch {
		case o.OnDevice():
			all = append(all, collbench.OursOnDevice(setting))
		case setting == collbench.SettingPython:
			program, err := s.keep(benchpeer.FindProgram("numpy", benchpeer.ScriptNumPy, os.Environ()))
			if err != nil {
				return nil, err
			}
			ours, err := collbench.OursInPython(root, program)
			if err != nil {
				return nil, err
			}
			all = append(all, ours)
		default:
			all = append(all, collbench.Ours(setting, own(allReducePeerName)))
		}
	}
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
		case collbench.MPI4Py:
			python, err := collbench.FindMPI4Py(os.Environ())
			if err != nil {
				return nil, err
			}
			program, err := s.keep(benchpeer.Unpack(python, benchpeer.ScriptNumPy))
			if err != nil {
				return nil, err
			}
			all = append(all, collbench.MPI4PyOf(program)...)
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

// allReducePeerCommand is a process of the benchmark.
func allReducePeerCommand() *cobra.Command {
	return peerCommand(allReducePeerName, "Process of `bench allreduce`", collbench.Serve)
}
