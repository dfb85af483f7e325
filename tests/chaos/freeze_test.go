package chaos

import (
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/scheduler"
)

// A worker is stopped for longer than the scheduler waits for its heartbeats, and goes on: what it says then
// is refused, it comes back as a worker like others, and the result is that of an undisturbed run.
func TestFrozenWorker(t *testing.T) {
	frozen, ttl := pick(10*time.Second, 4*time.Second), pick(3*time.Second, 1500*time.Millisecond)
	p := plan{blocks: pick(130, 50), layers: 6, seed: 13}
	c, cl := local(t, cluster.Config{Workers: 4, Threads: 2, Scheduler: func(cfg *scheduler.Config) {
		cfg.WorkerTTL = ttl
	}})
	calm := p.undisturbed(t, cl, false)
	start := time.Now()
	run := p.submit(t, cl, false)
	collected := make(chan uint64, 1)
	go func() { collected <- run.collect() }()
	await(t, "a tenth is done", func() bool { return run.progress() > 0.1 })
	victim := c.Workers()[1]
	if err := syscall.Kill(victim.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(victim.PID, syscall.SIGCONT)
	stopped := time.Now()
	await(t, "the scheduler gives the frozen worker up", func() bool { return registered(t, c, victim.Address) == 0 })
	noticed := time.Since(stopped)
	at := run.progress()
	time.Sleep(frozen - time.Since(stopped))
	while := run.progress()
	if err := syscall.Kill(victim.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "four workers are there again", func() bool { return registered(t, c, "") == 4 })
	disturbed := <-collected
	t.Logf("%d tasks in %v; a worker was stopped for %v, given up after %v; %.0f %% was done then, %.0f %% when it "+
		"went on; hash %x, undisturbed %x",
		p.tasks(), time.Since(start).Round(time.Millisecond), frozen, noticed.Round(time.Millisecond), 100*at,
		100*while, disturbed, calm)
	if disturbed != calm {
		t.Error("the disturbed run gave another result")
	}
	if while <= at && at < 1 {
		t.Error("the others did not go on while one was frozen")
	}
}
