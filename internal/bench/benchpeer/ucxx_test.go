package benchpeer

import (
	"errors"
	"os"
	"path/filepath"
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
	var missing *MissingError
	if _, err := FindUCXX(UCXXAsyncName, nil); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "cd to the repository") {
		t.Errorf("outside the repository: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(ucxxScript), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ucxxScript, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := FindUCXX(UCXXAsyncName, nil); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "scripts/setup peers") ||
		!strings.Contains(err.Error(), ".local/venv/bin/python") {
		t.Errorf("without a Python: %v", err)
	}
	if _, err := FindUCXX(UCXXCoreName, []string{"MILLSTREAM_PEER_PYTHON=/nowhere/python"}); !errors.As(err,
		&missing) || !strings.Contains(err.Error(), "/nowhere/python") {
		t.Errorf("named Python: %v", err)
	}
	u, err := FindUCXX(UCXXCoreName, []string{"MILLSTREAM_PEER_PYTHON=" + os.Args[0]})
	if err != nil || u.Name() != UCXXCoreName {
		t.Errorf("%v, %v", u, err)
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
	if _, err := u.Run(t.Context(), UCXXRun{Case: "no-such-case", Iterations: 1, Memory: "host"}); err == nil ||
		!strings.Contains(err.Error(), "no-such-case") {
		t.Errorf("error %v", err)
	}
}
