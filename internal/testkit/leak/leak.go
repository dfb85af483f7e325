// Package leak finds what a test has left behind: goroutines, file descriptors, memory.
//
//	func TestDial(t *testing.T) {
//		leak.Check(t)
//		…
//	}
//
// Check looks before and after, waits for what is still ending, and fails the test with the list of what
// stayed: the stack of each goroutine, the target of each descriptor.
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

// Option changes what Check looks at.
type Option func(*config)

// Wait sets how long Check waits for goroutines and descriptors to go away. Default 5 s.
func Wait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// IgnoreGoroutine leaves out goroutines whose stack contains text, such as a function's full name.
func IgnoreGoroutine(text string) Option {
	return func(c *config) { c.ignoreGo = append(c.ignoreGo, text) }
}

// IgnoreFD leaves out descriptors whose target (a path, "socket:[…]", "anon_inode:[eventfd]") begins with
// prefix.
func IgnoreFD(prefix string) Option {
	return func(c *config) { c.ignoreFD = append(c.ignoreFD, prefix) }
}

// MaxRSS makes Check fail when the resident memory has grown by more than bytes after the heap was given
// back. Memory is not looked at otherwise: a few rounds say nothing. Use it after thousands.
func MaxRSS(bytes int64) Option {
	return func(c *config) { c.rss, c.rssChecked = bytes, true }
}

// Check looks at the process now and again when the test and its later cleanups have ended, and fails the
// test if something is left. Call it first. What other tests do at the same time would count, so it makes
// the test refuse t.Parallel (as t.Setenv does).
func Check(t testing.TB, options ...Option) {
	t.Helper()
	// Setenv panics in a parallel test and makes a later t.Parallel panic: exactly the rule wanted here.
	t.Setenv("MILLSTREAM_LEAK_CHECK", "1")
	c := config{wait: 5 * time.Second}
	for _, o := range options {
		o(&c)
	}
	before, err := Take()
	if err != nil {
		t.Fatalf("leak: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // a failed test leaves things behind; its own message matters
		}
		diff, err := before.settle(c)
		if err != nil {
			t.Errorf("leak: %v", err)
		} else if !diff.Empty() {
			t.Errorf("leak: %s", diff)
		}
	})
}

// Main runs the tests of a package and checks once, at the end, that nothing was left, also when a test failed: one
// that fails now and then must not hide the leaks of all the others. It returns the exit code:
// `func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }`.
func Main(m interface{ Run() int }, options ...Option) int { return mainTo(os.Stdout, m, options...) }

func mainTo(out io.Writer, m interface{ Run() int }, options ...Option) int {
	c := config{wait: 5 * time.Second}
	for _, o := range options {
		o(&c)
	}
	before, err := Take()
	if err != nil {
		fmt.Fprintln(out, "leak:", err)
		return 1
	}
	code := m.Run()
	diff, err := before.settle(c)
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

// Diff is what has come since a snapshot.
type Diff struct {
	// Goroutines are the stacks of those that were not there.
	Goroutines []Goroutine
	// FDs are the descriptors that were not there, or point elsewhere now.
	FDs []FD
	// RSS is the growth of the resident memory in bytes, where it was above the limit; else 0.
	RSS int64
}

// Empty is true when nothing has come.
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
