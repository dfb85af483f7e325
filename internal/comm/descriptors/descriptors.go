// Package descriptors divides the limit of open files (ulimit -n) among the users of descriptors.
package descriptors

import (
	"math"
	"sync"
	"syscall"
)

// limit returns how many files the process may have open (ulimit -n).
var limit = sync.OnceValue(func() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(l.Cur)
})

// reserve returns what accepted comms leave free of a limit: half of it for unfinished
// handshakes, half for files, HTTP and connections to other processes.
func reserve(limit int) int { return min(max(limit/4, 32), 4096) }

// ForComms returns how many accepted comms the limit of open files (ulimit -n)
// leaves room for. A quarter of it, at most 4096, stays free: a process that has no
// descriptor left cannot write its journal either.
func ForComms() int {
	open := limit()
	return max(open-reserve(open), 16)
}

// Advice is what to do about a process that has run out of descriptors, for logs.
const Advice = "raise the limit of open files (ulimit -n, or LimitNOFILE= of the systemd unit)"

// ForHTTP returns how many connections of an HTTP server the limit of open files
// leaves room for.
func ForHTTP() int { return min(max(limit()/16, 4), 256) }

// ForHandshakes returns how many unfinished handshakes of a listener the limit of open files leaves room for.
func ForHandshakes() int { return reserve(limit()) / 2 }
