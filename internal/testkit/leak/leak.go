// Package leak finds resources that a test has not released: goroutines, file descriptors, memory.
//
//	func TestDial(t *testing.T) {
//		leak.Check(t)
//		…
//	}
//
// Check compares the process before and after the test, waits for resources that are about to end, and fails the test
// with a list of the others: the stack of each goroutine, the target of each descriptor.
package leak

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

type config struct {
	wait       time.Duration
	ignoreGo   []string
	ignoreFD   []string
	rss        int64
	rssChecked bool
}

// Option changes the checks of Check.
type Option func(*config)

// patience is the default of Wait. Only a test that fails waits for all of it, so it is meant for busy machines.
const patience = time.Minute

// Wait sets how long Check waits for goroutines and descriptors to end (default 1 min).
func Wait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// IgnoreGoroutine ignores goroutines whose stack contains text, such as the full name of a function.
func IgnoreGoroutine(text string) Option {
	return func(c *config) { c.ignoreGo = append(c.ignoreGo, text) }
}

// IgnoreFD ignores descriptors whose target (a path, "socket:[…]", "anon_inode:[eventfd]") begins with prefix.
func IgnoreFD(prefix string) Option {
	return func(c *config) { c.ignoreFD = append(c.ignoreFD, prefix) }
}

// MaxRSS makes Check fail if the resident memory has grown by more than bytes after unused memory was returned to the
// system. It is meaningful only after thousands of rounds, so memory is not checked by default.
func MaxRSS(bytes int64) Option {
	return func(c *config) { c.rss, c.rssChecked = bytes, true }
}

// Check examines the process now, and after the test and its later cleanups, and fails the test if resources are left.
// Call it first. Concurrent tests would interfere, so the test cannot use t.Parallel (as with t.Setenv).
func Check(t testing.TB, options ...Option) {
	t.Helper()
	// Setenv panics in a parallel test and makes a later t.Parallel panic.
	t.Setenv("MILLSTREAM_LEAK_CHECK", "1")
	c := config{wait: patience}
	for _, o := range options {
		o(&c)
	}
	before, err := Take()
	if err != nil {
		t.Fatalf("leak: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // the failure is the more important message
		}
		diff, err := before.waitReleased(c)
		if err != nil {
			t.Errorf("leak: %v", err)
		} else if !diff.Empty() {
			t.Errorf("leak: %s", diff)
		}
	})
}

// Main runs the tests of a package and checks once, at the end, also if a test failed, so that a flaky test does not
// hide leaks of others. It returns the exit code: `func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }`.
func Main(m interface{ Run() int }, options ...Option) int { return mainTo(os.Stdout, m, options...) }

func mainTo(out io.Writer, m interface{ Run() int }, options ...Option) int {
	c := config{wait: patience}
	for _, o := range options {
		o(&c)
	}
	before, err := Take()
	if err != nil {
		fmt.Fprintln(out, "leak:", err)
		return 1
	}
	code := m.Run()
	diff, err := before.waitReleased(c)
	switch {
	case err != nil:
		fmt.Fprintln(out, "leak:", err)
	case !diff.Empty():
		fmt.Fprintln(out, "leak after all tests of the package:", diff)
	default:
		return code
	}
	return max(code, 1)
}

// Diff has the resources that were added since a snapshot.
type Diff struct {
	// Goroutines are the new goroutines.
	Goroutines []Goroutine
	// FDs are the descriptors that are new or have another target.
	FDs []FD
	// RSS is the growth of the resident memory in bytes if it exceeds the limit, else 0.
	RSS int64
}

// Empty reports whether there are none.
func (d Diff) Empty() bool { return len(d.Goroutines) == 0 && len(d.FDs) == 0 && d.RSS == 0 }

func (d Diff) String() string {
	var b strings.Builder
	var parts []string
	if n := len(d.Goroutines); n > 0 {
		parts = append(parts, fmt.Sprintf("%d goroutines", n))
	}
	if n := len(d.FDs); n > 0 {
		parts = append(parts, fmt.Sprintf("%d descriptors", n))
	}
	if d.RSS > 0 {
		parts = append(parts, fmt.Sprintf("%.1f MiB of memory", float64(d.RSS)/(1<<20)))
	}
	if len(parts) == 0 {
		return "nothing left"
	}
	fmt.Fprintf(&b, "left behind: %s", strings.Join(parts, ", "))
	for _, fd := range d.FDs {
		fmt.Fprintf(&b, "\n  fd %d -> %s", fd.Num, fd.Target)
	}
	for _, g := range d.Goroutines {
		fmt.Fprintf(&b, "\n%s", g.Stack)
	}
	return b.String()
}
