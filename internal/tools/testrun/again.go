package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Many tests start dozens of processes, Python's among them, on machines that do other things as well, and once in a
// hundred runs one of them is late. So a test that failed among all the others is run again, ten times under load
// (stress.go). One that passes each time is unsteady: that is printed with its first output and with the verdict, is
// written into the ledger (ledger.go), and does not fail the run unless the ledger has it already. There is no second
// chance for a data race, a panic, a crash or a time-out of a package, a leak of a test or of a package, or in
// company: more than a few failures are no accident.

// maxAgain is how many failed tests of a run may be unsteady, each subtest counted.
const maxAgain = 3

// failure is a top-level test that failed.
type failure struct {
	Package, Test string
	final         bool // nothing that could be an accident
	events        int  // failures reported: its own and those of its subtests
	parts         map[string]bool
}

// count returns the number of tests that failed: the subtests without failed subtests of their own, or the test itself.
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

// finalWords are in the output of tests whose failure is never an accident.
var finalWords = []string{
	"DATA RACE", "race detected during execution of test", // the report itself may be in the output of another test
	"panic:", "fatal error:",
	"leak:", "leak after all tests", // of leak.Check and leak.Main
}

// again runs the failed tests under load, if they may be unsteady. It returns those that were; they no longer count as
// failed. Arguments that the caller gave to go test exclude a second chance: they cannot be given to a test binary.
func again(ctx context.Context, r *results, out io.Writer, o options) (unsteady []*failure) {
	total, final := 0, false
	for _, f := range r.failures {
		total += f.count()
		final = final || f.final
	}
	if total == 0 || total > maxAgain || final || len(r.crashed) > 0 || len(o.args) > 0 {
		return nil
	}
	for _, f := range r.failures {
		fmt.Fprintf(out, "again %s: %d runs in %d copies side by side, with busy processors\n", f, stressRuns,
			stressCopies)
		if err := stress(ctx, out, o, f); err != nil {
			fmt.Fprintf(out, "again %s: %v\n", f, err)
			continue
		}
		unsteady = append(unsteady, f)
		r.failed -= f.events
	}
	for _, f := range unsteady {
		fmt.Fprintf(out, "unsteady  %s: failed among the others and passed %d times under load; find out why\n", f,
			stressRuns)
	}
	return unsteady
}

// forgiven reports whether all failures of a package were of unsteady tests.
func (r *results) forgiven(pkg string, unsteady []*failure) bool {
	return len(unsteady) > 0 && !slices.ContainsFunc(r.failures, func(f *failure) bool {
		return f.Package == pkg && !slices.Contains(unsteady, f)
	})
}

func hasFinalWords(output []string) bool {
	return slices.ContainsFunc(output, func(line string) bool {
		return slices.ContainsFunc(finalWords, func(w string) bool { return strings.Contains(line, w) })
	})
}

// noteFailure remembers a test that failed.
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
