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

// reserve returns how many descriptors of a limit accepted comms leave free: half of them for unfinished handshakes,
// half for files, HTTP and connections to other processes.
func reserve(limit int) int { return min(max(limit/4, 32), 4096) }

// ForComms returns how many accepted comms the limit of open files (ulimit -n) allows. A quarter of it, at most 4096,
// stays free: a process without descriptors cannot write its journal either.
func ForComms() int {
	open := limit()
	return max(open-reserve(open), 16)
}

// Advice describes how to fix a process that has run out of descriptors, for logs.
const Advice = "raise the limit of open files (ulimit -n, or LimitNOFILE= of the systemd unit)"

// ForHTTP returns how many connections of an HTTP server the limit of open files allows.
func ForHTTP() int { return min(max(limit()/16, 4), 256) }

// ForHandshakes returns how many unfinished handshakes of a listener the limit of open files allows.
func ForHandshakes() int { return reserve(limit()) / 2 }
