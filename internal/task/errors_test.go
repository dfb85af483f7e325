package task

import (
	"strings"
	"testing"
)

// A path is shortened from thirteen steps on: to two rounds of a cycle of up to four steps that repeats at least three
// times, otherwise to its ends.
func TestShortPathLimits(t *testing.T) {
	steps := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("." + string(rune('a'+i)))
		}
		return b.String()
	}
	for _, c := range []struct{ path, want string }{
		{steps(maxPath), steps(maxPath)},
		{steps(maxPath + 1), ".a.b.c.d.e.f….h.i.j.k.l.m"},
		{steps(10) + ".x.x", steps(10) + ".x.x"},
		{steps(10) + ".x.x.x", steps(10) + ".x.x… (cycle)"},
		{steps(11) + ".x.x", ".a.b.c.d.e.f….h.i.j.k.x.x"},
		{steps(7) + strings.Repeat(".x.y", 3), steps(7) + ".x.y.x.y… (cycle)"},
		{steps(9) + strings.Repeat(".x.y", 2), ".a.b.c.d.e.f….h.i.x.y.x.y"},
		{strings.Repeat(".w.x.y.z", 4), ".w.x.y.z.w.x.y.z… (cycle)"},
		{strings.Repeat(".v.w.x.y.z", 3), ".v.w.x.y.z.v….z.v.w.x.y.z"},
		{strings.Repeat("[0]", 13), "[0][0]… (cycle)"},
		{strings.Repeat(".m[k]", 7), ".m[k].m[k]… (cycle)"},
	} {
		if got := shortPath(c.path); got != c.want {
			t.Errorf("%s: got %s, want %s", c.path, got, c.want)
		}
	}
}

func TestPathSteps(t *testing.T) {
	for path, want := range map[string]string{
		"": "", ".A": ".A", "[3]": "[3]", ".Rows[3].Lock": ".Rows|[3]|.Lock", "[0][1]": "[0]|[1]", ".a.b": ".a|.b",
	} {
		if got := strings.Join(pathSteps(path), "|"); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
