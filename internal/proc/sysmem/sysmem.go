// Package sysmem reports how much memory the machine, the control group and the limits of
// the process allow.
package sysmem

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Total returns the memory of the machine in bytes, or the limit of the control group if
// that is less; 0 if the system does not say.
func Total() int64 {
	total := machine()
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 &&
			(total == 0 || n < total) {
			total = n
		}
	}
	return total
}

func machine() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}

// fixed is what does not change while the process runs.
var fixed = sync.OnceValue(func() int64 {
	limit := Total()
	if limit == 0 {
		limit = math.MaxInt64
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &l); err == nil && l.Cur < uint64(limit) {
		limit = int64(l.Cur)
	}
	return limit
})

// Limit returns how much memory the process may use: the least of Total, its address space
// (ulimit -v) and Go's soft limit (GOMEMLIMIT, which workers set by their memory limit).
func Limit() int64 { return min(fixed(), debug.SetMemoryLimit(-1)) }
