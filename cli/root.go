package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"go.millstream.dev/cli/internal/guide"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/proc/revision"
)

const rootLong = `Millstream is the RAPIDS communications stack for Go: UCX for moving host and
GPU memory between processes and machines, and a cluster that runs Go functions
with Dask's protocol.

Start with
  millstream demo       run a cluster on this machine, and show its transports
  millstream doctor     find what this machine lacks, and how to fix it
  millstream info       show the UCX library and its transports
  millstream scheduler  run the scheduler of a cluster
  millstream worker     run workers; cuda-worker: one for each GPU
  millstream status     show the workers and tasks of a running cluster
  millstream top        the same, live
  millstream report     write the dashboard of a cluster into one HTML file
  millstream docs       serve the guide for a browser

Environment
  MILLSTREAM_UCX_LIBRARY  path of the libucp.so to use
  MILLSTREAM_IFNAME       network interface of the advertised address
  UCX_*                   settings of UCX; never overridden
  NO_COLOR                disables color in reports

Exit codes: 0 success, 1 failure, 2 invalid command line, 130 Ctrl-C.
The first Ctrl-C cancels the command, the second ends the process immediately.`

// Command returns a new command tree. Trees share no flag values.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "millstream",
		Short: "The RAPIDS communications stack for Go",
		Long:  rootLong,
		Args:  cmdline.NoSuchCommand,
		RunE:  cmdline.ShowHelp,
	}
	prepare(root)
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Start here:"},
		&cobra.Group{ID: groupCluster, Title: "Run a cluster:"},
		&cobra.Group{ID: groupMeasure, Title: "Measure:"},
	)
	addCommands(root, infoCommand(), doctorCommand(), demoCommand(), configCommand(), versionCommand(),
		schedulerCommand(), workerCommand(), cudaWorkerCommand(), statusCommand(), topCommand(), reportCommand(),
		journalCommand(), benchCommand(),
		guide.Command(groupStart), demoPeerCommand())
	return root
}

const versionTemplate = "millstream {{.Version}}\n"

// prepare applies the settings that all roots of this package have in common.
func prepare(root *cobra.Command) {
	cmdline.Prepare(root)
	root.Version = Version()
	root.SetVersionTemplate(versionTemplate)
}

// addCommands adds commands to a root.
func addCommands(root *cobra.Command, commands ...*cobra.Command) {
	root.AddCommand(commands...)
	for _, cmd := range commands {
		cmd.SetVersionTemplate(versionTemplate)
	}
}

// Groups in the help of the root command.
const (
	groupStart   = "start"
	groupCluster = "cluster"
	groupMeasure = "measure"
)

// release is set by the release build: -ldflags "-X go.millstream.dev/cli.release=v1.2.3".
var release string

// Version returns the release (or the module version, or "devel"), the commit if the build recorded one, the Go version
// and the platform.
func Version() string {
	version, commit := release, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		if c, _ := revision.Of(info); c != "" {
			commit = " " + c
		}
	}
	if version == "" {
		version = "devel"
	}
	return fmt.Sprintf("%s%s (%s %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		GroupID: groupStart,
		Long:    "Print the release, the commit, the Go version and the platform.",
		Example: "  millstream version",
		Args:    cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "millstream "+Version())
			return err
		},
	}
}
