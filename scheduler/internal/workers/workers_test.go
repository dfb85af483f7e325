package workers

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The cause of a death is one short line, whatever a peer sends.
func TestCleanCause(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "  exit code 3\n": "exit code 3", "a\nb\tc": "a b c", "bad\xff": "bad?", "\x1b[31mred": "[31mred",
		" \n\t": "",
	} {
		if got := CleanCause(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 2*MaxCause), strings.Repeat("ü", MaxCause),
		strings.Repeat("x", MaxCause-1) + "ü"} {
		got := CleanCause(long)
		if len(got) > MaxCause+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes: got %d, ending with %q", len(long), len(got), got[len(got)-6:])
		}
	}
}
