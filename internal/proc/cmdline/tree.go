package cmdline

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/proc/stdio"
)

// Prepare sets the common properties of the roots of all command trees.
func Prepare(root *cobra.Command) {
	root.SilenceErrors = true // Run prints the one line
	root.SilenceUsage = true  // a failed command does not print its usage
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return UsageError{SuggestFlag(cmd, err)} })
	root.SetHelpCommandGroupID("")
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
}

// helpWidth is the width of help that is not written to a terminal.
const helpWidth = 80

func init() {
	cobra.AddTemplateFunc("helpWidth", func(cmd *cobra.Command) int {
		return cmp.Or(stdio.Width(cmd.OutOrStdout()), helpWidth)
	})
}

// usageTemplate wraps the flags to the width of the terminal.
func usageTemplate(template string) string {
	return regexp.MustCompile(`(\.\w+Flags)\.FlagUsages\b`).ReplaceAllString(template,
		"$1.FlagUsagesWrapped (helpWidth .)")
}

// unknownCommand finds a misspelled command in a command line. Without it `--help` after the name would print the help
// of the parent command.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") ||
		rest[0] == "help" || rest[0] == "completion" || strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	return NoSuchCommand(cmd, rest)
}

// ShowHelp is the action of a command that only has subcommands.
func ShowHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// NoSuchCommand rejects an argument where a command name belongs.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets only in its own check
	msg := "unknown command %q"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef(msg, args[0])
}

// NoArgs rejects any argument, as a usage error.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unexpected argument %q", args[0])
	}
	return nil
}
