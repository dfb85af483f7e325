// Testrun runs the test suite as `make test` wants it: every skip is printed, one that tests/skips.txt
// does not list fails the run, as does a run without tests and a GPU test without a recorded run. A test that
// fails once among the others is run again under load (again.go).
//
//	go run ./internal/tools/testrun [flags] [packages] [-- arguments of go test]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/internal/tools/gpurecord"
	"go.millstream.dev/internal/tools/testfuncs"
	"go.millstream.dev/internal/tools/tree"
)

type options struct {
	race     bool
	timeout  time.Duration
	also     []string // further passes, as TAG=PATTERN
	packages []string
	args     []string
	skips    string
	gpu      string
	shuffle  string // seed of the order of the tests
	ledger   string // file of the last runs of the whole suite; empty: none
	slow     int    // how many of the slowest tests are listed
}

func main() {
	var o options
	flag.BoolVar(&o.race, "race", true, "run with the race detector")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "limit of each package")
	flag.Func("also", "`TAG=PATTERN`: a further pass over the packages with a build tag, e.g. invariants=./mem/...",
		func(s string) error {
			if tag, pattern, ok := strings.Cut(s, "="); !ok || tag == "" || pattern == "" {
				return fmt.Errorf("want TAG=PATTERN")
			}
			o.also = append(o.also, s)
			return nil
		})
	flag.StringVar(&o.skips, "skips", "tests/skips.txt", "list of the skips that are allowed")
	flag.StringVar(&o.gpu, "gpu", "docs/gpu-run.json", "record of the last run of the GPU tests")
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	flag.StringVar(&o.shuffle, "shuffle", seed, "seed of the order of the tests in each package, or off; "+
		"default the time")
	flag.IntVar(&o.slow, "slow", 20, "how many of the slowest tests are listed")
	flag.StringVar(&o.ledger, "ledger", ".local/test-runs.json", "record of the last runs of the whole suite; "+
		"empty: none")
	flag.Parse()
	o.packages = flag.Args()
	if i := slices.Index(o.packages, "--"); i >= 0 {
		o.packages, o.args = o.packages[:i], o.packages[i+1:]
	}
	if len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run does all passes in the current folder, the tree's root, and prints the verdict; ok is false if
// anything fails.
func run(ctx context.Context, o options, out io.Writer) (ok bool, err error) {
	root, err := tree.Root(".")
	if err != nil {
		return false, err
	}
	module, err := tree.Module(root)
	if err != nil {
		return false, err
	}
	skips, err := loadSkips(o.skips, module)
	if err != nil {
		return false, err
	}
	last, err := loadLedger(o.ledger)
	if err != nil {
		return false, err
	}
	var w sync.Mutex
	locked := lockedWriter{&w, out}
	r := newResults(locked)
	problems := pass(ctx, r, locked, o, o.packages, nil)
	unsteady := again(ctx, r, locked, o)
	for _, pkg := range r.badPackages {
		if r.forgiven(pkg, unsteady) {
			problems = slices.DeleteFunc(problems, func(p string) bool {
				return strings.HasPrefix(p, pkg+packageFailed)
			})
		}
	}
	for _, also := range o.also {
		tag, pattern, _ := strings.Cut(also, "=")
		if _, err := os.Stat(strings.TrimSuffix(pattern, "/...")); err != nil {
			fmt.Fprintf(locked, "note  %s: no such folder, its pass with the tag %s is left out\n", pattern, tag)
			continue
		}
		fmt.Fprintf(locked, "again with the tag %s: %s\n", tag, pattern)
		problems = append(problems, pass(ctx, r, locked, o, []string{pattern}, []string{"-tags", tag})...)
	}
	for _, s := range r.skipped {
		fmt.Fprintf(locked, "skip  %s %s: %s\n", s.Package, s.Test, s.Reason)
	}
	for _, line := range r.slowest(o.slow) {
		fmt.Fprintln(locked, "slow ", line)
	}
	problems = append(problems, skips.check(r)...)
	if len(r.started) == 0 {
		problems = append(problems, "no test ran at all")
	}
	gpu, err := checkGPU(ctx, root, o.gpu, locked)
	if err != nil {
		return false, err
	}
	problems = append(problems, gpu...)
	if whole := slices.Contains(o.packages, "./...") && len(o.args) == 0; whole && o.ledger != "" && ctx.Err() == nil {
		entry := ledgerRun{Time: time.Now().UTC().Truncate(time.Second), Seed: o.shuffle, Unsteady: []string{}}
		for _, f := range unsteady {
			entry.Unsteady = append(entry.Unsteady, f.String())
		}
		problems = append(problems, last.add(entry)...)
		if err := last.save(o.ledger); err != nil {
			return false, err
		}
	}
	for _, p := range problems {
		fmt.Fprintln(locked, "error:", p)
	}
	verdict := fmt.Sprintf("%d passed, %d failed, %d skipped", r.passed, r.failed, len(r.skipped))
	if len(unsteady) > 0 {
		verdict += fmt.Sprintf(", %d unsteady", len(unsteady))
	}
	fmt.Fprintln(locked, verdict)
	return len(problems) == 0 && r.failed == 0, nil
}

// noDebugInfo is a flag of go test. Nearly two hundred test binaries are linked, a third faster without DWARF tables,
// which only a debugger needs.
const noDebugInfo = "-ldflags=-w"

// packageFailed follows the name of a package that failed.
const packageFailed = " failed; "

// pass is one `go test`. What it returns are the reasons to fail beyond the failed tests.
func pass(ctx context.Context, r *results, out io.Writer, o options, packages, extra []string) []string {
	// -count=1: the go command does not know that libucx or a Python peer has changed.
	// One package more than processors: many tests wait for other processes most of the time.
	args := []string{"test", "-json", "-count=1", "-p", strconv.Itoa(runtime.NumCPU() + 1), "-timeout",
		o.timeout.String()}
	if o.race {
		args = append(args, "-race")
	}
	if o.shuffle != "" {
		args = append(args, "-shuffle", o.shuffle)
	}
	args = append(args, noDebugInfo)
	if len(extra) == 0 {
		// make lint has vetted this build, with more checks; not so those with a tag.
		args = append(args, "-vet=off")
	}
	args = append(args, extra...)
	packages, err := longestFirst(ctx, packages)
	if err != nil {
		return []string{err.Error()}
	}
	args = append(args, packages...)
	args = append(args, o.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = environment()
	// An interrupt goes to the go command, which passes it to the tests; they get a moment to end their children.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return []string{err.Error()}
	}
	bad := len(r.badPackages)
	if err := cmd.Start(); err != nil {
		return []string{err.Error()}
	}
	stop := r.heartbeat(out, 30*time.Second)
	readErr := r.read(stdout)
	stop()
	err = cmd.Wait()
	var problems []string
	if readErr != nil {
		problems = append(problems, "reading the events of go test: "+readErr.Error())
	}
	for _, p := range r.badPackages[bad:] {
		problems = append(problems, p+packageFailed+"the same order of tests: scripts/in-env go test "+repeat(o, extra)+
			" "+p)
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, "go test: "+err.Error())
	}
	return problems
}

// repeat returns the arguments of go test that run the tests of a package in the same order again.
func repeat(o options, extra []string) string {
	args := append([]string{"-count=1"}, extra...)
	if o.race {
		args = append(args, "-race")
	}
	if o.shuffle != "" {
		args = append(args, "-shuffle="+o.shuffle)
	}
	return strings.Join(append(args, o.args...), " ")
}

// checkGPU compares the record of the last GPU run with the GPU tests of the tree. A test that is missing from it fails
// the run; one whose sources have changed since is printed.
func checkGPU(ctx context.Context, root, file string, out io.Writer) ([]string, error) {
	tests, err := testfuncs.Find(root, testfuncs.GPU)
	if err != nil {
		return nil, err
	}
	record, err := gpurecord.Load(file)
	if err != nil {
		return nil, err
	}
	if len(tests) > 0 && (record == nil || len(record.Tests) == 0) {
		fmt.Fprintf(out, "note  %d GPU tests have no recorded run yet: make gpu-test-bundle, run it on a machine "+
			"with a GPU, keep its gpu-run.json as %s\n", len(tests), file)
	}
	if len(tests) > 0 && record != nil {
		hashes, err := gpurecord.Sources(ctx, root, testfuncs.Packages(tests))
		if err != nil {
			return nil, err
		}
		stale := record.Stale(tests, hashes)
		for _, line := range gpurecord.Lines(stale) {
			fmt.Fprintln(out, "stale", line)
		}
		if len(stale) > 0 {
			fmt.Fprintf(out, "note  the sources of %d of %d GPU tests have changed since the run in %s (make "+
				"gpu-stale)\n",
				len(stale), len(tests), file)
		}
	}
	if err := record.Check(tests); err != nil {
		return []string{fmt.Sprintf("%s: %s\n  fix: make gpu-test-bundle, run it on a machine with a GPU, and keep "+
			"its gpu-run.json there",
			file, strings.ReplaceAll(err.Error(), "\n", "\n  "))}, nil
	}
	return nil, nil
}
