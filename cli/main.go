package cli

import (
	"context"
	"io"
	"os"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/cmdline"
)

// Exit codes of the millstream binary.
const (
	ExitOK          = cmdline.ExitOK
	ExitFailure     = cmdline.ExitFailure
	ExitUsage       = cmdline.ExitUsage
	ExitInterrupted = cmdline.ExitInterrupted
	ExitTerminated  = cmdline.ExitTerminated
)

// Main runs the command line of this process with Ctrl-C handling and returns its exit code.
func Main() int {
	cluster.Main() // does not return in a worker process
	root := Command()
	return cmdline.RunProcess(root, preloadArgs(root, helpForBench(os.Args[1:])))
}

// Run runs one command line and returns the exit code. An error is written to stderr as one line. Canceling ctx ends
// the command.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Command()
	return cmdline.Run(ctx, root, preloadArgs(root, helpForBench(args)), stdin, stdout, stderr)
}
