package leak

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeTB is a test that can be asked what became of it.
type fakeTB struct {
	testing.TB
	cleanups []func()
	errors   []string
	failed   bool
}

func (f *fakeTB) Helper()                   {}
func (f *fakeTB) Failed() bool              { return f.failed }
func (f *fakeTB) Cleanup(fn func())         { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Setenv(string, string)     {}
func (f *fakeTB) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }

func (f *fakeTB) Fatalf(s string, a ...any) { panic(fmt.Sprintf(s, a...)) }

// end does what the testing package does when a test ends.
func (f *fakeTB) end() string {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	return strings.Join(f.errors, "\n")
}

func TestCheckCleanTest(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := ln.Accept(); err == nil {
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	c.Close()
	ln.Close()
	if got := f.end(); got != "" {
		t.Errorf("a test that closes everything fails: %s", got)
	}
}

//go:noinline
func leakyGoroutine(quit chan struct{}) { <-quit }

func TestCheckGoroutine(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond))
	quit := make(chan struct{})
	go leakyGoroutine(quit)
	got := f.end()
	close(quit)
	if !strings.Contains(got, "left behind: 1 goroutines") || !strings.Contains(got, "leak.leakyGoroutine") {
		t.Errorf("the goroutine was not reported with its stack: %q", got)
	}
}

func TestCheckFD(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond))
	name := t.TempDir() + "/left-open"
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	got := f.end()
	if !strings.Contains(got, "left behind: 1 descriptors") ||
		!strings.Contains(got, fmt.Sprintf("fd %d -> %s", file.Fd(), name)) {
		t.Errorf("the descriptor was not reported with its target: %q", got)
	}
	file.Close()
}

func TestCheckFDReused(t *testing.T) {
	dir := t.TempDir()
	old, err := os.Create(dir + "/old")
	if err != nil {
		t.Fatal(err)
	}
	num := int(old.Fd())
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond))
	other, err := os.Create(dir + "/other")
	if err != nil {
		t.Fatal(err)
	}
	// The count stays the same, the meaning of a number changes.
	if err := syscall.Dup2(int(other.Fd()), num); err != nil {
		t.Fatal(err)
	}
	other.Close()
	got := f.end()
	old.Close()
	if !strings.Contains(got, "/other") {
		t.Errorf("a descriptor that points elsewhere was not reported: %q", got)
	}
}

func TestCheckRSS(t *testing.T) {
	const size = 64 << 20
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond), MaxRSS(16<<20))
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += 4096 {
		mem[i] = 1
	}
	got := f.end()
	if !strings.Contains(got, "MiB of memory") {
		t.Errorf("64 MiB were not reported: %q", got)
	}
	if err := syscall.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	f.errors = nil
	if got := f.end(); got != "" {
		t.Errorf("after munmap: %s", got)
	}
}

func TestCheckWaits(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f)
	go time.Sleep(100 * time.Millisecond)
	if got := f.end(); got != "" {
		t.Errorf("a goroutine that ends soon was reported: %s", got)
	}
}

func TestCheckIgnores(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond), IgnoreGoroutine("leak.leakyGoroutine"), IgnoreFD("pipe:"))
	quit := make(chan struct{})
	go leakyGoroutine(quit)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if got := f.end(); got != "" {
		t.Errorf("ignored things were reported: %s", got)
	}
	close(quit)
	r.Close()
	w.Close()
}

func TestCheckFailedTest(t *testing.T) {
	f := &fakeTB{TB: t, failed: true}
	Check(f, Wait(time.Minute))
	quit := make(chan struct{})
	go leakyGoroutine(quit)
	defer close(quit)
	if got := f.end(); got != "" {
		t.Errorf("a failed test got a second message: %s", got)
	}
}

func TestCheckRefusesParallel(t *testing.T) {
	t.Run("after", func(t *testing.T) {
		Check(t)
		defer func() {
			if recover() == nil {
				t.Error("t.Parallel after Check did not panic")
			}
		}()
		t.Parallel()
	})
}

func TestSignalHandlersStand(t *testing.T) {
	f := &fakeTB{TB: t}
	Check(f, Wait(50*time.Millisecond))
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	signal.Stop(ch)
	if got := f.end(); got != "" {
		t.Errorf("the goroutine of os/signal was reported: %s", got)
	}
}

type fakeM func() int

func (f fakeM) Run() int { return f() }

func TestMainFunc(t *testing.T) {
	if code := Main(fakeM(func() int { return 0 })); code != 0 {
		t.Errorf("clean: code %d", code)
	}
	if code := Main(fakeM(func() int { return 3 })); code != 3 {
		t.Errorf("failed tests: code %d, want theirs", code)
	}
	quit := make(chan struct{})
	defer close(quit)
	for failed, want := range map[int]int{0: 1, 3: 3} {
		var out strings.Builder
		code := mainTo(&out, fakeM(func() int { go leakyGoroutine(quit); return failed }), Wait(50*time.Millisecond))
		if code != want || !strings.Contains(out.String(), "leak after all tests") ||
			!strings.Contains(out.String(), "leakyGoroutine") {
			t.Errorf("leak, tests ended with %d: code %d, want %d; output %q, want the goroutine", failed, code, want,
				out.String())
		}
	}
}

func TestSnapshotDiff(t *testing.T) {
	s, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Diff()
	r.Close()
	w.Close()
	if err != nil || len(d.FDs) != 2 || d.Empty() {
		t.Errorf("Diff = %v, %v; want the pipe's two ends", d, err)
	}
	if (Diff{}).String() != "nothing left" {
		t.Errorf("String of nothing = %q", Diff{})
	}
}
