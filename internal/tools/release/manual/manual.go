// Package manual writes manual pages and shell completions from a command tree, so that they say what --help says.
package manual

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"go.millstream.dev/internal/tools/release/archive"
)

// Pages returns a page of section 1 for each command of the tree, named after the command.
func Pages(root *cobra.Command, version string, at time.Time) []archive.File {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var files []archive.File
	for _, cmd := range tree(root) {
		files = append(files, archive.File{Name: pageName(cmd) + ".1", Mode: 0o644, Data: page(cmd, version, at)})
	}
	return files
}

// tree returns a command and its visible subcommands.
func tree(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, tree(c)...)
		}
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func page(cmd *cobra.Command, version string, at time.Time) []byte {
	cmd.InitDefaultHelpFlag()
	var b bytes.Buffer
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 %s %q %q\n", quote(strings.ToUpper(name)), quote(at.UTC().Format(time.DateOnly)),
		cmd.Root().Name()+" "+version, "User Commands")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name), escape(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", escape(cmd.CommandPath()), escape(arguments(cmd)))
	section(&b, "DESCRIPTION", cmp.Or(cmd.Long, cmd.Short))
	flags(&b, "OPTIONS", cmd.NonInheritedFlags())
	flags(&b, "INHERITED OPTIONS", cmd.InheritedFlags())
	section(&b, "EXAMPLES", cmd.Example)
	related(&b, cmd)
	return b.Bytes()
}

// arguments returns what follows the name in the usage line.
func arguments(cmd *cobra.Command) string {
	_, rest, _ := strings.Cut(cmd.Use, " ")
	if cmd.HasAvailableSubCommands() {
		rest = strings.TrimSpace(rest + " COMMAND")
	}
	if cmd.HasAvailableFlags() {
		rest = strings.TrimSpace("[flags] " + rest)
	}
	return rest
}

// section writes text with the line breaks that it has on a terminal.
func section(b *bytes.Buffer, title, text string) {
	if text = strings.Trim(text, "\n"); text == "" {
		return
	}
	fmt.Fprintf(b, ".SH %s\n.nf\n%s\n.fi\n", title, escape(text))
}

func flags(b *bytes.Buffer, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		names := "--" + f.Name
		if f.Shorthand != "" {
			names = "-" + f.Shorthand + ", " + names
		}
		line := fmt.Sprintf(".TP\n\\fB%s\\fR", escape(names))
		if kind != "" {
			line += " \\fI" + escape(kind) + "\\fR"
		}
		if !slices.Contains([]string{"", "false", "0", "[]", "0s"}, f.DefValue) &&
			!strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "%s\n%s\n", line, escape(usage))
	})
}

// related writes the names of the parent and of the subcommands.
func related(b *bytes.Buffer, cmd *cobra.Command) {
	var names []string
	if cmd.HasParent() {
		names = append(names, pageName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, pageName(c))
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = "\\fB" + escape(name) + "\\fR(1)"
	}
	if len(names) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(names, ",\n"))
	}
}

// escape returns text in which roff finds no requests: hyphens that can be copied, no dots at the beginning of a line,
// only ASCII.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func quote(s string) string { return `"` + escape(s) + `"` }

// Completions returns the completions of bash, zsh and fish in the folders below a prefix where the shells look.
func Completions(root *cobra.Command) ([]archive.File, error) {
	name := root.Name()
	var files []archive.File
	for _, shell := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{"share/bash-completion/completions/" + name,
			func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"share/zsh/site-functions/_" + name, root.GenZshCompletion},
		{"share/fish/vendor_completions.d/" + name + ".fish",
			func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
	} {
		var b bytes.Buffer
		if err := shell.write(&b); err != nil {
			return nil, fmt.Errorf("manual: %s: %w", shell.path, err)
		}
		files = append(files, archive.File{Name: shell.path, Mode: 0o644, Data: b.Bytes()})
	}
	return files, nil
}
