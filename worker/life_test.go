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

// A scheduler of Millstream that was restarted gets the worker back with its data and the
// results of what was running.
func TestReattach(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	name := gateName(t)
	w, seen := d.worker(t, worker.Config{Threads: 2})
	seen.tell(t, compute("a", 1, spec(t, inc, val(1)), nil), compute("running", 2, spec(t, gate, val(name)), nil))
	seen.hear(t, "task-finished")
	d.close()
	<-seen.gone
	l, err := comm.Listen(testContext(t), d.address, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	again := directOn(t, l)
	back := again.next(t)
	if back.address != w.Address() {
		t.Errorf("came back as %s", back.address)
	}
	announced := func(key string) {
		t.Helper()
		m := back.hear(t, "add-keys")
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
	back.tell(t, compute("b", 3, spec(t, inc, ref[int]("a")), map[string][]string{"a": {w.Address()}}))
	back.hear(t, "task-finished")
}

// A scheduler that has taken the worker for dead is told again.
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
		t.Errorf("came back as %s", back.address)
	}
}

// A scheduler that has retired the worker answers heartbeats as if it had never known it, on another connection than
// the order to close: the order is obeyed although the answer was faster.
func TestClosedAfterMissing(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{})
	d.mu.Lock()
	d.missing = true
	d.mu.Unlock()
	<-d.told
	seen.tell(t, msgpack.MapOf("op", "close", "reason", "retired"))
	select {
	case <-w.Done():
	case <-time.After(patience):
		t.Fatal("got a worker that lives on, want its end")
	}
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) {
		t.Errorf("the end: got %v, want ErrSchedulerClosed", w.Err())
	}
}

func TestSchedulerGone(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{DeathTimeout: 300 * time.Millisecond})
	d.close()
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerLost) {
		t.Errorf("ended with %v", w.Err())
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
		t.Errorf("cancelled: %v", err)
	}
}

func TestOrderedToClose(t *testing.T) {
	d := direct(t, "inproc://")
	w, seen := d.worker(t, worker.Config{})
	seen.tell(t, compute("w", 1, spec(t, wait), nil), msgpack.MapOf("op", "close", "reason", "because"))
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) || !strings.Contains(w.Err().Error(), "because") {
		t.Errorf("ended with %v", w.Err())
	}
	if w.Status() != "closed" {
		t.Errorf("status %s", w.Status())
	}
	w, seen = d.worker(t, worker.Config{})
	seen.tell(t, msgpack.MapOf("op", "close", "reason", "restart"))
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) || !errors.Is(w.Err(), worker.ErrRestart) {
		t.Errorf("ended with %v", w.Err())
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
	seen.tell(t, compute("w", 1, spec(t, wait), nil))
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	<-seen.gone
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if !errors.Is(w.Err(), worker.ErrClosed) {
		t.Errorf("ended with %v", w.Err())
	}
}

func TestRetire(t *testing.T) {
	d := direct(t, "inproc://")
	w, seen := d.worker(t, worker.Config{})
	seen.tell(t, msgpack.MapOf("op", "worker-status-change", "status", "closing_gracefully", "stimulus_id", "x"),
		compute("never", 1, spec(t, inc, val(1)), nil))
	if m := seen.hear(t, "worker-status-change"); m.GetString("status") != "closing_gracefully" {
		t.Errorf("said %v", m)
	}
	if err := w.Retire(testContext(t)); err != nil {
		t.Error(err)
	}
	asked := <-d.retired
	if list, _ := asked.Get("workers"); list.([]any)[0] != w.Address() {
		t.Errorf("asked for %v", asked)
	}
	select {
	case <-w.Done():
	default:
		t.Error("still there")
	}
	if n := len(w.Timelines()); n != 0 {
		t.Errorf("%d tasks ran on a worker that was retiring", n)
	}
	w, _ = d.worker(t, worker.Config{Lifetime: 20 * time.Millisecond})
	<-w.Done()
	<-d.retired
}

// Above the pause fraction nothing is started, and the scheduler knows; below it, it goes on.
func TestPause(t *testing.T) {
	d := direct(t, "inproc://")
	var used atomic.Int64
	_, seen := d.worker(t, worker.Config{MemoryLimit: 1000, Memory: worker.Memory{Usage: used.Load,
		Interval: time.Millisecond, Spill: -1, Target: -1}})
	used.Store(900)
	if m := seen.hear(t, "worker-status-change"); m.GetString("status") != "paused" {
		t.Errorf("said %v", m)
	}
	seen.tell(t, compute("a", 1, spec(t, inc, val(1)), nil), msgpack.MapOf("op", "steal-request", "key", "a",
		"stimulus_id", "s"))
	if m := seen.hear(t, "steal-response"); m.GetString("state") != "ready" {
		t.Errorf("said %v", m)
	}
	seen.tell(t, compute("a", 2, spec(t, inc, val(1)), nil))
	used.Store(100)
	if m := seen.hear(t, "worker-status-change"); m.GetString("status") != "running" {
		t.Errorf("said %v", m)
	}
	seen.hear(t, "task-finished")
}

func TestTerminatesAboveLimit(t *testing.T) {
	d := direct(t, "inproc://")
	var used atomic.Int64
	w, seen := d.worker(t, worker.Config{MemoryLimit: 1 << 40, OwnProcess: true,
		Memory: worker.Memory{Usage: used.Load, Interval: time.Millisecond}})
	used.Store(1 << 41)
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrMemory) {
		t.Errorf("ended with %v", w.Err())
	}
	// The scheduler counts it as a death that the tasks are to blame for.
	if m := seen.hear(t, "close-stream"); !strings.Contains(m.GetString("reason"), worker.ErrMemory.Error()) {
		t.Errorf("the stream ends with %v, want the reason %q", m, worker.ErrMemory)
	}
	w, seen = d.worker(t, worker.Config{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if m := seen.hear(t, "close-stream"); m.GetString("reason") != "" {
		t.Errorf("the stream of a worker that was closed ends with %v, want no reason", m)
	}
}

// Starting and closing again and again leaves no descriptors behind.
func TestManyRounds(t *testing.T) {
	before, _ := os.ReadDir("/proc/self/fd")
	for range 20 {
		d := direct(t, "inproc://")
		w, seen := d.worker(t, worker.Config{Threads: 2})
		seen.tell(t, compute("a", 1, spec(t, inc, val(1)), nil))
		seen.hear(t, "task-finished")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		d.close()
	}
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before)+5 {
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
}
