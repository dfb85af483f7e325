package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/ucxbench"
)

func ucxCommand() *cobra.Command { return ucxBenchmark(&ucxbench.Options{}).command() }

func ucxBenchmark(o *ucxbench.Options) benchmark {
	return benchmark{
		name:  "ucx",
		short: "Measure latency, bandwidth and message rate of package ucx",
		long: `Measure package ucx between two processes of this host, through its public
functions, with a context in every call. Payloads are verified outside the timed
part. Each setting runs in two fresh processes, because UCX reads its environment
once.

Cases
` + aboutList(ucxbench.Cases(), func(c ucxbench.Case) (string, string) { return c.Name, c.About }) + `
Settings
  shm       UCX_TLS=self,shm
  tcp       UCX_TLS=self,tcp
  auto      defaults of UCX
  cuda_ipc  device memory between two processes of one GPU host

Peers
  ucx_perftest     C benchmark of UCX, with the same library
  ucxx-async       Python package UCXX, asyncio API
  ucxx-core        Python package UCXX, core API, polling
  error-mode-none  Millstream without detection of lost peers (not part of "all")

--peers fails if a peer is missing and prints the command that installs it.`,
		example: `  millstream bench ucx --quick
  millstream bench ucx --quick --peers --json
  millstream bench ucx --case tag-lat,tag-bw --setting shm --size 8,1KiB-1MiB*8 --peers=ucx_perftest`,
		cases:     choice{chosen: &o.Cases, known: ucxbench.CaseNames(), help: "all but idle-cpu and ipc-map"},
		settings:  choice{chosen: &o.Settings, known: ucxbench.SettingNames, help: "shm,tcp,auto"},
		sizes:     &o.Sizes,
		sizesHelp: "message sizes, such as 8,1KiB-1MiB or 1KiB-1MiB*4 (default: by case)",
		flags: func(flags *pflag.FlagSet) {
			flags.StringSliceVar(&o.Modes, "mode", nil, "progress modes: "+strings.Join(ucxbench.ModeNames, ", ")+
				" (default spin)")
			flags.StringSliceVar(&o.Mems, "mem", nil, "payload memory: "+strings.Join(ucxbench.MemNames, ", ")+
				" (default heap,buffer)")
			flags.StringSliceVar(&o.Endpoints, "endpoint", nil, "kind of endpoint: "+
				strings.Join(ucxbench.EndpointNames, ", ")+" (default lifeline)")
			flags.DurationVar(&o.IdleTime, "idle-time", 0, "duration of idle-cpu (default 5s, quick 1s)")
			flags.IntVar(&o.Window, "window", 0, "number of outstanding operations in bandwidth cases (default 32)")
			flags.IntVar(&o.Goroutines, "goroutines", 0, "number of goroutines of tag-rate (default 64)")
			flags.IntVar(&o.Device, "device", 0, "CUDA device for --mem cuda and cuda-pool")
			flags.IntVar(&o.Stage, "stage", 0, "size up to which tag-lat moves device memory through host memory, "+
				"in bytes (default 0)")
		},
		values: map[string][]string{"mode": ucxbench.ModeNames, "mem": ucxbench.MemNames,
			"endpoint": ucxbench.EndpointNames},
		peers:  ucxbench.PeerNames,
		bare:   ucxbench.DefaultPeers,
		rounds: &o.Rounds, roundsHelp: "5, quick 2",
		roundTime: &o.RoundTime, roundTimeHelp: "200ms, quick 50ms",
		quick: &o.Quick, quickHelp: "run of less than 30 s: fewer cases, sizes and rounds",
		complete: func(s *session) error {
			o.Peers = s.peers
			return o.Complete()
		},
		prepare: func(*session) (measurement, error) {
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return ucxbench.Run(ctx, ucxbench.SelfStarter(ucxPeerName), *o, sink, progress)
			}, nil
		},
	}
}
