package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"go.millstream.dev/cli"
	"go.millstream.dev/internal/bench/ucxbench"
	"go.millstream.dev/internal/proc/cmdline"
)

// Command returns a new command tree of the benchmarks. Its name is `millstream bench`, the command that starts this
// program.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:         "millstream-bench",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "millstream bench"},
		Version:     cli.Version(),
		Short:       "Measure Millstream, alone or against peers",
		Long: `Benchmarks run Millstream and, with --peers, the programs to compare with in one
run, in alternating rounds, and print the best of each and their ratio.

With --json every figure is one line:
  {"bench":"ucx","case":"tag-lat","setting":"shm","transport":"posix","mode":"spin",
   "size":8,"unit":"us","ours":0.40,"peer":"ucx_perftest","theirs":0.26,
   "ratio":1.54,"better":"lower"}
peer, theirs and ratio are present only if a peer ran; ratio is ours/theirs.
setting is the requested one, transport is the one in use.`,
		Args: cmdline.NoSuchCommand,
		RunE: cmdline.ShowHelp,
	}
	cmdline.Prepare(root)
	root.SetVersionTemplate("millstream {{.Version}}\n")
	root.AddCommand(ucxCommand(), commCommand(), tasksCommand(), daskCommand(), kmeansCommand(), allReduceCommand(),
		poolCommand(), stagedCommand(), reportCommand(), ucxPeerCommand(), commPeerCommand(), tasksPeerCommand(),
		allReducePeerCommand(),
		poolPeerCommand(), stagedPeerCommand())
	for _, f := range frameBenches {
		root.AddCommand(frameCommand(f))
	}
	return root
}

// peerCommand returns a hidden command for a process of a benchmark, which communicates with its parent over standard
// input and output.
func peerCommand(name, short string, serve func(ctx context.Context, in io.Reader,
	out io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:    name,
		Short:  short,
		Hidden: true,
		Args:   cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

const ucxPeerName = "bench-peer"

// ucxPeerCommand is one of the two processes of `bench ucx`.
func ucxPeerCommand() *cobra.Command {
	return peerCommand(ucxPeerName, "Process of `bench ucx`",
		func(ctx context.Context, in io.Reader, out io.Writer) error {
			return ucxbench.Serve(ctx, in, out, ucxbench.NewSide())
		})
}
