package collective

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/collective/transport"
)

// waitPolicy specifies how a rank waits for another in shared memory: it polls, then yields and polls, then sleeps
// until it is woken. With more ranks than processors the other rank may not be running, so polling is useless.
type waitPolicy struct {
	polls  int
	yields int
}

func defaultPolicy(ranks int) waitPolicy {
	if ranks > runtime.NumCPU() {
		return waitPolicy{polls: 1, yields: 200}
	}
	return waitPolicy{polls: 2000, yields: 200}
}

// Sleeps are limited because neither the end of a context nor the loss of a rank wakes a sleeper.
const (
	firstSleep = time.Millisecond
	longSleep  = 20 * time.Millisecond
)

// waitFor waits until one rank has reached a stage.
func (s *segment) waitFor(ctx context.Context, g *Group, rank int, stage uint32) error {
	word := s.counter(rank)
	reached := func() bool { return int32(atomic.LoadUint32(word)-stage) >= 0 }
	for range s.policy.polls {
		if reached() {
			return nil
		}
	}
	for i := range s.policy.yields {
		if reached() {
			return nil
		}
		if i&7 == 7 {
			if err := s.checkInterrupt(ctx, g, rank, reached); err != nil {
				return err
			}
			runtime.Gosched() // ranks may be goroutines of one process
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	sleep := firstSleep
	for {
		atomic.AddUint32(s.sleepers(rank), 1)
		seen := atomic.LoadUint32(word)
		if int32(seen-stage) < 0 {
			futexWait(word, seen, sleep)
		}
		atomic.AddUint32(s.sleepers(rank), ^uint32(0))
		if reached() {
			return nil
		}
		if err := s.checkInterrupt(ctx, g, rank, reached); err != nil {
			return err
		}
		sleep = min(2*sleep, longSleep)
	}
}

// checkInterrupt returns an error if waiting for a rank is pointless.
func (s *segment) checkInterrupt(ctx context.Context, g *Group, rank int, reached func() bool) error {
	if err := g.hub.err(); err != nil && !reached() { // the rank may have ended after it
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r := g.ranks[rank]; g.hub.hasLeft(r) && !reached() {
		return transport.LeftError(r)
	}
	return nil
}

// futexWait sleeps while the word has a value, for at most d. The word is shared between processes.
func futexWait(word *uint32, value uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes all sleepers on the word.
func futexWake(word *uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1<<30, 0, 0, 0)
}
