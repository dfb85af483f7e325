package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Run works without touching the process: own writers, own tree each time.
func TestRunIsReentrant(t *testing.T) {
	for range 2 {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), []string{"--version"}, nil, &out, &errs); code != ExitOK ||
			!strings.HasPrefix(out.String(), "millstream ") || errs.Len() != 0 {
			t.Errorf("code %d, out %q, err %q", code, out.String(), errs.String())
		}
		out.Reset()
		if code := Run(t.Context(), []string{"demo", "--part", "x"}, nil, &out, &errs); code != ExitUsage ||
			out.Len() != 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("code %d, out %q, err %q", code, out.String(), errs.String())
		}
	}
}

// Every command explains itself: a short line, a long text or an example.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range Command().Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Short == "" || cmd.Long == "" || cmd.GroupID == "" {
			t.Errorf("%s: short %q, long %q, group %q", cmd.Name(), cmd.Short, cmd.Long, cmd.GroupID)
		}
		for line := range strings.Lines(cmd.Long) {
			if len([]rune(line)) > 82 {
				t.Errorf("%s: help line of %d characters: %q", cmd.Name(), len([]rune(line)), line)
			}
		}
	}
}
