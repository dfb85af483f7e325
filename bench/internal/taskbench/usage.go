package taskbench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time of this process in seconds.
func processorTime() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), nil
}

// resident returns the resident memory of this process in bytes.
func resident() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("invalid /proc/self/statm %q", b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// usage returns the processor time and memory of this process.
func usage() (answer, error) {
	var a answer
	var err error
	if a.CPU, err = processorTime(); err != nil {
		return a, err
	}
	if a.RSS, err = resident(); err != nil {
		return a, err
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	a.Heap = int64(m.HeapAlloc)
	a.CPUAfter, err = processorTime()
	return a, err
}

// profile writes a CPU profile.
type profile struct{ file *os.File }

// to starts a profile in a file, or ends it if path is empty.
func (p *profile) to(path string) (err error) {
	if path == "" {
		return p.stop()
	}
	if p.file != nil {
		return fmt.Errorf("a profile is already running")
	}
	if p.file, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

func (p *profile) stop() error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return err
}
