package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/cmdline"
)

// serverCommands are the commands that Serve adds to a program.
var serverCommands = []string{"scheduler", "worker", "cuda-worker"}

// Serve adds the commands of a cluster to a program. If the first argument is scheduler, worker or cuda-worker, it runs
// that command with the flags of `millstream` and the functions of the program, and exits with its exit code. With any
// other first argument, or none, it returns. Call it after millstream.Main at the start of main, before the program
// parses its arguments; it does not return in a worker process either.
func Serve() {
	cluster.Main()
	if isServer(os.Args) {
		os.Exit(cmdline.RunProcess(serverTree(filepath.Base(os.Args[0])), os.Args[1:]))
	}
}

// isServer reports whether a command line starts a server.
func isServer(args []string) bool { return len(args) > 1 && slices.Contains(serverCommands, args[1]) }

// serverTree returns the command tree for a program name.
func serverTree(name string) *cobra.Command {
	root := &cobra.Command{Use: name, Short: "A program on a Millstream cluster", Args: cmdline.NoSuchCommand,
		RunE: cmdline.ShowHelp}
	prepare(root)
	root.AddGroup(&cobra.Group{ID: groupCluster, Title: "Run a cluster:"})
	addCommands(root, schedulerCommand(), workerCommand(), cudaWorkerCommand())
	for _, cmd := range root.Commands() {
		cmd.Example = strings.ReplaceAll(cmd.Example, "  millstream ", "  "+name+" ")
	}
	return root
}
