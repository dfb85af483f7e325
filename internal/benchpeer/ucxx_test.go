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
	if _, err := FindUCXX(UCXXAsyncName, nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "cd to the repository") {
		t.Errorf("outside the repository: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(ucxxScript), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ucxxScript, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := FindUCXX(UCXXAsyncName, nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "scripts/setup peers") || !strings.Contains(err.Error(), ".local/venv/bin/python") {
		t.Errorf("without a Python: %v", err)
	}
	if _, err := FindUCXX(UCXXCoreName, []string{"MILLSTREAM_PEER_PYTHON=/nowhere/python"}); !errors.As(err, &missing) || !strings.Contains(err.Error(), "/nowhere/python") {
		t.Errorf("named Python: %v", err)
	}
	u, err := FindUCXX(UCXXCoreName, []string{"MILLSTREAM_PEER_PYTHON=" + os.Args[0]})
	if err != nil || u.Name() != UCXXCoreName {
		t.Errorf("%v, %v", u, err)
	}
}
