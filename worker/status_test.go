package worker_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// statusOrder returns the message of the scheduler that sets a status.
func statusOrder(status string) msgpack.Map {
	return msgpack.MapOf("op", "worker-status-change", "status", status, "stimulus_id", "x")
}

// A worker that is short of memory stays paused when the scheduler lets it run, until memory is free.
func TestPausedAndOrdered(t *testing.T) {
	d := direct(t, "inproc://")
	var used atomic.Int64
	w, seen := d.worker(t, worker.Config{MemoryLimit: 1000, Memory: worker.Memory{Usage: used.Load,
		Interval: time.Millisecond, Spill: -1, Target: -1}})
	expect := func(want string) {
		t.Helper()
		if m := seen.receive(t, "worker-status-change"); m.GetString("status") != want || w.Status() != want {
			t.Errorf("got %v, and the status is %s; want %s", m, w.Status(), want)
		}
	}
	used.Store(900)
	expect("paused")
	seen.send(t, statusOrder("running"))
	expect("paused")
	seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil), msgpack.MapOf("op", "steal-request", "key", "a",
		"stimulus_id", "s"))
	if m := seen.receive(t, "steal-response"); m.GetString("state") != "ready" {
		t.Errorf("got %v, want a task that is ready and was not started", m)
	}
	used.Store(100)
	expect("running")
	seen.send(t, statusOrder("paused"))
	expect("paused")
	seen.send(t, statusOrder("running"))
	expect("running")
}

// Only a worker that is restarted, or that the scheduler considered dead, requests a replacement.
func TestClosedForRestart(t *testing.T) {
	d := direct(t, "inproc://")
	for reason, want := range map[string]bool{"restart": true, "worker-ttl of 300 s": true, "retired": false,
		"": false} {
		w, seen := d.worker(t, worker.Config{})
		seen.send(t, msgpack.MapOf("op", "close", "reason", reason))
		<-w.Done()
		if err := w.Err(); !errors.Is(err, worker.ErrSchedulerClosed) || errors.Is(err, worker.ErrRestart) != want {
			t.Errorf("reason %q: got %v, want ErrRestart: %v", reason, err, want)
		}
	}
}
