package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"go.millstream.dev/bench/internal/kmeansbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/cmdline"
)

type kmeansFlags struct {
	options kmeansbench.Options
	peers   string
	json    bool
	svg     string
}

func kmeansCommand() *cobra.Command {
	f := &kmeansFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "kmeans",
		Short: "k-means of a distributed frame, on CPU and GPU, beside scikit-learn",
		Long: `Measures a fit of k-means, labels included, on a local cluster: the rows are in
partitions on worker processes, which share sums through a clique. With --peers
scikit-learn fits the same numbers from the same centres in as many threads.
Each fit does all its iterations; inertia and sizes of the groups must agree.
Where there is a GPU, workers with it fit the same numbers, which are on the
device before, beside the CPU's.

Peers
  sklearn      scikit-learn; it comes with scripts/setup sklearn

--peers fails when the peer is missing and names the command that installs it.`,
		Example: `  millstream bench kmeans --quick
  millstream bench kmeans --peers --svg kmeans.svg
  millstream bench kmeans --device on --workers 4 --threads 4
  millstream bench kmeans --peers --k 8 --type float64 --json`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&o.Rows, "rows", 0, "rows of the data (default 1000000, quick 100000)")
	flags.IntVar(&o.Features, "features", 0, "columns of the data (default 32)")
	flags.IntSliceVar(&o.K, "k", nil, "numbers of groups (default 8,32,128, quick 8)")
	flags.StringSliceVar(&o.Types, "type", nil, "types of the numbers (default float64,float32)")
	flags.IntVar(&o.Iterations, "iterations", 0, "iterations of a fit (default 10)")
	flags.StringVar(&f.peers, "peers", "", "compare with this program: "+kmeansbench.PeerName)
	flags.Lookup("peers").NoOptDefVal = allPeers
	flags.IntVar(&o.Rounds, "rounds", 0, "alternating rounds; the best counts (default 5, quick 2)")
	flags.IntVar(&o.Workers, "workers", 0, "worker processes (default 2)")
	flags.IntVar(&o.Threads, "threads", 0, "threads of each worker (default 1)")
	flags.StringVar((*string)(&o.Device), "device", string(kmeansbench.DeviceAuto), "also on the GPU: auto (if there "+
		"is one), on, off")
	flags.IntVar(&o.GPUWorkers, "gpu-workers", 0, "worker processes that share the GPU (default 1)")
	flags.BoolVar(&o.Quick, "quick", false, "fewer rows and rounds")
	flags.BoolVar(&f.json, "json", false, "one JSON object per figure and line, on standard output")
	flags.StringVar(&f.svg, "svg", "", "write a plot to this file")
	completeFlags(cmd, map[string][]string{"type": kmeansbench.Types, "peers": {kmeansbench.PeerName},
		"device": {string(kmeansbench.DeviceAuto), string(kmeansbench.DeviceOn), string(kmeansbench.DeviceOff)}})
	return cmd
}

// sklearn starts scikit-learn's side, nil if it is not wanted.
func (f *kmeansFlags) sklearn() (benchpeer.Starter, error) {
	wanted, err := onePeer(f.peers, kmeansbench.PeerName)
	if err != nil || !wanted {
		return nil, err
	}
	root, ok := benchpeer.Repository()
	if !ok {
		return nil, &benchpeer.MissingError{Peer: kmeansbench.PeerName, Reason: "no sources of Millstream around the " +
			"working folder or the program", Fix: "cd to the repository"}
	}
	python := filepath.Join(root, ".local/sklearn/env/bin/python")
	script := filepath.Join(root, "tests/interop/peers/bench_kmeans.py")
	for _, p := range []string{python, script} {
		if _, err := os.Stat(p); err != nil {
			return nil, &benchpeer.MissingError{Peer: kmeansbench.PeerName, Reason: "no " + p,
				Fix: "scripts/setup sklearn"}
		}
	}
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, script) }, nil
}

func (f *kmeansFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.options.Complete(); err != nil {
		return cmdline.Usage(err)
	}
	peer, err := f.sklearn()
	if err != nil {
		return err
	}
	return report{json: f.json, rounds: f.options.Rounds}.of(stdout, stderr,
		func(sink benchfmt.Sink, progress *benchfmt.Progress) error {
			if f.svg == "" {
				return kmeansbench.Run(ctx, peer, f.options, sink, progress)
			}
			kept := &keptFigures{sink: sink}
			if err := kmeansbench.Run(ctx, peer, f.options, kept, progress); err != nil {
				return err
			}
			return writeSVG(f.svg, kmeansbench.Plot(kept.figures))
		})
}
