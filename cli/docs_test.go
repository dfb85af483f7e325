package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```(?:sh|bash|console|ini)?\n(.*?)^```$")
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	// invocation is a command of this program, or of one that calls Serve, with its arguments.
	invocation = regexp.MustCompile(`\b(?:millstream|program|tutorial|myworker) ([a-z][a-z-]*(?: [^#|;&\n]*)?)`)
	longFlag   = regexp.MustCompile(`(?:^|[ \["])--([a-z][a-z0-9-]*)`)
)

// invocations returns the command lines in the code of a document, without the name of the program.
func invocations(text string) []string {
	var code strings.Builder
	for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
		code.WriteString(strings.ReplaceAll(m[1], "\\\n", " "))
	}
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		code.WriteString(m[1] + "\n")
	}
	var lines []string
	for _, m := range invocation.FindAllStringSubmatch(code.String(), -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// unknownFlags returns the flags of a command line that the command does not have; ok reports whether there is
// such a command.
func unknownFlags(root *cobra.Command, line string) (unknown []string, ok bool) {
	cmd, _, err := root.Find(strings.Fields(line))
	if err != nil || cmd == root {
		return nil, false
	}
	for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
		if m[1] != "help" && m[1] != "version" && cmd.Flag(m[1]) == nil {
			unknown = append(unknown, "--"+m[1])
		}
	}
	return unknown, true
}

// Command lines in the documents name commands and flags that exist. Benchmarks are another program.
func TestDocumentedFlags(t *testing.T) {
	root := Command()
	pages, err := filepath.Glob(filepath.Join("..", "docs", "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join("..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range invocations(string(text)) {
			if strings.HasPrefix(line, "bench") {
				continue
			}
			unknown, ok := unknownFlags(root, line)
			if ok {
				n++
			}
			if len(unknown) > 0 {
				t.Errorf("%s: %q has unknown flags %q", filepath.Base(page), line, unknown)
			}
		}
	}
	if n < 60 {
		t.Errorf("got %d command lines, want at least 60", n)
	}
}

func TestUnknownFlags(t *testing.T) {
	const text = "`millstream worker --nthreads 2` and `millstream worker --nthread 2`\n\n```sh\nprogram scheduler \\\n" +
		"  --journal DIR --jornal DIR  # --comment\n```\n"
	var got []string
	for _, line := range invocations(text) {
		unknown, ok := unknownFlags(Command(), line)
		if !ok {
			t.Errorf("%q is no command", line)
		}
		got = append(got, unknown...)
	}
	if want := "--jornal --nthread"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
