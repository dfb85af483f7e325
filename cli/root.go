package cli

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/proc/stdio"
)

const rootLong = `Millstream is the RAPIDS communications stack for Go: UCX for moving host and
GPU memory between processes and machines, and a cluster that runs Go functions
with Dask's protocol.

Start with
  millstream demo       a cluster on this machine computes; the lanes it uses
  millstream doctor     what this machine lacks, and how to fix it
  millstream info       which UCX library is used and what it can do
  millstream scheduler  the scheduler of a cluster, and
  millstream worker     its workers; cuda-worker: one on each GPU
  millstream status     the workers and tasks of a running cluster

Environment
  MILLSTREAM_UCX_LIBRARY  path of the libucp.so to use
  MILLSTREAM_IFNAME       network interface whose address is advertised
  UCX_*                   UCX's own settings; never overridden
  NO_COLOR                no color in reports

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted (Ctrl-C).
The first Ctrl-C cancels, the second ends the process at once.`

// Command returns a new command tree. Every call returns a tree of its own,
// so that tests and embedding programs do not share flag values.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "millstream",
		Short: "The RAPIDS communications stack for Go",
		Long:  rootLong,
		Args:  noSuchCommand,
		RunE:  showHelp,
	}
	completeRoot(root)
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Start here:"},
		&cobra.Group{ID: groupCluster, Title: "Run a cluster:"},
		&cobra.Group{ID: groupMeasure, Title: "Measure:"},
	)
	addCommands(root, infoCommand(), doctorCommand(), demoCommand(), configCommand(), versionCommand(),
		schedulerCommand(), workerCommand(), cudaWorkerCommand(), statusCommand(), journalCommand(), benchCommand(),
		benchPeerCommand(), benchCommPeerCommand(), benchTasksPeerCommand(), benchPoolPeerCommand(), benchStagedPeerCommand())
	return root
}

// completeRoot sets what the roots of all trees have in common.
func completeRoot(root *cobra.Command) {
	root.Version = Version()
	root.SilenceErrors = true // Run prints the one line
	root.SilenceUsage = true  // a failed command is no reason to print its manual
	root.SetVersionTemplate(versionTemplate)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{suggestFlag(cmd, err)} })
	root.SetHelpCommandGroupID("")
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
}

const versionTemplate = "millstream {{.Version}}\n"

// addCommands adds commands to a root.
func addCommands(root *cobra.Command, commands ...*cobra.Command) {
	root.AddCommand(commands...)
	for _, cmd := range commands {
		cmd.SetVersionTemplate(versionTemplate)
	}
}

// helpWidth is the width of help that does not go to a terminal.
const helpWidth = 80

func init() {
	cobra.AddTemplateFunc("helpWidth", func(cmd *cobra.Command) int { return cmp.Or(stdio.Width(cmd.OutOrStdout()), helpWidth) })
}

// usageTemplate wraps the flags to the width of the terminal.
func usageTemplate(template string) string {
	return regexp.MustCompile(`(\.\w+Flags)\.FlagUsages\b`).ReplaceAllString(template, "$1.FlagUsagesWrapped (helpWidth .)")
}

// unknownCommand finds a misspelled command in a command line. Without it `--help` behind the
// name would print the help of the command above, as if all were well.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || rest[0] == "help" || rest[0] == "completion" || strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	return noSuchCommand(cmd, rest)
}

// Groups of the root's help.
const (
	groupStart   = "start"
	groupCluster = "cluster"
	groupMeasure = "measure"
)

// showHelp is the action of a command that only holds others.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noSuchCommand rejects an argument where a command name belongs.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets only in its own check
	msg := "unknown command %q"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef(msg, args[0])
}

// noArgs rejects any argument, as a usage error.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
