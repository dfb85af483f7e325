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

// quiet is a logger for tests in which things are meant to go wrong.
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

// until waits for a state of affairs.
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
	case <-time.After(time.Minute):
		t.Fatal("the nanny goes on")
	}
	return n.Err()
}

func TestNanny(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "steady", WorkerSpec{Name: "alice"}, NannyConfig{})
	info := ready(t, n)
	if info.Address != "test://alice" || info.Starts != 1 || info.State != Running || info.Name != "alice" ||
		len(info.DataAddresses) != 1 {
		t.Errorf("%+v", info)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	gone(t, info.PID)
	if got := n.Info(); got.State != Closed || got.PID != 0 || got.Address != "" {
		t.Errorf("after: %+v", got)
	}
	if err := n.Ready(t.Context()); err == nil || n.Err() != nil {
		t.Errorf("a closed worker is ready (%v), %v", err, n.Err())
	}
}

// A worker that is killed is replaced at once, and again.
func TestNannyRestarts(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "steady", WorkerSpec{Name: "phoenix"}, NannyConfig{settle: time.Nanosecond})
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

// The end in peace is final, and SIGTERM asks for it.
func TestNannySIGTERM(t *testing.T) {
	n := startNanny(t, "steady", WorkerSpec{Name: "bob"}, NannyConfig{})
	signalTo(t, ready(t, n).PID, syscall.SIGTERM)
	if err := ended(t, n); err != nil {
		t.Error(err)
	}
}

// What never starts is given up, and the reason is the child's.
func TestNannyGivesUp(t *testing.T) {
	leak.Check(t)
	n := startNanny(t, "crash", WorkerSpec{Name: "carol"}, NannyConfig{pause: time.Millisecond})
	err := n.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such planet") || !strings.Contains(err.Error(), "carol") {
		t.Errorf("%v", err)
	}
	if err := ended(t, n); err == nil || n.Info().State != Failed || n.Info().Starts != firstFailures {
		t.Errorf("%v, %+v", err, n.Info())
	}
}

// One that dies young each time is given up too, later.
func TestNannyDiesYoung(t *testing.T) {
	n := startNanny(t, "young", WorkerSpec{Name: "dave"}, NannyConfig{pause: time.Microsecond, MaxFailures: 5,
		settle: time.Hour})
	if err := ended(t, n); err == nil || n.Info().Starts != 5 || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("%v, %+v", err, n.Info())
	}
}

func TestNannyStartTimeout(t *testing.T) {
	n := startNanny(t, "silent", WorkerSpec{Name: "erin"}, NannyConfig{StartTimeout: 20 * time.Millisecond,
		pause: time.Millisecond})
	if err := ended(t, n); err == nil || !strings.Contains(err.Error(), "not registered with test://scheduler") {
		t.Errorf("%v", err)
	}
}

// A process that hears nothing is killed when the time is over.
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
		Interval: 5 * time.Millisecond, pause: time.Millisecond, MaxFailures: 1, settle: time.Hour,
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

// Close while the nanny waits between two tries.
func TestNannyCloseWhileResting(t *testing.T) {
	n := startNanny(t, "crash", WorkerSpec{Name: "ivan"}, NannyConfig{pause: time.Hour})
	until(t, "a pause", func() bool { return n.Info().State == Restarting })
	if err := n.Shutdown(t.Context()); err != nil || n.Info().State != Closed {
		t.Errorf("%v, %+v", err, n.Info())
	}
}

// A child holds its three standard descriptors, the two ways to its parent and what Go's
// runtime needs, whatever else the parent has open, and what it starts itself holds none
// of them. Tasks find no input and no role.
func TestChildDescriptors(t *testing.T) {
	leaky, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0) // as a native library would
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

// A parent that is killed takes its children with it.
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
			t.Errorf("%+v: %v", spec, n)
		}
	}
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := StartNanny(WorkerSpec{Scheduler: "x"}, NannyConfig{}); !errors.Is(err, ErrNoMain) {
		t.Errorf("without Main: %v", err)
	}
}
