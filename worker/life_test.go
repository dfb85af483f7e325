package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// After the restart of a Millstream scheduler the worker reattaches with its data and the results of running tasks.
func TestReattach(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	name := gateName(t)
	w, seen := d.worker(t, worker.Config{Threads: 2})
	seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil), compute("running", 2, spec(t, gate, val(name)), nil))
	seen.receive(t, "task-finished")
	d.close()
	<-seen.gone
	l, err := comm.Listen(testContext(t), d.address, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	again := directOn(t, l)
	back := again.next(t)
	if back.address != w.Address() {
		t.Errorf("got address %s after the restart, want %s", back.address, w.Address())
	}
	announced := func(key string) {
		t.Helper()
		m := back.receive(t, "add-keys")
		keys, _ := m.Get("keys")
		sizes, _ := m.Get("nbytes")
		adopt, _ := m.Get("adopt")
		if fmt.Sprint(keys) != "["+key+"]" || len(sizes.([]any)) != 1 || adopt != true {
			t.Errorf("announced %v, want %s with its size, to be adopted", m, key)
		}
	}
	announced("a")
	close(gates(name))
	announced("running")
	back.send(t, compute("b", 3, spec(t, inc, ref[int]("a")), map[string][]string{"a": {w.Address()}}))
	back.receive(t, "task-finished")
}

// A worker that the scheduler considered dead registers again.
func TestMissingWorker(t *testing.T) {
	d := direct(t, "inproc://")
	w, _ := d.worker(t, worker.Config{})
	d.mu.Lock()
	d.missing = true
	d.mu.Unlock()
	back := d.next(t)
	d.mu.Lock()
	d.missing = false
	d.mu.Unlock()
	if back.address != w.Address() {
		t.Errorf("got address %s after the restart, want %s", back.address, w.Address())
	}
}

// A scheduler that has retired the worker replies to heartbeats that it is unknown, on another connection than the
// message to close: the worker closes although the reply was faster.
func TestClosedAfterMissing(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{})
	d.mu.Lock()
	d.missing = true
	d.mu.Unlock()
	<-d.replied
	seen.send(t, msgpack.MapOf("op", "close", "reason", "retired"))
	select {
	case <-w.Done():
	case <-time.After(patience):
		t.Fatal("worker not closed")
	}
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) {
		t.Errorf("reason of the end: got %v, want ErrSchedulerClosed", w.Err())
	}
}

func TestSchedulerGone(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DeathTimeout: 300 * time.Millisecond})
	d.close()
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerLost) {
		t.Errorf("reason of the end: got %v", w.Err())
	}
}

func TestNoScheduler(t *testing.T) {
	for address, want := range map[string]string{"": "Config.Scheduler", "tcp://127.0.0.1:1": "death-timeout",
		"nonsense://x": "nonsense"} {
		_, err := worker.Start(testContext(t), worker.Config{Scheduler: address, Threads: 1,
			DeathTimeout: 100 * time.Millisecond, Logger: quiet(), LocalDirectory: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for what, cfg := range map[string]worker.Config{
		"Threads":     {Scheduler: "tcp://127.0.0.1:1", Threads: -1},
		"MemoryLimit": {Scheduler: "tcp://127.0.0.1:1", MemoryLimit: -1},
		"resource":    {Scheduler: "tcp://127.0.0.1:1", Resources: map[string]float64{"x": -1}},
		"folder":      {Scheduler: "tcp://127.0.0.1:1", LocalDirectory: "/proc/none"},
		"listen":      {Scheduler: "tcp://127.0.0.1:1", Listen: "tcp://127.0.0.1:99999", LocalDirectory: t.TempDir()},
		"dashboard":   {Scheduler: "tcp://127.0.0.1:1", Dashboard: "nowhere:x", LocalDirectory: t.TempDir()},
	} {
		cfg.Logger = quiet()
		if _, err := worker.Start(testContext(t), cfg); err == nil || !strings.Contains(err.Error(), what) &&
			what != "listen" {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := worker.Start(ctx, worker.Config{Scheduler: "tcp://127.0.0.1:1", Logger: quiet(),
		LocalDirectory: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled context: got %v", err)
	}
}

func TestOrderedToClose(t *testing.T) {
	d := direct(t, "inproc://")
	w, seen := d.worker(t, worker.Config{})
	seen.send(t, compute("w", 1, spec(t, wait), nil), msgpack.MapOf("op", "close", "reason", "because"))
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) || !strings.Contains(w.Err().Error(), "because") {
		t.Errorf("reason of the end: got %v", w.Err())
	}
	if w.Status() != "closed" {
		t.Errorf("status %s", w.Status())
	}
	w, seen = d.worker(t, worker.Config{})
	seen.send(t, msgpack.MapOf("op", "close", "reason", "restart"))
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) || !errors.Is(w.Err(), worker.ErrRestart) {
		t.Errorf("reason of the end: got %v", w.Err())
	}
	w, _ = d.worker(t, worker.Config{})
	d.call(t, w.Address(), "terminate", nil, nil)
	<-w.Done()
}

// Close leaves no file, no goroutine (see TestMain), and ends tasks through their context.
func TestClose(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	dir := t.TempDir()
	w, err := worker.Start(testContext(t), worker.Config{Scheduler: d.address, Threads: 1, Logger: quiet(),
		LocalDirectory: dir})
	if err != nil {
		t.Fatal(err)
	}
	seen := d.next(t)
	seen.send(t, compute("w", 1, spec(t, wait), nil))
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	<-seen.gone
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(left) > 0 {
		t.Errorf("got files %v left, want none", left)
	}
	if !errors.Is(w.Err(), worker.ErrClosed) {
		t.Errorf("reason of the end: got %v", w.Err())
	}
}

// A worker that closes cancels its tasks and reports no errors of them: the scheduler runs them elsewhere.
func TestCloseReportsNoErrors(t *testing.T) {
	d := direct(t, "inproc://")
	for range 30 {
		w, seen := d.worker(t, worker.Config{Threads: 5})
		for i := range 4 {
			seen.send(t, compute(fmt.Sprint("w", i), int64(i+1), spec(t, wait), nil))
		}
		seen.send(t, compute("last", 9, spec(t, inc, val(1)), nil))
		seen.receive(t, "task-finished")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		<-seen.gone
		for done := false; !done; {
			select {
			case m := <-seen.ops:
				if m.GetString("op") == "task-erred" {
					t.Fatalf("got %v, want no error of a canceled task", m)
				}
			default:
				done = true
			}
		}
	}
}

func TestRetire(t *testing.T) {
	d := direct(t, "inproc://")
	w, seen := d.worker(t, worker.Config{})
	seen.send(t, msgpack.MapOf("op", "worker-status-change", "status", "closing_gracefully", "stimulus_id", "x"),
		compute("never", 1, spec(t, inc, val(1)), nil))
	if m := seen.receive(t, "worker-status-change"); m.GetString("status") != "closing_gracefully" {
		t.Errorf("got message %v", m)
	}
	if err := w.Retire(testContext(t)); err != nil {
		t.Error(err)
	}
	asked := <-d.retired
	if list, _ := asked.Get("workers"); list.([]any)[0] != w.Address() {
		t.Errorf("got request %v", asked)
	}
	select {
	case <-w.Done():
	default:
		t.Error("worker not closed")
	}
	if n := len(w.Timelines()); n != 0 {
		t.Errorf("got %d tasks run on a retiring worker, want 0", n)
	}
	w, _ = d.worker(t, worker.Config{Lifetime: 20 * time.Millisecond})
	<-w.Done()
	<-d.retired
}

// Above the pause threshold no task is started, and the scheduler is notified; below it tasks are started again.
func TestPause(t *testing.T) {
	d := direct(t, "inproc://")
	var used atomic.Int64
	_, seen := d.worker(t, worker.Config{MemoryLimit: 1000, Memory: worker.Memory{Usage: used.Load,
		Interval: time.Millisecond, Spill: -1, Target: -1}})
	used.Store(900)
	if m := seen.receive(t, "worker-status-change"); m.GetString("status") != "paused" {
		t.Errorf("got message %v", m)
	}
	seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil), msgpack.MapOf("op", "steal-request", "key", "a",
		"stimulus_id", "s"))
	if m := seen.receive(t, "steal-response"); m.GetString("state") != "ready" {
		t.Errorf("got message %v", m)
	}
	seen.send(t, compute("a", 2, spec(t, inc, val(1)), nil))
	used.Store(100)
	if m := seen.receive(t, "worker-status-change"); m.GetString("status") != "running" {
		t.Errorf("got message %v", m)
	}
	seen.receive(t, "task-finished")
}

func TestTerminatesAboveLimit(t *testing.T) {
	d := direct(t, "inproc://")
	var used atomic.Int64
	w, seen := d.worker(t, worker.Config{MemoryLimit: 1 << 40, OwnProcess: true,
		Memory: worker.Memory{Usage: used.Load, Interval: time.Millisecond}})
	used.Store(1 << 41)
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrMemory) {
		t.Errorf("reason of the end: got %v", w.Err())
	}
	// The scheduler counts it as a crash that tasks have caused.
	if m := seen.receive(t, "close-stream"); !strings.Contains(m.GetString("reason"), worker.ErrMemory.Error()) {
		t.Errorf("last message: got %v, want the reason %q", m, worker.ErrMemory)
	}
	w, seen = d.worker(t, worker.Config{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if m := seen.receive(t, "close-stream"); m.GetString("reason") != "" {
		t.Errorf("last message of a closed worker: got %v, want no reason", m)
	}
}

// Starting and closing many times leaks no descriptors.
func TestManyRounds(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd")
	for range 20 {
		d := direct(t, "inproc://")
		w, seen := d.worker(t, worker.Config{Threads: 2})
		seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil))
		seen.receive(t, "task-finished")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		d.close()
	}
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before)+5 {
		t.Errorf("got %d descriptors, want the %d before", len(after), len(before))
	}
}
