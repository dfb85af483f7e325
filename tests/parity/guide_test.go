package parity

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/tools/tree"
)

// section returns the lines of a text from a heading to the next one of the same rank.
func section(text, heading string) string {
	_, rest, ok := strings.Cut("\n"+text, "\n## "+heading+"\n")
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// firstQuoted returns what stands in backticks in the first column of a section's table.
func firstQuoted(text string) []string {
	var out []string
	for _, cell := range firstColumn(text) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// unsaid returns the messages that no source has, part by part between their "…".
func unsaid(messages []string, source string) []string {
	var out []string
	for _, m := range messages {
		for part := range strings.SplitSeq(m, "…") {
			if part = strings.TrimSpace(part); part != "" && !strings.Contains(source, part) {
				out = append(out, part)
			}
		}
	}
	return out
}

// literals joins string literals that are concatenated over several lines.
var literals = regexp.MustCompile(`"\s*\+\s*"`)

// TestTroubleshooting keeps the guide in step with the errors that the packages return. Package cli/internal/doctor
// compares the guide with its checks.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "guide", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		section, folder string
	}{{"Errors", "ucx/"}, {"Errors of clusters", ""}} {
		t.Run(c.section, func(t *testing.T) {
			messages := firstQuoted(section(string(text), c.section))
			if len(messages) < 10 {
				t.Errorf("got %d messages, want at least 10: %q", len(messages), messages)
			}
			if gone := unsaid(messages, sources(t, c.folder)); len(gone) > 0 {
				t.Errorf("no source in %q has %q", c.folder, gone)
			}
		})
	}
}

// sources returns the text of all Go files below a folder that are no tests.
func sources(t *testing.T, folder string) string {
	t.Helper()
	files, err := tree.Files(root)
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range tree.GoFiles(files) {
		if !strings.HasPrefix(name, folder) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	return literals.ReplaceAllString(source.String(), "")
}

func TestUnsaid(t *testing.T) {
	const text = "# T\n\n## A\n\n| id | b |\n|---|---|\n| `x`, `y` | `z` |\n\n## Errors\n\n| m | w |\n|---|---|\n| " +
		"`one … two` | |\n| `three` | |\n"
	if got := firstQuoted(section(text, "A")); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("ids %q", got)
	}
	messages := firstQuoted(section(text, "Errors"))
	if got := unsaid(messages, `errors.New("one %d two")`); !slices.Equal(got, []string{"three"}) {
		t.Errorf("unsaid %q of %q", got, messages)
	}
	if got := section(text, "B"); got != "" {
		t.Errorf("a section that is not there: %q", got)
	}
}
