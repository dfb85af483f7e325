package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/commbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type commFlags struct {
	options commbench.Options
	peers   string
	json    bool
}

func commCommand() *cobra.Command {
	f := &commFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "comm",
		Short: "Round trips, echoes and idle cost of Dask messages between two processes",
		Long: `Measures Dask messages over package comm between two processes of this host: each
message is encoded, sent, decoded, encoded again and sent back (within one process
nothing is encoded, as in Dask). With --peers the
same is done by two Python processes with distributed.comm, in alternating rounds,
and by Go and Python together (endpoint go-client and python-client in the
figures), which is compared with Python and Python as well.

Cases
` + aboutList(commbench.Cases(), func(c commbench.Case) (string, string) { return c.Name, c.About }) + `
Settings
` + aboutList(commbench.Settings(), func(s commbench.Setting) (string, string) { return s.Name, s.About }) + `
Peers
  dask         distributed.comm; its packages come with scripts/setup peers

--peers fails when the peer is missing and names the command that installs it.`,
		Example: `  millstream bench comm --quick
  millstream bench comm --peers --json
  millstream bench comm --case small-rtt --setting tcp,inproc`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.Cases, "case", nil, "cases to run (default: all)")
	flags.StringSliceVar(&o.Settings, "setting", nil, "settings to run (default: all)")
	flags.StringVar(&f.peers, "peers", "", "compare with this program: "+commbench.PeerName)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds per figure; the best counts (default 5, quick 2)")
	flags.DurationVar(&o.RoundTime, "round-time", 0, "length of one round (default 300ms, quick 100ms)")
	flags.DurationVar(&o.IdleTime, "idle-time", 0, "length of idle-cpu (default 5s, quick 2s)")
	flags.BoolVar(&o.Quick, "quick", false, "fewer and shorter rounds")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	completeFlags(cmd, map[string][]string{
		"case": commbench.CaseNames(), "setting": commbench.SettingNames(), "peers": {commbench.PeerName},
	})
	return cmd
}

// aboutList is the lines of a help text: name and what it is.
func aboutList[T any](list []T, about func(T) (name, text string)) string {
	var out strings.Builder
	for _, v := range list {
		name, text := about(v)
		fmt.Fprintf(&out, "  %-12s %s\n", name, text)
	}
	return out.String()
}

// commScript is the Python process of a pair, relative to the repository.
const commScript = "tests/interop/peers/bench_comm.py"

func (f *commFlags) programs() (commbench.Programs, error) {
	p := commbench.Programs{Go: func(ctx context.Context) *exec.Cmd { return ownCommand(ctx, commPeerName) }}
	wanted, err := onePeer(f.peers, commbench.PeerName)
	if err != nil || !wanted {
		return p, err
	}
	python, script, err := benchpeer.FindPython(commbench.PeerName, commScript, os.Environ())
	if err != nil {
		return p, err
	}
	p.Python = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, script) }
	if library := pythonUCX(python); library != "" && os.Getenv("MILLSTREAM_UCX_LIBRARY") == "" {
		own := p.Go
		p.Go = func(ctx context.Context) *exec.Cmd {
			cmd := own(ctx)
			cmd.Env = append(cmd.Environ(), "MILLSTREAM_UCX_LIBRARY="+library)
			return cmd
		}
	}
	f.options.Peer, f.options.Mixed = true, true
	return p, nil
}

// pythonUCX is the UCX that Python's packages bring, or "". Both sides of a connection need
// like releases, and a comparison the same one.
func pythonUCX(python string) string {
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python),
		"../lib/python3*/site-packages/libucx/lib/libucp.so.0"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

func (f *commFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	programs, err := f.programs()
	if err != nil {
		return err
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			return commbench.Run(ctx, programs, f.options, sink, progress)
		})
}

const commPeerName = "bench-comm-peer"

// commPeerCommand is one of the two processes of a pair.
func commPeerCommand() *cobra.Command {
	return peerCommand(commPeerName, "One process of a benchmark pair; started by `bench comm`", commpeer.Serve)
}
