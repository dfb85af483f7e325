package progress

import (
	"runtime"
	"time"
)

// Budget learns how long a wait should spin before it sleeps. A wait that ended while spinning sets the budget to a few
// times its duration; one that did not halves it. After consecutive losses one in sixteen tries the full budget again:
// two sides that both sleep answer each other slowly, and would keep sleeping if neither spun longer. Owner: the token
// holder.
type Budget struct {
	max, cur int64
	typical  int64 // moving average of spins that were won
	losses   uint32
	fixed    bool // a polling worker: always spin; the value is the interval of checking the context
}

const (
	minSpin = int64(2 * time.Microsecond)
	// spinSlack is about the time that a sleep and its wake-up take. A peer that answers quickly and is late once,
	// since its core was taken from it, should not cost a sleep on this side too.
	spinSlack = int64(50 * time.Microsecond)
	probeEach = 16
)

// PollSlice is how long a waiter that never sleeps drives before it checks its context, in nanoseconds.
const PollSlice = int64(100 * time.Microsecond)

// Init sets the longest spin. A polling worker always spins for PollSlice.
func (b *Budget) Init(limit time.Duration, polling bool) {
	b.max, b.fixed = int64(limit), polling
	if polling {
		b.max = PollSlice
	} else if runtime.NumCPU() == 1 {
		b.max = 0
	}
	b.cur = b.max
}

// Next returns how long the next wait may spin, in nanoseconds.
func (b *Budget) Next() int64 {
	if b.losses != 0 && b.losses%probeEach == 0 {
		return b.max
	}
	return b.cur
}

// Won records a wait that ended after spinning for took nanoseconds.
func (b *Budget) Won(took int64) {
	if b.fixed || took < 0 {
		return // took < 0: it was finished when it was submitted, so there was no wait
	}
	if b.losses != 0 {
		b.losses, b.typical = 0, took
	} else {
		b.typical += (took - b.typical) / 4
	}
	b.cur = min(4*b.typical+spinSlack, b.max)
}

// Lost records a wait that spun without success.
func (b *Budget) Lost() {
	if b.fixed {
		return
	}
	b.losses++
	b.cur = min(max(b.cur/2, minSpin), b.max)
}
