package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Many tests start dozens of processes, Python's among them, on machines that do other things as well, and once in a
// hundred runs one of them is late. So a test that failed among all the others is run again by itself, twice. One that
// passes both times is unsteady: that is printed with its first output and with the verdict, to be looked into, and does
// not fail the run. There is no second chance for a data race, a panic, a crash or a time-out of a package, a leak
// of a test or of a package, or in company: more than a few failures are no accident.

// maxAgain is how many failed tests of a run may be unsteady.
const maxAgain = 3

// failure is a top-level test that failed.
type failure struct {
	Package, Test string
	final         bool // nothing that could be an accident
}

// finalWords are in the output of tests whose failure is never an accident.
var finalWords = []string{
	"DATA RACE", "race detected during execution of test", // the report itself may be in the output of another test
	"panic:", "fatal error:",
	"found unexpected goroutines", "leak: left behind", "leak after all tests", // of goleak and of package leak
}

// again runs the failed tests once more, if they may be unsteady. It returns how many were, and counts them no longer
// as failed.
func again(ctx context.Context, r *results, out io.Writer, o options) (unsteady int) {
	if len(r.failures) == 0 || len(r.failures) > maxAgain || len(r.crashed) > 0 || slices.ContainsFunc(r.failures, func(f failure) bool { return f.final }) {
		return 0
	}
	for _, f := range r.failures {
		fmt.Fprintf(out, "again %s %s, by itself\n", f.Package, f.Test)
		second := newResults(out)
		problems := pass(ctx, second, out, o, []string{f.Package}, []string{"-run", "^" + f.Test + "$", "-count=2"})
		if len(problems) > 0 || second.failed > 0 || second.passed == 0 {
			return 0
		}
	}
	for _, f := range r.failures {
		fmt.Fprintf(out, "unsteady  %s %s: it failed among the others and passed twice by itself; find out why\n", f.Package, f.Test)
	}
	r.failed -= r.failedTests
	return len(r.failures)
}

func hasFinalWords(output []string) bool {
	return slices.ContainsFunc(output, func(line string) bool {
		return slices.ContainsFunc(finalWords, func(w string) bool { return strings.Contains(line, w) })
	})
}

// noteFailure remembers a test that failed.
func (r *results) noteFailure(pkg, test string, output []string) {
	r.failedTests++
	final := hasFinalWords(output)
	top, _, _ := strings.Cut(test, "/")
	i := slices.IndexFunc(r.failures, func(f failure) bool { return f.Package == pkg && f.Test == top })
	if i < 0 {
		r.failures = append(r.failures, failure{Package: pkg, Test: top})
		i = len(r.failures) - 1
	}
	r.failures[i].final = r.failures[i].final || final
}
