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
	// Num is the descriptor's number.
	Num int
	// Target is what /proc/self/fd says it is.
	Target string
}

// Goroutine is one goroutine.
type Goroutine struct {
	// ID is its number.
	ID int
	// Stack is its trace, with the line "goroutine N [state]:" first.
	Stack string
}

// Snapshot is what the process holds at one moment.
type Snapshot struct {
	goroutines []Goroutine
	fds        []FD
	rss        int64
}

// Take looks at the process.
func Take() (*Snapshot, error) {
	// The runtime opens its poller's descriptors at the first use and keeps them: not a leak of the test.
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

// Diff returns what has come since the snapshot, memory not looked at.
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

// settle waits until nothing is left or the time is up. Things end a little after the call that ends them
// has returned: a goroutine on its last line, a descriptor that the poller still refers to.
func (s *Snapshot) settle(c config) (Diff, error) {
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
		// Cleanups of unreachable files and objects run after a collection.
		runtime.GC()
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// FDs lists the open descriptors of the process, in order of their numbers.
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
			continue // closed since it was listed
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
		return 0, fmt.Errorf("/proc/self/statm holds %q", data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Goroutines lists all goroutines but the caller's own and those that the runtime, the testing package and
// os/signal keep for the life of the process.
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
		// The caller's own comes first.
		if i == 0 || stack == "" || standing(stack) {
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

// standing is true for goroutines that nobody can end.
func standing(stack string) bool {
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
