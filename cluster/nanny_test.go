package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// quiet is a logger for tests with expected failures.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func startNanny(t *testing.T, role string, spec WorkerSpec, cfg NannyConfig) *Nanny {
	t.Helper()
	spec.Scheduler, cfg.role = "test://scheduler", "test-"+role
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	n, err := StartNanny(spec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = n.Shutdown(ctx)
	})
	return n
}

func ready(t *testing.T, n *Nanny) WorkerInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n.Info()
}

// until waits for a condition.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not come")
		}
	}
}

func ended(t *testing.T, n *Nanny) error {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the nanny has not ended")
	}
	return n.Err()
}

func TestNanny(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "steady", WorkerSpec{Name: "alice"}, NannyConfig{})
	info := ready(t, n)
	if info.Address != "test://alice" || info.Starts != 1 || info.State != Running || info.Name != "alice" ||
		len(info.DataAddresses) != 1 {
		t.Errorf("got %+v, want alice running after one start", info)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("second Close: got %v, want nil", err)
	}
	gone(t, info.PID)
	if got := n.Info(); got.State != Closed || got.PID != 0 || got.Address != "" {
		t.Errorf("after Close: got %+v, want a closed worker without a process", got)
	}
	if err := n.Ready(t.Context()); err == nil || n.Err() != nil {
		t.Errorf("a closed worker is ready (%v), %v", err, n.Err())
	}
}

// A killed worker is replaced at once, repeatedly.
func TestNannyRestarts(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "steady", WorkerSpec{Name: "phoenix"}, NannyConfig{stable: time.Nanosecond})
	pid := ready(t, n).PID
	for i := 2; i <= 4; i++ {
		signalTo(t, pid, syscall.SIGKILL)
		until(t, "another process", func() bool { in := n.Info(); return in.State == Running && in.PID != pid })
		info := n.Info()
		if info.Starts != i {
			t.Errorf("%d starts, want %d", info.Starts, i)
		}
		gone(t, pid)
		pid = info.PID
	}
}

// A graceful end is final, and SIGTERM requests it.
func TestNannySIGTERM(t *testing.T) {
	n := startNanny(t, "steady", WorkerSpec{Name: "bob"}, NannyConfig{})
	signalTo(t, ready(t, n).PID, syscall.SIGTERM)
	if err := ended(t, n); err != nil {
		t.Error(err)
	}
}

// The nanny gives up on a worker that never starts, with the error of the child.
func TestNannyGivesUp(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "crash", WorkerSpec{Name: "carol"}, NannyConfig{pause: time.Millisecond})
	err := n.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such planet") || !strings.Contains(err.Error(), "carol") {
		t.Errorf("Ready: got %v, want the error of the child with the name carol", err)
	}
	if err := ended(t, n); err == nil || n.Info().State != Failed || n.Info().Starts != firstFailures {
		t.Errorf("got %v, %+v, want a failed worker after %d starts", err, n.Info(), firstFailures)
	}
}

// The nanny also gives up on a worker that exits early each time, after more attempts.
func TestNannyEarlyExits(t *testing.T) {
	n := startNanny(t, "early", WorkerSpec{Name: "dave"}, NannyConfig{pause: time.Microsecond, MaxFailures: 5,
		stable: time.Hour})
	if err := ended(t, n); err == nil || n.Info().Starts != 5 || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("got %v, %+v, want exit code 1 after 5 starts", err, n.Info())
	}
}

func TestNannyStartTimeout(t *testing.T) {
	n := startNanny(t, "silent", WorkerSpec{Name: "erin"}, NannyConfig{StartTimeout: 20 * time.Millisecond,
		pause: time.Millisecond})
	if err := ended(t, n); err == nil || !strings.Contains(err.Error(), "not registered with test://scheduler") {
		t.Errorf("got %v, want that the worker has not registered", err)
	}
}

// A process that ignores orders is killed after the timeout.
func TestNannyKills(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "stubborn", WorkerSpec{Name: "frank"}, NannyConfig{})
	pid := ready(t, n).PID
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

func TestNannyMemory(t *testing.T) {
	var log bytes.Buffer
	n := startNanny(t, "hog", WorkerSpec{Name: "grace", MemoryLimit: 128 << 20}, NannyConfig{
		Interval: 5 * time.Millisecond, pause: time.Millisecond, MaxFailures: 1, stable: time.Hour,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err := ended(t, n); err == nil || !strings.Contains(err.Error(), "95% of its memory limit of 128 MiB") {
		t.Errorf("%v\n%s", err, log.String())
	}
}

func TestNannyRestartOnRequest(t *testing.T) {
	n := startNanny(t, "again", WorkerSpec{Name: "heidi", LocalDirectory: t.TempDir()}, NannyConfig{MaxFailures: 1})
	until(t, "the second process", func() bool { return n.Info().Starts == 2 && n.Info().State == Running })
}

// Close while the nanny waits between two attempts.
func TestNannyCloseWhileResting(t *testing.T) {
	n := startNanny(t, "crash", WorkerSpec{Name: "ivan"}, NannyConfig{pause: time.Hour})
	until(t, "a pause", func() bool { return n.Info().State == Restarting })
	if err := n.Shutdown(t.Context()); err != nil || n.Info().State != Closed {
		t.Errorf("Shutdown: got %v, %+v, want a closed worker", err, n.Info())
	}
}

// A child has its three standard descriptors, the two pipes to its parent and those of the Go runtime, whatever else
// the parent has open, and a process that it starts inherits none of the pipes. Tasks have no input and no role.
func TestChildDescriptors(t *testing.T) {
	leaky, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0) // like a native library
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaky)
	n := startNanny(t, "fds", WorkerSpec{Name: "judy"}, NannyConfig{Stdout: io.Discard, Stderr: io.Discard})
	info := ready(t, n)
	all := strings.Join(info.DataAddresses, "\n")
	if info.Address != "<nil> <nil> <nil> 0" || strings.Contains(all, "/dev/zero") ||
		info.DataAddresses[len(info.DataAddresses)-1] != "" {
		t.Errorf("%s\n%s", info.Address, all)
	}
	theirs := info.DataAddresses[len(info.DataAddresses)-2]
	if n := strings.Count(theirs, "->"); n != 4 { // ls has the folder open
		t.Errorf("a child of the child has %d descriptors:\n%s", n, theirs)
	}
}

// The children of a killed parent end.
func TestParentDies(t *testing.T) {
	n := startNanny(t, "parent", WorkerSpec{Name: "ken"}, NannyConfig{})
	info := ready(t, n)
	grandchild, err := strconv.Atoi(info.Address)
	if err != nil {
		t.Fatal(err)
	}
	signalTo(t, info.PID, syscall.SIGKILL)
	gone(t, grandchild)
}

func TestNannyBadSpec(t *testing.T) {
	for _, spec := range []WorkerSpec{{}, {Scheduler: "x", Threads: -1}, {Scheduler: "x", MemoryLimit: -1}} {
		if n, err := StartNanny(spec, NannyConfig{}); err == nil {
			t.Errorf("%+v: got %v, want an error", spec, n)
		}
	}
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := StartNanny(WorkerSpec{Scheduler: "x"}, NannyConfig{}); !errors.Is(err, ErrNoMain) {
		t.Errorf("without Main: got %v, want ErrNoMain", err)
	}
}
