package comm

import (
	"math"
	"sync"
	"syscall"
)

// descriptorLimit returns how many files the process may have open (ulimit -n).
var descriptorLimit = sync.OnceValue(func() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
})

// descriptorReserve is what accepted comms leave free of a limit: half of it for unfinished
// handshakes, half for files, HTTP and connections to other processes.
func descriptorReserve(limit int) int { return min(max(limit/4, 32), 4096) }

// DescriptorsForComms returns how many accepted comms the limit of open files (ulimit -n)
// leaves room for. A quarter of it, at most 4096, stays free: a process that has no
// descriptor left cannot write its journal either.
func DescriptorsForComms() int {
	limit := descriptorLimit()
	return max(limit-descriptorReserve(limit), 16)
}

// DescriptorAdvice is what to do about a process that has run out of descriptors, for logs.
const DescriptorAdvice = "raise the limit of open files (ulimit -n, or LimitNOFILE= of the systemd unit)"

// DescriptorsForHTTP returns how many connections of an HTTP server the limit of open files
// leaves room for.
func DescriptorsForHTTP() int { return min(max(descriptorLimit()/16, 4), 256) }
