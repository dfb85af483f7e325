package command

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/bench/internal/kmeansbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func kmeansCommand() *cobra.Command {
	o := &kmeansbench.Options{}
	return benchmark{
		name:  "kmeans",
		short: "Measure k-means of a distributed frame, on CPU and GPU",
		long: `Measure a fit of k-means, including labels, on a local cluster: the rows are in
partitions on worker processes, which share sums in a clique. With --peers
scikit-learn fits the same data from the same centers with as many threads. Each
fit runs all its iterations; inertia and group sizes must agree. If there is a
GPU, workers with GPUs fit the same data, which is copied to the device first,
for comparison with the CPU.

Peers
  sklearn      scikit-learn; scripts/setup sklearn installs it

--peers fails if the peer is missing and prints the command that installs it.`,
		example: `  millstream bench kmeans --quick
  millstream bench kmeans --peers --svg kmeans.svg
  millstream bench kmeans --device on --workers 4 --threads 4
  millstream bench kmeans --peers --k 8 --type float64 --json`,
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&o.Rows, "rows", 0, "number of rows of the data (default 1000000, quick 100000)")
			flags.IntVar(&o.Features, "features", 0, "number of columns of the data (default 32)")
			flags.IntSliceVar(&o.K, "k", nil, "numbers of groups (default 8,32,128, quick 8)")
			flags.StringSliceVar(&o.Types, "type", nil, "types of the data (default float64,float32)")
			flags.IntVar(&o.Iterations, "iterations", 0, "number of iterations of a fit (default 10)")
			flags.IntVar(&o.Workers, "workers", 0, "number of worker processes (default 2)")
			flags.IntVar(&o.Threads, "threads", 0, "number of threads of each worker (default 1)")
			flags.StringVar((*string)(&o.Device), "device", string(kmeansbench.DeviceAuto), "fits on the GPU: auto "+
				"(if there is a GPU), on, off")
			flags.IntVar(&o.GPUWorkers, "gpu-workers", 0, "number of worker processes on the GPU (default 1)")
		},
		values: map[string][]string{"type": kmeansbench.Types, "device": {string(kmeansbench.DeviceAuto),
			string(kmeansbench.DeviceOn), string(kmeansbench.DeviceOff)}},
		peers:  []string{kmeansbench.PeerName},
		rounds: &o.Rounds, roundsHelp: "5, quick 2",
		quick: &o.Quick, quickHelp: "fewer rows and rounds",
		complete: func(*session) error { return o.Complete() },
		prepare: func(s *session) (measurement, error) {
			var peer benchpeer.Starter
			if s.wants(kmeansbench.PeerName) {
				python, err := benchpeer.Interpreter{Peer: kmeansbench.PeerName, Variable: "MILLSTREAM_SKLEARN_PYTHON",
					Path: ".local/sklearn/env/bin/python", Setup: "scripts/setup sklearn"}.Find(os.Environ())
				if err != nil {
					return nil, err
				}
				program, err := s.keep(benchpeer.Unpack(python, benchpeer.ScriptKMeans))
				if err != nil {
					return nil, err
				}
				peer = program.Start
			}
			return func(ctx context.Context, sink benchfmt.Sink, progress *benchfmt.Progress) error {
				return kmeansbench.Run(ctx, peer, *o, sink, progress)
			}, nil
		},
		plot: func(figures []benchfmt.Figure) io.WriterTo { return kmeansbench.Plot(figures) },
	}.command()
}
