package leak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FD is an open file descriptor.
type FD struct {
	// Num is the number of the descriptor.
	Num int
	// Target is its target in /proc/self/fd.
	Target string
}

// Goroutine is one goroutine.
type Goroutine struct {
	// ID is the number of the goroutine.
	ID int
	// Stack is its stack trace, starting with the line "goroutine N [state]:".
	Stack string
}

// Snapshot lists the resources of the process at one moment.
type Snapshot struct {
	goroutines []Goroutine
	fds        []FD
	rss        int64
}

// Take returns a snapshot of the process.
func Take() (*Snapshot, error) {
	// The runtime opens the descriptors of its poller at the first use and keeps them, which is not a leak of the test.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	fds, err := FDs()
	if err != nil {
		return nil, err
	}
	rss, err := RSS()
	if err != nil {
		return nil, err
	}
	return &Snapshot{goroutines: Goroutines(), fds: fds, rss: rss}, nil
}

// Diff returns the resources that were added since the snapshot, without memory.
func (s *Snapshot) Diff() (Diff, error) { return s.diff(config{}) }

func (s *Snapshot) diff(c config) (Diff, error) {
	var d Diff
	fds, err := FDs()
	if err != nil {
		return d, err
	}
	for _, fd := range fds {
		ignored := slices.ContainsFunc(c.ignoreFD, func(prefix string) bool {
			return strings.HasPrefix(fd.Target, prefix)
		})
		if !ignored && !slices.Contains(s.fds, fd) {
			d.FDs = append(d.FDs, fd)
		}
	}
	for _, g := range Goroutines() {
		known := slices.ContainsFunc(s.goroutines, func(old Goroutine) bool { return old.ID == g.ID })
		ignored := slices.ContainsFunc(c.ignoreGo, func(text string) bool { return strings.Contains(g.Stack, text) })
		if !known && !ignored {
			d.Goroutines = append(d.Goroutines, g)
		}
	}
	return d, nil
}

// waitReleased waits until nothing is left or the time is up. Resources may be released shortly after a call has
// returned: a goroutine on its last line, a descriptor that the poller still uses.
func (s *Snapshot) waitReleased(c config) (Diff, error) {
	deadline := time.Now().Add(c.wait)
	pause := time.Millisecond
	for {
		d, err := s.diff(c)
		if err != nil {
			return d, err
		}
		if c.rssChecked {
			debug.FreeOSMemory()
			now, err := RSS()
			if err != nil {
				return d, err
			}
			if grown := now - s.rss; grown > c.rss {
				d.RSS = grown
			}
		}
		if d.Empty() || time.Now().After(deadline) {
			return d, nil
		}
		// Cleanups of unreachable objects run after a garbage collection.
		runtime.GC()
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// FDs returns the open descriptors of the process, sorted by number.
func FDs() ([]FD, error) {
	const dir = "/proc/self/fd"
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	own := int(d.Fd())
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var fds []FD
	for _, name := range names {
		num, err := strconv.Atoi(name)
		if err != nil || num == own {
			continue
		}
		target, err := os.Readlink(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		fds = append(fds, FD{num, target})
	}
	slices.SortFunc(fds, func(a, b FD) int { return a.Num - b.Num })
	return fds, nil
}

// RSS returns the resident memory of the process in bytes.
func RSS() (int64, error) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("invalid /proc/self/statm %q", data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Goroutines returns all goroutines except that of the caller and those that the runtime, package testing and os/signal
// keep until the process ends.
func Goroutines() []Goroutine {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var list []Goroutine
	for i, stack := range strings.Split(string(buf), "\n\n") {
		stack = strings.TrimSpace(stack)
		// The goroutine of the caller comes first.
		if i == 0 || stack == "" || isPermanent(stack) {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		num, err := strconv.Atoi(id)
		if err != nil {
			continue
		}
		list = append(list, Goroutine{num, stack})
	}
	return list
}

// isPermanent reports whether a goroutine runs until the process ends.
func isPermanent(stack string) bool {
	for _, text := range []string{
		"\nos/signal.signal_recv(", "\nos/signal.loop(", "\nruntime.ensureSigM(", "\nruntime/trace.",
		"\ntesting.(*T).Run(", "\ntesting.(*F).Fuzz(", "\ntesting.tRunner.func", "\ntesting.runFuzzing(",
		"\ntesting.(*M).startAlarm", "created by testing.(*M).",
	} {
		if strings.Contains(stack, text) {
			return true
		}
	}
	return false
}
