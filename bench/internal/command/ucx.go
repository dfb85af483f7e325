package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/ucxbench"
	"go.millstream.dev/internal/proc/cmdline"
)

type ucxFlags struct {
	options ucxbench.Options
	sizes   string
	peers   []string
	json    bool
}

// allPeers is the value of a bare --peers.
const allPeers = "all"

func ucxCommand() *cobra.Command { return ucxFlagsCommand(&ucxFlags{}) }

func ucxFlagsCommand(f *ucxFlags) *cobra.Command {
	o := &f.options
	cmd := &cobra.Command{
		Use:   "ucx",
		Short: "Latency, bandwidth and message rate of the ucx package between two processes",
		Long: `Measures the ucx package between two processes of this host, through its public
functions, with a context in every call. Payloads are verified outside the
timed part. Each setting runs in two fresh processes, because UCX reads its
environment once.

Cases
` + caseList() + `
Settings
  shm       UCX_TLS=self,shm
  tcp       UCX_TLS=self,tcp
  auto      nothing set: UCX chooses
  cuda_ipc  device memory between two processes of one GPU host

Peers
  ucx_perftest     UCX's own C benchmark, with the same library
  ucxx-async       Python's UCXX, asyncio interface
  ucxx-core        Python's UCXX, core interface, polling
  error-mode-none  Millstream without noticing a dead peer (not part of "all")

--peers fails when a peer is missing and names the command that installs it.`,
		Example: `  millstream bench ucx --quick
  millstream bench ucx --quick --peers --json
  millstream bench ucx --case tag-lat,tag-bw --setting shm --size 8,1KiB-1MiB*8 --peers=ucx_perftest`,
		Args: func(_ *cobra.Command, args []string) error { return f.peerArguments(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all but idle-cpu and ipc-map)")
	flags.StringSliceVar(&o.Settings, "setting", nil, "transports: "+strings.Join(ucxbench.SettingNames, ", ")+
		" (default shm,tcp,auto)")
	flags.StringSliceVar(&o.Modes, "mode", nil, "progress modes: "+strings.Join(ucxbench.ModeNames, ", ")+
		" (default spin)")
	flags.StringSliceVar(&o.Mems, "mem", nil, "payload memory: "+strings.Join(ucxbench.MemNames, ", ")+
		" (default heap,buffer)")
	flags.StringSliceVar(&o.Endpoints, "endpoint", nil, "how the pair connects: "+
		strings.Join(ucxbench.EndpointNames, ", ")+" (default lifeline)")
	flags.StringVar(&f.sizes, "size", "", "message sizes, such as 8,1KiB-1MiB or 1KiB-1MiB*4 (default: by case)")
	flags.StringSliceVar(&f.peers, "peers", nil, "compare with these programs; without a value, with all")
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the best counts (default 5, quick 2)")
	flags.DurationVar(&o.RoundTime, "round-time", 0, "length of one round (default 200ms, quick 50ms)")
	flags.DurationVar(&o.IdleTime, "idle-time", 0, "length of idle-cpu (default 5s, quick 1s)")
	flags.IntVar(&o.Window, "window", 0, "outstanding operations in bandwidth cases (default 32)")
	flags.IntVar(&o.Goroutines, "goroutines", 0, "goroutines of tag-rate (default 64)")
	flags.IntVar(&o.Device, "device", 0, "CUDA device for --mem cuda and cuda-pool")
	flags.BoolVar(&o.Quick, "quick", false, "a run of less than 30 s: fewer cases, sizes and rounds")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{
		"case": ucxbench.CaseNames(), "setting": ucxbench.SettingNames, "mode": ucxbench.ModeNames,
		"mem":      ucxbench.MemNames,
		"endpoint": ucxbench.EndpointNames, "peers": ucxbench.PeerNames,
	})
	return cmd
}

func caseList() string {
	var out strings.Builder
	for _, c := range ucxbench.Cases() {
		fmt.Fprintf(&out, "  %-11s %s\n", c.Name, c.About)
	}
	return out.String()
}

// peerArguments takes `--peers ucx_perftest` (with a blank) as meant: a flag
// that may stand alone cannot take the next word, so the word arrives here.
func (f *ucxFlags) peerArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	bare := slices.Index(f.peers, allPeers)
	var names []string
	for _, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			if bare < 0 || !slices.Contains(ucxbench.PeerNames, name) {
				return cmdline.Usagef("unexpected argument %q", arg)
			}
			names = append(names, name)
		}
	}
	f.peers = slices.Replace(f.peers, bare, bare+1, names...)
	return nil
}

func (f *ucxFlags) complete() error {
	for _, name := range f.peers {
		if name == allPeers {
			f.options.Peers = append(f.options.Peers, ucxbench.DefaultPeers...)
		} else {
			f.options.Peers = append(f.options.Peers, name)
		}
	}
	slices.Sort(f.options.Peers)
	f.options.Peers = slices.Compact(f.options.Peers)
	if err := setSizes(&f.options.Sizes, f.sizes); err != nil {
		return err
	}
	return f.options.Complete()
}

// setSizes reads --size. A flag that is not given leaves the benchmark's own.
func setSizes(sizes *[]int64, flag string) error {
	if flag == "" {
		return nil
	}
	list, err := benchfmt.ParseSizes(flag)
	if err == nil {
		*sizes = list
	}
	return err
}

func (f *ucxFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.complete(); err != nil {
		return cmdline.Usage(err)
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			return ucxbench.Run(ctx, ucxbench.SelfStarter(ucxPeerName), f.options, sink, progress)
		})
}
