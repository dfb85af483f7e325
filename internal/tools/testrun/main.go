// Testrun runs the test suite for `make test`. It prints every skip, and fails for a skip that is not in
// tests/skips.txt, a run without tests, and a GPU test without a recorded run. A failed test is run again under load
// (again.go).
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
	shuffle  string // seed of the test order
	ledger   string // file of the last runs of the whole suite; empty for none
	slow     int    // number of slowest tests to list
}

func main() {
	var o options
	flag.BoolVar(&o.race, "race", true, "race detector")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit of each package")
	flag.Func("also", "`TAG=PATTERN` of a further pass over packages with a build tag, such as invariants=./mem/...",
		func(s string) error {
			if tag, pattern, ok := strings.Cut(s, "="); !ok || tag == "" || pattern == "" {
				return fmt.Errorf("want TAG=PATTERN")
			}
			o.also = append(o.also, s)
			return nil
		})
	flag.StringVar(&o.skips, "skips", "tests/skips.txt", "list of allowed skips")
	flag.StringVar(&o.gpu, "gpu", "docs/gpu-run.json", "record of the last run of the GPU tests")
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	flag.StringVar(&o.shuffle, "shuffle", seed, "seed of the test order in each package, or off; "+
		"default: the current time")
	flag.IntVar(&o.slow, "slow", 20, "number of slowest tests to list")
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

// run runs all passes in the working directory, the root of the tree, and prints the verdict; ok is false if anything
// fails.
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
	flaky := again(ctx, r, locked, o)
	for _, pkg := range r.badPackages {
		if r.forgiven(pkg, flaky) {
			problems = slices.DeleteFunc(problems, func(p string) bool {
				return strings.HasPrefix(p, pkg+packageFailed)
			})
		}
	}
	for _, also := range o.also {
		tag, pattern, _ := strings.Cut(also, "=")
		if _, err := os.Stat(strings.TrimSuffix(pattern, "/...")); err != nil {
			fmt.Fprintf(locked, "note  %s: no such folder; pass with tag %s skipped\n", pattern, tag)
			continue
		}
		fmt.Fprintf(locked, "pass with tag %s: %s\n", tag, pattern)
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
		problems = append(problems, "no test ran")
	}
	gpu, err := checkGPU(ctx, root, o.gpu, locked)
	if err != nil {
		return false, err
	}
	problems = append(problems, gpu...)
	if whole := slices.Contains(o.packages, "./...") && len(o.args) == 0; whole && o.ledger != "" && ctx.Err() == nil {
		entry := ledgerRun{Time: time.Now().UTC().Truncate(time.Second), Seed: o.shuffle, Unsteady: []string{}}
		for _, f := range flaky {
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
	if len(flaky) > 0 {
		verdict += fmt.Sprintf(", %d flaky", len(flaky))
	}
	fmt.Fprintln(locked, verdict)
	return len(problems) == 0 && r.failed == 0, nil
}

// noDebugInfo is a flag of go test. Linking nearly two hundred test binaries is a third faster without symbol and DWARF
// tables, which only a debugger needs.
const noDebugInfo = "-ldflags=-s -w"

// packageFailed follows the name of a package that failed.
const packageFailed = " failed; "

// pass runs one `go test` and returns the errors beyond failed tests.
func pass(ctx context.Context, r *results, out io.Writer, o options, packages, extra []string) []string {
	// -count=1, because the go command cannot detect changes of libucx or a Python peer.
	// One package more than processors, because many tests mostly wait for other processes.
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
		// make lint has vetted this build, with more checks, but not builds with a tag.
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
	// The go command forwards an interrupt to the tests, which get time to end their children.
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
		problems = append(problems, "read events of go test: "+readErr.Error())
	}
	for _, p := range r.badPackages[bad:] {
		problems = append(problems, p+packageFailed+"to repeat with the same test order: scripts/in-env go "+
			"test "+repeat(o, extra)+
			" "+p)
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, "go test: "+err.Error())
	}
	return problems
}

// repeat returns the arguments of go test that repeat the tests of a package in the same order.
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

// checkGPU compares the record of the last GPU run with the GPU tests of the tree. A missing test fails the run; tests
// whose sources have changed since are printed.
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
		fmt.Fprintf(out, "note  %d GPU tests have no recorded run: run make gpu-test-bundle, run the bundle on a "+
			"machine "+
			"with a GPU, and commit its gpu-run.json as %s\n", len(tests), file)
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
		return []string{fmt.Sprintf("%s: %s\n  fix: run make gpu-test-bundle, run the bundle on a machine with a "+
			"GPU, and commit "+
			"its gpu-run.json",
			file, strings.ReplaceAll(err.Error(), "\n", "\n  "))}, nil
	}
	return nil, nil
}
