package command

import (
	"context"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/stagebench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/ucx"
)

type stagedFlags struct {
	options stagebench.Options
	sizes   string
	peers   string
	json    bool
}

// stagedPeer is the program that both peers of `bench staged` are runs of.
const stagedPeer = "ucx_perftest"

func stagedCommand() *cobra.Command {
	f := &stagedFlags{}
	o := &f.options
	cases, settings := stagebench.Names()
	cmd := &cobra.Command{
		Use:   "staged",
		Short: "GPU memory between two processes that have neither cuda_ipc nor RDMA",
		Long: `Measures frames on a GPU between two processes of this host over Millstream's
comms, which move them in chunks through pinned host memory and over several
connections. Data is checked before it is timed. With --peers UCX's own way does
the same in turns, by cuda_copy and tcp: as it comes (peer "ucx") and with the
best of several tunings (peer "ucx-tuned").

Cases
` + aboutList(stagebench.Cases(), func(c stagebench.Case) (string, string) { return c.Name, c.About }) + `
Settings
` + aboutList(stagebench.Settings(), func(s stagebench.Setting) (string, string) { return s.Name, s.About }) + `
--peers fails when ucx_perftest is missing and names the command that installs
it; it must be one with CUDA.`,
		Example: `  millstream bench staged --peers
  millstream bench staged --lines 1 --setting tcp
  millstream bench staged --size 1MiB,16MiB,1GiB --json`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	flags.StringSliceVar(&o.Settings, "setting", nil, "settings to run (default: all)")
	flags.StringVar(&f.sizes, "size", "", "sizes of a message (default 64MiB,256MiB)")
	flags.IntVar(&o.Lines, "lines", 0, "connections a message goes over (default that of comms)")
	flags.StringVar(&f.peers, "peers", "", "compare with UCX's own way: "+stagedPeer)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the best counts (default 3)")
	flags.DurationVar(&o.RoundTime, "round-time", 0, "length of one round of ours (default 400ms)")
	flags.IntVar(&o.Device, "device", 0, "CUDA device of both processes")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{"case": cases, "setting": settings, "peers": {stagedPeer}})
	return cmd
}

func (f *stagedFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := setSizes(&f.options.Sizes, f.sizes); err != nil {
		return cmdline.Usage(err)
	}
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	programs := stagebench.Programs{Go: func(ctx context.Context) *exec.Cmd { return ownCommand(ctx, stagedPeerName) }}
	wanted, err := onePeer(f.peers, stagedPeer)
	if err != nil {
		return err
	}
	if wanted {
		library := ""
		if lib, err := ucx.Library(); err == nil {
			library = lib.Path
		}
		perftest, err := benchpeer.FindPerftest(library, os.Environ())
		if err != nil {
			return err
		}
		programs.UCX = perftest
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			return stagebench.Run(ctx, programs, f.options, sink, progress)
		})
}

const stagedPeerName = "bench-staged-peer"

// stagedPeerCommand is one of the two processes of a pair.
func stagedPeerCommand() *cobra.Command {
	return peerCommand(stagedPeerName, "One process of a benchmark pair; started by `bench staged`",
		func(ctx context.Context, in io.Reader, out io.Writer) error {
			return stagebench.Serve(ctx, in, out, stagebench.CUDAMemory)
		})
}
