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

// waitPolicy says how a rank waits for another in shared memory: it looks, then lets others run and looks again, then
// sleeps until it is woken. With more ranks than processors the one that is waited for may not be running, so looking
// is of no use.
type waitPolicy struct {
	looks  int
	yields int
}

func defaultPolicy(ranks int) waitPolicy {
	if ranks > runtime.NumCPU() {
		return waitPolicy{looks: 1, yields: 200}
	}
	return waitPolicy{looks: 2000, yields: 200}
}

// A sleep is no longer than this: the end of a context, or of a rank, wakes nobody.
const (
	firstSleep = time.Millisecond
	longSleep  = 20 * time.Millisecond
)

// waitFor waits for one rank to reach a stage.
func (s *segment) waitFor(ctx context.Context, g *Group, rank int, stage uint32) error {
	word := s.counter(rank)
	reached := func() bool { return int32(atomic.LoadUint32(word)-stage) >= 0 }
	for range s.policy.looks {
		if reached() {
			return nil
		}
	}
	for i := range s.policy.yields {
		if reached() {
			return nil
		}
		if i&7 == 7 {
			if err := s.interrupted(ctx, g, rank, reached); err != nil {
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
		if err := s.interrupted(ctx, g, rank, reached); err != nil {
			return err
		}
		sleep = min(2*sleep, longSleep)
	}
}

// interrupted says why waiting for a rank is of no use any more.
func (s *segment) interrupted(ctx context.Context, g *Group, rank int, reached func() bool) error {
	if err := g.hub.err(); err != nil {
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

// futexWait sleeps while the word has a value, at most for d. The word is shared between processes.
func futexWait(word *uint32, value uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes everybody who sleeps on the word.
func futexWake(word *uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1<<30, 0, 0, 0)
}
