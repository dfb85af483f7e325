package ucx

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used, in user and kernel mode.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A connected worker with a receive that nobody answers sleeps on UCX's descriptor.
func TestWaitingCostsLittle(t *testing.T) {
	a, b := pair(t, Config{}, WorkerConfig{})
	ctx := testContext(t)
	if err := a.Send(ctx, Bytes([]byte("awake")), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(ctx, Bytes(make([]byte, 5)), 1, FullMask); err != nil {
		t.Fatal(err)
	}
	const long = 2 * time.Second
	wait, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	used, start := cpuTime(t), time.Now()
	_, err := b.Worker().Recv(wait, Bytes(make([]byte, 5)), 2, FullMask)
	elapsed := time.Since(start)
	used = cpuTime(t) - used
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("receive without a sender: %v", err)
	}
	share := 100 * used.Seconds() / elapsed.Seconds()
	t.Logf("%.1f %% of a CPU (%v in %v)", share, used, elapsed)
	// The bound is far above what is seen, and far below a worker that spins.
	if elapsed < long*9/10 || share >= 20 {
		t.Errorf("waiting for %v used %.1f %% of a CPU", elapsed, share)
	}
}
