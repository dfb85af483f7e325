package ucx

import (
	"runtime"
	"time"
)

// spinBudget learns how long a wait should spin before it sleeps. A wait that ended
// while spinning doubles the budget, one that did not halves it; after a row of
// losses one in sixteen tries the full budget again, so that a faster peer is
// noticed. Owner: the token holder.
type spinBudget struct {
	max, cur int64
	losses   uint32
	fixed    bool // a polling worker: always spin, the value only says how often to look at the context
}

const pollSlice = int64(100 * time.Microsecond)

const minSpin = int64(2 * time.Microsecond)

func (b *spinBudget) init(limit time.Duration, polling bool) {
	b.max, b.fixed = int64(limit), polling
	if polling {
		b.max = pollSlice
	} else if runtime.NumCPU() == 1 {
		b.max = 0
	}
	b.cur = b.max
}

func (b *spinBudget) next() int64 {
	if b.losses != 0 && b.losses&15 == 0 {
		return b.max
	}
	return b.cur
}

func (b *spinBudget) won() {
	b.losses = 0
	if b.cur < b.max {
		b.cur = min(max(b.cur*2, minSpin), b.max)
	}
}

func (b *spinBudget) lost() {
	if b.fixed {
		return
	}
	b.losses++
	b.cur = min(max(b.cur/2, minSpin), b.max)
}
