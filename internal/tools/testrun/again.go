package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Many tests start dozens of processes, including Python, on shared machines, and in one of a hundred runs one of them
// is late. So a failed test is run again, ten times under load (stress.go). A test that passes all of them is flaky: it
// is reported with its first output and in the verdict, recorded in the ledger (ledger.go), and does not fail the run
// unless the ledger already has it. Data races, panics, crashes, timeouts of a package, leaks, and more than a few
// failures are not run again.

// maxAgain is the maximum number of failed tests of a run that may be flaky; each subtest counts.
const maxAgain = 3

// failure is a top-level test that failed.
type failure struct {
	Package, Test string
	final         bool // cannot be flaky
	events        int  // failures reported: of the test and of its subtests
	parts         map[string]bool
}

// count returns the number of failed tests: subtests without failed subtests, or the test itself.
func (f *failure) count() int {
	n := 0
	for name := range f.parts {
		within := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(f.parts)), within) {
			n++
		}
	}
	return n
}

func (f *failure) String() string { return f.Package + " " + f.Test }

// finalWords are texts in the output of tests that cannot be flaky.
var finalWords = []string{
	"DATA RACE", "race detected during execution of test", // the report may be in the output of another test
	"panic:", "fatal error:",
	"leak:", "leak after all tests", // of leak.Check and leak.Main
}

// again runs the failed tests under load if they may be flaky. It returns the flaky ones, which no longer count as
// failed. It does nothing if the caller passed arguments for go test, because a test binary does not accept them.
func again(ctx context.Context, r *results, out io.Writer, o options) (flaky []*failure) {
	total, final := 0, false
	for _, f := range r.failures {
		total += f.count()
		final = final || f.final
	}
	if total == 0 || total > maxAgain || final || len(r.crashed) > 0 || len(o.args) > 0 {
		return nil
	}
	for _, f := range r.failures {
		fmt.Fprintf(out, "again %s: %d runs in %d concurrent copies, with busy processors\n", f, stressRuns,
			stressCopies)
		if err := stress(ctx, out, o, f); err != nil {
			fmt.Fprintf(out, "again %s: %v\n", f, err)
			continue
		}
		flaky = append(flaky, f)
		r.failed -= f.events
	}
	for _, f := range flaky {
		fmt.Fprintf(out, "flaky %s: failed once and passed %d times under load; find the cause\n", f,
			stressRuns)
	}
	return flaky
}

// forgiven reports whether all failures of a package were of flaky tests.
func (r *results) forgiven(pkg string, flaky []*failure) bool {
	return len(flaky) > 0 && !slices.ContainsFunc(r.failures, func(f *failure) bool {
		return f.Package == pkg && !slices.Contains(flaky, f)
	})
}

func hasFinalWords(output []string) bool {
	return slices.ContainsFunc(output, func(line string) bool {
		return slices.ContainsFunc(finalWords, func(w string) bool { return strings.Contains(line, w) })
	})
}

// noteFailure records a failed test.
func (r *results) noteFailure(pkg, test string, output []string) {
	top, _, _ := strings.Cut(test, "/")
	i := slices.IndexFunc(r.failures, func(f *failure) bool { return f.Package == pkg && f.Test == top })
	if i < 0 {
		r.failures = append(r.failures, &failure{Package: pkg, Test: top, parts: map[string]bool{}})
		i = len(r.failures) - 1
	}
	f := r.failures[i]
	f.events++
	f.parts[test] = true
	f.final = f.final || hasFinalWords(output)
}
