package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Setting is under what a test runs.
type Setting struct {
	// Protocol of all comms: tcp, tls or ucxx.
	Protocol string
	// Release of Dask, such as 2025.7.0; "" is the one that the peers' environment has.
	Release string
}

// Variables that choose the setting of all tests of a binary.
const (
	ProtocolVariable = "MILLSTREAM_DASK_PROTOCOL"
	ReleaseVariable  = "MILLSTREAM_DASK_RELEASE"
)

// Current is the setting that the environment chooses.
func Current() Setting {
	s := Setting{Protocol: os.Getenv(ProtocolVariable), Release: os.Getenv(ReleaseVariable)}
	if s.Protocol == "" {
		s.Protocol = "tcp"
	}
	return s
}

// String is what a subtest is called.
func (s Setting) String() string {
	if s.Release == "" {
		return s.Protocol
	}
	return s.Protocol + "-" + s.Release
}

// Root is the folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) { // built with -trimpath: tests run in their package's folder
		wd, err := os.Getwd()
		for err == nil && wd != "/" {
			if _, err := os.Stat(filepath.Join(wd, "go.mod")); err == nil {
				return wd
			}
			wd = filepath.Dir(wd)
		}
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Releases are those of tests/interop/dask-versions.txt, oldest first.
func Releases(t testing.TB) []string {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(Root(), "tests", "interop", "dask-versions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// Python is the interpreter that has the setting's release of Dask, and all that it needs, without any variable
// in its environment.
func (s Setting) Python() (string, error) {
	if s.Release == "" {
		if python := os.Getenv("MILLSTREAM_PEER_PYTHON"); python != "" {
			return python, nil
		}
		return found(filepath.Join(Root(), ".local", "venv", "bin", "python"))
	}
	return found(filepath.Join(Root(), ".local", "dask", s.Release, "env", "bin", "python"))
}

func found(python string) (string, error) {
	if _, err := os.Stat(python); err != nil {
		return "", fmt.Errorf("no Python with Dask: %w; run scripts/setup peers", err)
	}
	return python, nil
}

// Older tells that the setting's release is before another one; the environment's own counts as the newest.
func (s Setting) Older(release string) bool {
	return s.Release != "" && slices.Compare(numbers(s.Release), numbers(release)) < 0
}

func numbers(release string) (out []int) {
	for part := range strings.SplitSeq(release, ".") {
		var n int
		_, _ = fmt.Sscan(part, &n)
		out = append(out, n)
	}
	return out
}
