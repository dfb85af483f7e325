package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/device/topology"
)

// CPUs returns the number of processors that this process may use, limited by its affinity, the quota of its control
// group and GOMAXPROCS (Dask's CPU_COUNT).
func CPUs() int { return max(1, runtime.GOMAXPROCS(0)) }

// Layout returns Dask's division of processors into workers and threads per worker. Up to four processors each worker
// has one thread, beyond that there are about as many workers as threads.
func Layout(cpus int) (workers, threads int) {
	if cpus <= 4 {
		return max(1, cpus), 1
	}
	workers = cpus
	for f := 1; f <= cpus; f++ {
		if cpus%f == 0 && float64(f) >= math.Sqrt(float64(cpus)) {
			workers = f
			break
		}
	}
	return workers, cpus / workers
}

// residentMemory returns the resident memory of a process in bytes.
func residentMemory(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}

// setAffinity binds this process to the processors of a list such as 0-15,32-47. Threads inherit the set of the thread
// that starts them, and Go has started some already: each is set, until no new one is found.
func setAffinity(list string) error {
	cpus, err := topology.ParseCPUList(list)
	if err != nil {
		return fmt.Errorf("cluster: processors %q: %w", list, err)
	}
	var set unix.CPUSet
	for _, c := range cpus.List() {
		set.Set(c)
	}
	if set.Count() == 0 {
		return fmt.Errorf("cluster: processors %q: empty list", list)
	}
	done := map[string]bool{}
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("cluster: threads of this process: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[t.Name()] {
				continue
			}
			done[t.Name()], again = true, true
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cluster: set affinity to processors %s: %w", list, err)
			}
		}
	}
	return nil
}
