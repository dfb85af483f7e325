package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/collbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type allReduceFlags struct {
	options collbench.Options
	sizes   string
	peers   []string
	json    bool
	svg     string
}

func allReduceCommand() *cobra.Command {
	f := &allReduceFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "All-reduce of float32 among processes of this host",
		Long: `Measures the sum of float32 arrays over processes of this host, the collective
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
		Example: `  millstream bench allreduce --quick
  millstream bench allreduce --peers --svg allreduce.svg
  millstream bench allreduce --peers=openmpi --ranks 2 --size 4KiB-4MiB*8 --json
  millstream bench allreduce --peers=nccl`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&o.Ranks, "ranks", 0, "number of processes (default 4, on a GPU 2)")
	flags.StringSliceVar(&o.Settings, "setting", nil, "settings: "+strings.Join(collbench.SettingNames(), ", "))
	flags.StringVar(&f.sizes, "size", "", "sizes of the array (default 4KiB,64KiB,1MiB,8MiB,64MiB)")
	flags.StringSliceVar(&f.peers, "peers", nil, "compare with these programs; without a value, with all")
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds; the best counts (default 5, quick 2)")
	flags.DurationVar(&o.RoundTime, "round-time", 0, "time for one size (default 500ms, quick 150ms)")
	flags.BoolVar(&o.Quick, "quick", false, "fewer and shorter rounds")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	flags.StringVar(&f.svg, "svg", "", "write a plot to this file")
	completeFlags(cmd, map[string][]string{"setting": collbench.SettingNames(), "peers": collbench.PeerNames()})
	return cmd
}

// competitors are ours and the peers that were asked for.
func (f *allReduceFlags) competitors() ([]collbench.Competitor, error) {
	var all []collbench.Competitor
	for _, s := range f.options.Settings {
		if f.options.OnDevice() {
			all = append(all, collbench.OursOnDevice(s))
			continue
		}
		all = append(all, collbench.Ours(s, func(ctx context.Context) *exec.Cmd {
			return ownCommand(ctx, allReducePeerName)
		}))
	}
	peers := f.peers
	if slices.Contains(peers, allPeers) {
		peers = collbench.HostPeers()
		if f.options.OnDevice() {
			peers = []string{collbench.NCCL}
		}
	}
	if len(peers) == 0 {
		return all, nil
	}
	for _, name := range peers {
		if !slices.Contains(collbench.PeerNames(), name) {
			return nil, cmdline.Usagef("unknown peer %q; there are %s", name, strings.Join(collbench.PeerNames(), ", "))
		}
		if (name == collbench.NCCL) != f.options.OnDevice() {
			return nil, cmdline.Usagef("peer %s and the settings %s: NCCL is measured with the settings on device "+
				"memory (%s), the others with those on the host's",
				name, strings.Join(f.options.Settings, ", "), strings.Join(collbench.DeviceSettings(), ", "))
		}
	}
	root, ok := benchpeer.Repository()
	if !ok && !f.options.OnDevice() { // NCCL's loop may be anywhere
		return nil, &benchpeer.MissingError{Peer: peers[0], Reason: "no sources of Millstream around the working " +
			"folder or the program", Fix: "cd to the repository"}
	}
	for _, name := range peers {
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
			found, err := collbench.FindGloo(root)
			if err != nil {
				return nil, err
			}
			all = append(all, found)
		}
	}
	return all, nil
}

func (f *allReduceFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := setSizes(&f.options.Sizes, f.sizes); err != nil {
		return cmdline.Usage(err)
	}
	if len(f.options.Settings) == 0 && len(f.peers) == 1 && f.peers[0] == collbench.NCCL {
		f.options.Settings = collbench.DeviceSettings()
	}
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	all, err := f.competitors()
	if err != nil {
		return err
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			if slices.Contains(f.options.Settings, collbench.SettingNCCL) {
				if err := collbench.RunForm(ctx, f.options, sink, progress); err != nil {
					return err
				}
			}
			if f.svg == "" {
				return collbench.Run(ctx, all, f.options, sink, progress)
			}
			kept := &keptFigures{sink: sink}
			if err := collbench.Run(ctx, all, f.options, kept, progress); err != nil {
				return err
			}
			return writeSVG(f.svg, collbench.Plot(kept.figures, f.options.Ranks))
		})
}

// keptFigures passes figures on and keeps them for a plot.
type keptFigures struct {
	sink    benchfmt.Sink
	figures []benchfmt.Figure
}

func (k *keptFigures) Add(f benchfmt.Figure) error {
	k.figures = append(k.figures, f)
	return k.sink.Add(f)
}

func (k *keptFigures) Close() error { return k.sink.Close() }

// writeSVG writes a plot to a file.
func writeSVG(path string, plot io.WriterTo) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := plot.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

const allReducePeerName = "bench-allreduce-rank"

// allReducePeerCommand is one of the processes that measure.
func allReducePeerCommand() *cobra.Command {
	return peerCommand(allReducePeerName, "One process of a benchmark; started by `bench allreduce`", collbench.Serve)
}
