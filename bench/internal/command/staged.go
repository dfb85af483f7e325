package command

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/stagebench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/ucx"
)

// stagedPeer is the peer that measures UCX.
const stagedPeer = benchpeer.PerftestName

func stagedCommand() *cobra.Command {
	o := &stagebench.Options{}
	cases, settings := stagebench.Names()
	return benchmark{
		name:  "staged",
		short: "Measure staged transfers of GPU memory between two processes",
		long: `Measure GPU frames between two processes of this host over comms of Millstream,
which move them in chunks through pinned host memory and over several connections.
Data is verified before it is timed. With --peers UCX does the same in alternating
rounds, with cuda_copy and tcp: with defaults (peer "ucx") and with the best of
several tunings (peer "ucx-tuned").

Cases
` + aboutList(stagebench.Cases(), func(c stagebench.Case) (string, string) { return c.Name, c.About }) + `
Settings
` + aboutList(stagebench.Settings(), func(s stagebench.Setting) (string, string) { return s.Name, s.About }) + `
--peers fails if ucx_perftest is missing and prints the command that installs
it; it must support CUDA.`,
		example: `  millstream bench staged --peers
  millstream bench staged --lines 1 --setting tcp
  millstream bench staged --size 1MiB,16MiB,1GiB --json`,
		cases:     choice{chosen: &o.Cases, known: cases},
		settings:  choice{chosen: &o.Settings, known: settings},
		sizes:     &o.Sizes,
		sizesHelp: "sizes of a message (default 64MiB,256MiB)",
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Lines, "lines", 0, "number of connections of a message (default: that of comms)")
			flags.IntVar(&o.Device, "device", 0, "CUDA device of both processes")
		},
		peers:  []string{stagedPeer},
		rounds: &o.Rounds, roundsHelp: "3, quick 2",
		roundTime: &o.RoundTime, roundTimeHelp: "400ms, quick 100ms",
		quick: &o.Quick, quickHelp: "fewer and shorter rounds",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			programs := stagebench.Programs{Go: own(stagedPeerName)}
			if s.wants(stagedPeer) {
				library := ""
				if lib, err := ucx.Library(); err == nil {
					library = lib.Path
				}
				perftest, err := benchpeer.FindPerftest(library, os.Environ())
				if err != nil {
					return nil, err
				}
				programs.UCX = perftest
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return stagebench.Run(ctx, programs, *o, sink, progress)
			}, nil
		},
	}.command()
}

const stagedPeerName = "bench-staged-peer"

// stagedPeerCommand is one of the two processes of a pair.
func stagedPeerCommand() *cobra.Command {
	return peerCommand(stagedPeerName, "Process of `bench staged`",
		func(ctx context.Context, in io.Reader, out io.Writer) error {
			return stagebench.Serve(ctx, in, out, stagebench.CUDAMemory)
		})
}
