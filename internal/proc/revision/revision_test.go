package revision

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		settings []debug.BuildSetting
		commit   string
		changed  bool
	}{
		{nil, "", false},
		{[]debug.BuildSetting{{Key: "CGO_ENABLED", Value: "1"}}, "", false},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: strings.Repeat("0123456789", 4)},
			{Key: "vcs.modified", Value: "false"}}, "012345678901", false},
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}}, "abc", true},
	} {
		if commit, changed := Of(&debug.BuildInfo{Settings: c.settings}); commit != c.commit || changed != c.changed {
			t.Errorf("%v: got %q, %v, want %q, %v", c.settings, commit, changed, c.commit, c.changed)
		}
	}
}
