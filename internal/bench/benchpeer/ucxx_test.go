package benchpeer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseUCXX(t *testing.T) {
	v, err := parseUCXX("[1.0] UCX WARN something\n{\"value\": 19.5, \"unit\": \"us\"}\n\n")
	if err != nil || v != 19.5 {
		t.Errorf("%v, %v", v, err)
	}
	for text, want := range map[string]string{
		"":                           "no result",
		"no json":                    "no result",
		"{broken":                    "invalid character",
		`{"unit":"us"}`:              "no value",
		`{"error":"no CUDA device"}`: "no CUDA device",
	} {
		if _, err := parseUCXX(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFindUCXXMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	find := func(want string, environ ...string) {
		t.Helper()
		var missing *MissingError
		u, err := FindUCXX(UCXXAsyncName, environ)
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("FindUCXX with %q = %v, %v; want a MissingError with %q", environ, u, err, want)
		}
	}
	find("export MILLSTREAM_PEER_PYTHON=PYTHON")
	find("no Python with the packages of the peer at /nowhere/python; run `scripts/setup peers`",
		"MILLSTREAM_PEER_PYTHON=/nowhere/python")
	if err := os.MkdirAll(filepath.Dir(marker), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marker, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	find(".local/venv/bin/python; run `scripts/setup peers`")
}

// An installed program has its peers with it: no repository is needed.
func TestProgramsAreCarried(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	environ := []string{"MILLSTREAM_PEER_PYTHON=" + os.Args[0]}
	for _, script := range []string{ScriptAllReduce, ScriptNumPy, ScriptComm, ScriptDask, ScriptKMeans, ScriptPool,
		ScriptTasks, ScriptUCXX} {
		p, err := FindProgram("x", script, environ)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Start(t.Context()).Args, []string{os.Args[0], p.Script}; !slices.Equal(got, want) {
			t.Errorf("%s: command %q, want %q", script, got, want)
		}
		for _, name := range []string{script, "benchlib.py"} {
			if _, err := os.Stat(filepath.Join(filepath.Dir(p.Script), name)); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Errorf("%s: Close: %v", script, err)
			}
		}
	}
	if p, err := FindProgram("x", "none.py", environ); err == nil {
		t.Errorf("none.py: got %v, want an error", p)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v; want nothing", left, err)
	}
	if err := (*Program)(nil).Close(); err != nil {
		t.Errorf("Close of nil: %v", err)
	}
}

// The real Python peer measures something believable in each case; make test
// installs it.
func TestUCXXRealPeer(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  UCXXRun
	}{
		{UCXXAsyncName, UCXXRun{Case: "tag-lat", Size: 8}},
		{UCXXCoreName, UCXXRun{Case: "tag-bw", Size: 64 << 10}},
		{UCXXAsyncName, UCXXRun{Case: "idle-cpu", Size: 8, Seconds: 0.2}},
	} {
		t.Run(tc.name+"/"+tc.run.Case, func(t *testing.T) {
			u, err := FindUCXX(tc.name, os.Environ())
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			tc.run.Iterations, tc.run.Warmup, tc.run.Window, tc.run.Memory = 50, 5, 4, "host"
			tc.run.Env = []string{"UCX_TLS=self,tcp"}
			v, err := u.Run(t.Context(), tc.run)
			if err != nil || v <= 0 {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	u, err := FindUCXX(UCXXAsyncName, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.Run(t.Context(), UCXXRun{Case: "no-such-case", Iterations: 1, Memory: "host"}); err == nil ||
		!strings.Contains(err.Error(), "no-such-case") {
		t.Errorf("error %v", err)
	}
}
