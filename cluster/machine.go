package cluster

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
)

// CPUs is how many processors this process may use: its affinity, the quota of its control
// group and GOMAXPROCS counted in (Dask's CPU_COUNT).
func CPUs() int { return max(1, runtime.GOMAXPROCS(0)) }

// Layout is Dask's division of cores: how many workers, and how many threads in each. Up to
// four cores each worker has one thread, beyond that about as many workers as threads.
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

// residentMemory is the memory that a process holds, in bytes.
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
