package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/commbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
)

func commCommand() *cobra.Command {
	o := &commbench.Options{}
	return benchmark{
		name:  "comm",
		short: "Measure Dask messages between two processes",
		long: `Measure Dask messages over package comm between two processes of this host: each
message is encoded, sent, decoded, encoded again and sent back (within one process
nothing is encoded, as in Dask). With --peers two Python processes with
distributed.comm do the same in alternating rounds, and so do Go and Python
together (endpoint go-client and python-client in the figures), which are also
compared with Python alone.

Cases
` + aboutList(commbench.Cases(), func(c commbench.Case) (string, string) { return c.Name, c.About }) + `
Settings
` + aboutList(commbench.Settings(), func(s commbench.Setting) (string, string) { return s.Name, s.About }) + `
Peers
  dask         distributed.comm; scripts/setup peers installs it

--peers fails if the peer is missing and prints the command that installs it.`,
		example: `  millstream bench comm --quick
  millstream bench comm --peers --json
  millstream bench comm --case small-rtt --setting tcp,inproc`,
		cases:    choice{chosen: &o.Cases, known: commbench.CaseNames()},
		settings: choice{chosen: &o.Settings, known: commbench.SettingNames()},
		flags: func(flags *pflag.FlagSet) {
			flags.DurationVar(&o.IdleTime, "idle-time", 0, "duration of idle-cpu (default 5s, quick 2s)")
		},
		peers:  []string{commbench.PeerName},
		rounds: &o.Rounds, roundsHelp: "5, quick 2",
		roundTime: &o.RoundTime, roundTimeHelp: "300ms, quick 100ms",
		quick: &o.Quick, quickHelp: "fewer and shorter rounds",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			programs, err := commPrograms(s)
			if err != nil {
				return nil, err
			}
			o.Peer = s.wants(commbench.PeerName)
			o.Mixed = o.Peer
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return commbench.Run(ctx, programs, *o, sink, progress)
			}, nil
		},
	}.command()
}

// commPrograms returns the programs of the processes, with Python if requested.
func commPrograms(s *session) (commbench.Programs, error) {
	p := commbench.Programs{Go: commpeer.Starter(own(commPeerName))}
	if !s.wants(commbench.PeerName) {
		return p, nil
	}
	python, err := s.python(commbench.PeerName, benchpeer.ScriptComm)
	if err != nil {
		return p, err
	}
	p.Python = python.Start
	if library := pythonUCX(python.Python); library != "" && os.Getenv("MILLSTREAM_UCX_LIBRARY") == "" {
		p.Go = func(ctx context.Context) *exec.Cmd {
			cmd := ownCommand(ctx, commPeerName)
			cmd.Env = append(cmd.Environ(), "MILLSTREAM_UCX_LIBRARY="+library)
			return cmd
		}
	}
	return p, nil
}

// pythonUCX returns the UCX library in the packages of a Python, or "". Both sides of a connection need similar
// releases, and a comparison the same one.
func pythonUCX(python string) string {
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python),
		"../lib/python3*/site-packages/libucx/lib/libucp.so.0"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

const commPeerName = "bench-comm-peer"

// commPeerCommand is one of the two processes of a pair.
func commPeerCommand() *cobra.Command {
	return peerCommand(commPeerName, "Process of `bench comm`", commpeer.Serve)
}
