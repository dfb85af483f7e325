package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		root := serverTree(filepath.Base(os.Args[0]))
		os.Exit(cmdline.RunProcess(root, preloadArgs(root, os.Args[1:])))
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

// preloadArgs moves flags that a command does not have behind "--", where the arguments of --preload are: Dask passes
// unknown flags to preloads. Without --preload they stay, and are errors.
func preloadArgs(root *cobra.Command, args []string) []string {
	isPreload := func(a string) bool { return a == "--preload" || strings.HasPrefix(a, "--preload=") }
	if !slices.ContainsFunc(args, isPreload) {
		return args
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Flags().Lookup("preload") == nil {
		return args
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var known, extra []string
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if a == "--" {
			extra = append(extra, rest[i+1:]...)
			break
		}
		name, _, joined := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !strings.HasPrefix(a, "--") {
			known = append(known, a)
			continue
		}
		f := cmd.Flag(name)
		value := !joined && i+1 < len(rest)
		switch {
		case f == nil:
			extra = append(extra, a)
			if value && (!strings.HasPrefix(rest[i+1], "-") || isNumber(rest[i+1])) {
				i++
				extra = append(extra, rest[i])
			}
		case value && f.NoOptDefVal == "":
			known = append(known, a, rest[i+1])
			i++
		default:
			known = append(known, a)
		}
	}
	out := append(slices.Clone(args[:len(args)-len(rest)]), known...)
	if len(extra) == 0 {
		return out
	}
	return append(append(out, "--"), extra...)
}

// isNumber reports whether an argument that begins with "-" is a negative number.
func isNumber(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err == nil
}
