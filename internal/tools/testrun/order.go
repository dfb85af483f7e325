package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"go.millstream.dev/internal/proc/childproc"
)

// longest are the packages with the longest tests, longest first. They start first: started last, they would run alone
// at the end, with idle processors.
var longest = []string{
	"tests/dask", "tests/interop", "ucx", "tests/hostile", "tests/downstream", "tests/firstday", "tests/comms",
	"worker",
	"comm/ucxcomm",
	"internal/wire/compress", "cli", "wire", "tests/builds", "internal/comm/tcp", "internal/dask/pyproc", "cluster",
	"internal/engine/sim",
	"tests/matrix",
	"scheduler", "bench/internal/command", "bench/internal/commbench", "tests/chaos", "tests/interop/pypeer",
	"bench/internal/taskbench", "internal/wire/pickle", "frame",
	"internal/collective", "internal/engine/scheduler/state", "config", "internal/tools/testrun",
	"internal/bench/ucxbench",
	"internal/engine/worker/state", "tests/e2e", "client", "internal/bench/benchpeer", "internal/engine/worker/store",
	"scheduler/internal/pygraph", "scheduler/internal/journal", "tests/parity", "clique",
}

// longestFirst returns the packages of patterns, in the order in which their tests start.
func longestFirst(ctx context.Context, patterns []string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-f", "{{.ImportPath}}"}, patterns...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	packages := strings.Fields(string(out))
	if len(packages) == 0 {
		return patterns, nil // go test reports the error
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
	return packages, nil
}

// rank returns the index of a package in longest, len(longest) for others.
func rank(pkg string) int {
	_, name, _ := strings.Cut(pkg, "/")
	if i := slices.Index(longest, name); i >= 0 {
		return i
	}
	return len(longest)
}

// environment returns the environment of the tests. A program with the race detector sleeps for a second at its end, to
// detect races of goroutines that still run; in a suite that starts hundreds of processes that takes too long. Settings
// of the user are kept.
func environment() []string {
	childproc.NoRaceSleep()
	return os.Environ()
}
