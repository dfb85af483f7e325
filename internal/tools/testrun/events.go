package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// event is one line of `go test -json` (see `go doc test2json` and `go help buildjson`).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// skip is a skipped test with its reason.
type skip struct {
	Package, Test, Reason string
}

// results has the results of a run.
type results struct {
	passed, failed int
	skipped        []skip
	// started has every test that was started, by package and name, for checks of the skip list.
	started map[[2]string]bool
	// packages is the number of packages that passed or failed, notests that of packages without tests.
	packages, notests int
	badPackages       []string
	// failures are the failed tests; crashed has the packages in which tests did not finish, or that failed without a
	// failed test.
	failures []*failure
	crashed  map[string]bool
	// took has the duration of each top-level test, in seconds.
	took map[[2]string]float64

	mu      sync.Mutex // held for each event; the heartbeat reads running
	running map[[2]string]bool
	output  map[[2]string][]string // of running tests; the empty name is the package itself
	builds  map[string][]string    // output of the compiler, by build ID
	tally   map[string]*tally
	out     io.Writer
}

type tally struct{ passed, failed, skipped int }

func newResults(out io.Writer) *results {
	return &results{
		started: map[[2]string]bool{}, running: map[[2]string]bool{}, output: map[[2]string][]string{},
		builds: map[string][]string{}, tally: map[string]*tally{}, out: out, crashed: map[string]bool{},
		took: map[[2]string]float64{},
	}
}

// read processes the events of `go test -json`. Lines that are not events (messages of the go command) are copied.
func (r *results) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(r.out, line)
			} else {
				r.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *results) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "start":
		delete(r.tally, e.Package) // a further pass counts again
	case "run":
		r.started[key] = true
		r.running[key] = true
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		r.endTest(e)
	}
}

func (r *results) endTest(e event) {
	key := [2]string{e.Package, e.Test}
	t := r.of(e.Package)
	switch e.Action {
	case "pass":
		r.passed++
		t.passed++
	case "fail":
		r.failed++
		t.failed++
		r.noteFailure(e.Package, e.Test, r.output[key])
		fmt.Fprintf(r.out, "--- FAIL: %s %s\n%s", e.Package, e.Test, strings.Join(r.output[key], ""))
	case "skip":
		t.skipped++
		r.skipped = append(r.skipped, skip{e.Package, e.Test, reason(r.output[key])})
	}
	if !strings.Contains(e.Test, "/") {
		r.took[key] = max(r.took[key], e.Elapsed)
	}
	delete(r.running, key)
	delete(r.output, key)
}

// slowest returns a line for each of the n slowest tests.
func (r *results) slowest(n int) []string {
	keys := slices.SortedFunc(maps.Keys(r.took), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(r.took[b], r.took[a]), slices.Compare(a[:], b[:]))
	})
	var lines []string
	for _, k := range keys[:min(n, len(keys))] {
		lines = append(lines, fmt.Sprintf("%6.1fs %s %s", r.took[k], k[0], k[1]))
	}
	return lines
}

func (r *results) endPackage(e event) {
	t := r.of(e.Package)
	switch e.Action {
	case "skip":
		r.notests++
	case "pass":
		r.packages++
		fmt.Fprintf(r.out, "ok    %-44s %6.1fs  %s\n", e.Package, e.Elapsed, t)
	case "fail":
		r.packages++
		r.badPackages = append(r.badPackages, e.Package)
		r.failUnfinished(e.Package)
		own := r.output[[2]string{e.Package, ""}]
		if t.failed == 0 || e.FailedBuild != "" || hasFinalWords(own) {
			r.crashed[e.Package] = true
		}
		fmt.Fprintf(r.out, "%s%s", strings.Join(r.builds[e.FailedBuild], ""), strings.Join(own, ""))
		fmt.Fprintf(r.out, "FAIL  %-44s %6.1fs  %s\n", e.Package, e.Elapsed, t)
	}
	delete(r.output, [2]string{e.Package, ""})
}

// failUnfinished counts the tests that a crash or a timeout interrupted.
func (r *results) failUnfinished(pkg string) {
	for _, key := range r.runningIn(pkg) {
		r.failed++
		r.of(pkg).failed++
		r.crashed[pkg] = true
		fmt.Fprintf(r.out, "--- FAIL: %s %s (did not finish)\n%s", key[0], key[1], strings.Join(r.output[key], ""))
		delete(r.running, key)
		delete(r.output, key)
	}
}

// runningIn returns the running tests of a package, or of all packages if pkg is empty.
func (r *results) runningIn(pkg string) [][2]string {
	var keys [][2]string
	for key := range r.running {
		if pkg == "" || key[0] == pkg {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return keys
}

func (r *results) of(pkg string) *tally {
	t := r.tally[pkg]
	if t == nil {
		t = new(tally)
		r.tally[pkg] = t
	}
	return t
}

func (t *tally) String() string {
	s := fmt.Sprintf("%d passed", t.passed)
	if t.failed > 0 {
		s += fmt.Sprintf(", %d failed", t.failed)
	}
	if t.skipped > 0 {
		s += fmt.Sprintf(", %d skipped", t.skipped)
	}
	return s
}

// reason returns the reason of a skipped test: the last line of its output that is not from package testing.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		return line
	}
	return "no reason given"
}
