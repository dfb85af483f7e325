package doctor

import (
	"errors"
	"testing"
)

func TestPython(t *testing.T) {
	found := func(p Python) func(*Host) { return func(h *Host) { h.Python = &p } }
	good := Python{Path: "/usr/bin/python3", Version: "3.12.1", Distributed: "2026.7.1",
		Isolation: []string{"another user id", "net namespace"}}
	half, broken := good, good
	half.Missing = []string{"another user id: permission denied (move it)"}
	broken.Error = errors.New("it crashes")
	runCases(t, checkPython, []checkCase{
		{name: "sandbox", change: found(good), want: want{OK, []string{"3.12.1", "2026.7.1", "net namespace"}}},
		{name: "half", change: found(half), want: want{Warn,
			[]string{"without a full sandbox", "permission denied (move it)"}}},
		{name: "broken", change: found(broken), want: want{Warn, []string{"it crashes", "import distributed"}}},
		{name: "none", change: found(Python{Error: errors.New("tried /a and /b")}),
			want: want{Info, []string{"tried /a and /b", "pip install distributed"}}},
		{name: "elsewhere", change: found(Python{Error: errors.New("tried /a"), Candidate: "/venv/bin/python"}),
			want: want{Info, []string{"tried /a", "MILLSTREAM_PYTHON=/venv/bin/python"}}},
	})
	if f := checkPython(&Host{}); len(f) != 1 || f[0].Severity != Info {
		t.Errorf("not checked: %v", f)
	}
}
