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

// longest are the packages whose tests take longest, those first that take most. They start first: one that
// started last would run alone at the end, with the other processors idle.
var longest = []string{
	"tests/dask", "tests/interop", "ucx", "tests/hostile", "tests/downstream", "tests/firstday", "worker",
	"comm/ucxcomm",
	"cli", "wire", "tests/builds", "internal/comm/tcp", "internal/dask/pyproc", "cluster", "internal/engine/sim",
	"tests/matrix",
	"scheduler", "bench/internal/command", "bench/internal/commbench", "tests/chaos", "tests/interop/pypeer",
	"bench/internal/taskbench", "internal/wire/pickle", "frame",
	"internal/collective", "internal/engine/scheduler/state", "config", "internal/tools/testrun",
	"internal/bench/ucxbench",
	"internal/engine/worker/state", "tests/e2e", "client", "internal/bench/benchpeer", "internal/engine/worker/store",
	"scheduler/internal/pygraph", "scheduler/internal/journal", "tests/parity", "clique",
}

// longestFirst lists the packages that patterns mean, in the order in which their tests are to start.
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
		return patterns, nil // go test says what is wrong with them
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })
	return packages, nil
}

// rank is the place of a package among the longest, behind all of them for any other.
func rank(pkg string) int {
	_, name, _ := strings.Cut(pkg, "/")
	if i := slices.Index(longest, name); i >= 0 {
		return i
	}
	return len(longest)
}

// environment is that of the tests. A program that was built with the race detector sleeps for a second when it
// ends, so that goroutines may still be caught at it; a suite that starts hundreds of processes has them
// all sleep. What a user says about it stays.
func environment() []string {
	childproc.NoRaceSleep()
	return os.Environ()
}
