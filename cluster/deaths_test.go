package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
)

// death specifies how a task ends its process.
type death struct {
	How  string `task:"how"` // exit, goroutine, raw, panic or signal
	Code int    `task:"code"`
}

var die = client.Func("cluster_test.die", func(ctx context.Context, d death) (int, error) {
	switch d.How {
	case "exit":
		os.Exit(d.Code)
	case "goroutine":
		go os.Exit(d.Code)
	case "raw": // like exit of a C library: no Go code runs
		syscall.Exit(d.Code)
	case "panic":
		go panic("in a goroutine of a task")
	case "signal":
		if err := syscall.Kill(os.Getpid(), syscall.Signal(d.Code)); err != nil {
			return 0, err
		}
	}
	<-ctx.Done()
	return 0, ctx.Err()
})

// deaths returns all ways of the table test.
func deaths() []death {
	list := []death{{"panic", 2}, {"signal", int(syscall.SIGKILL)}, {"signal", int(syscall.SIGSEGV)},
		{"signal", int(syscall.SIGABRT)}}
	for _, how := range []string{"exit", "goroutine", "raw"} {
		for _, code := range []int{0, 1, 2, 3, 75, 255} {
			list = append(list, death{how, code})
		}
	}
	return list
}

func noFailures(cfg *scheduler.Config) { cfg.AllowedFailures = -1 }

// After any end of the process of a worker its task fails, the process is replaced, and the next task runs.
func TestDeaths(t *testing.T) {
	leak.Check(t)
	for workers := 1; workers <= 3; workers++ {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			ctx, c, cl := start(t, cluster.Config{Workers: workers, Threads: 1, Logger: quiet, Scheduler: noFailures,
				Nanny: cluster.WithoutPauses(cluster.NannyConfig{Stderr: discard{}})})
			for i, d := range deaths() {
				if workers > 1 && i%3 != workers-1 {
					continue // one worker runs all of them, the others a third each
				}
				dieOn(ctx, t, cl, d)
			}
			until(ctx, t, "all workers", func() bool { return running(c) == workers })
		})
	}
}

// The same for workers of a scheduler elsewhere, as `millstream worker` and `cuda-worker` start them.
func TestDeathsOfNannies(t *testing.T) {
	leak.Check(t)
	ctx := within(t, 2*time.Minute)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Logger: quiet,
		AllowedFailures: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := cluster.StartNanny(cluster.WorkerSpec{Scheduler: s.Address(), Threads: 1},
		cluster.WithoutPauses(cluster.NannyConfig{Listen: "tcp://127.0.0.1:0", StartTimeout: -1, Logger: quiet,
			Stderr: discard{}, Stdout: discard{}}))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	cl, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, d := range deaths() {
		dieOn(ctx, t, cl, d)
	}
}

// Exceeding the memory limit is a crash like any other: each one counts, whether the worker or its nanny detects it
// first, and the error has the sizes.
func TestDeathsByMemory(t *testing.T) {
	leak.Check(t)
	const limit = 400 << 20
	ctx, c, cl := start(t, cluster.Config{Workers: 2, Threads: 1, MemoryLimit: limit, Logger: quiet,
		Nanny: cluster.WithoutPauses(cluster.NannyConfig{Stderr: discard{}})})
	_, err := hoard.Submit(ctx, cl, client.Val(2*limit)).Result(ctx)
	if !errors.Is(err, client.ErrKilledWorker) || !strings.Contains(err.Error(), "4 workers died") ||
		!strings.Contains(err.Error(), "memory limit") || !strings.Contains(err.Error(), "400 MiB") {
		t.Errorf("got error %v, want %v after 4 deaths with a memory limit of 400 MiB", err, client.ErrKilledWorker)
	}
	starts := 0
	until(ctx, t, "replacements", func() bool {
		starts = 0
		for _, w := range c.Workers() {
			starts += w.Starts
		}
		return starts >= 2+4 && running(c) == 2
	})
	if starts != 2+4 {
		t.Errorf("got %d processes, want %d: two, and one for each death", starts, 2+4)
	}
}

var hoard = client.Func("cluster_test.hoard", func(ctx context.Context, n int) (int, error) {
	var all [][]byte
	for got := 0; got < n && ctx.Err() == nil; got += 1 << 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		time.Sleep(time.Millisecond) // slowly enough for both checks
	}
	<-ctx.Done() // until the process is ended
	return len(all), ctx.Err()
})

// dieOn crashes a worker by a task, and runs another task after it.
func dieOn(ctx context.Context, t *testing.T, cl *client.Client, d death) {
	t.Helper()
	f := die.Submit(ctx, cl, client.Val(d), client.WithImpure())
	cause := fmt.Sprintf("process ended with exit code %d", d.Code)
	if d.How == "signal" {
		cause = fmt.Sprintf("process ended by signal %d", d.Code)
		if d.Code != int(syscall.SIGKILL) {
			cause = "process ended " // with exit code 2, where Go's runtime prints the stacks first
		}
	}
	_, err := f.Result(ctx)
	if !errors.Is(err, client.ErrKilledWorker) || !strings.Contains(err.Error(), "1 worker died") ||
		!strings.Contains(err.Error(), cause) {
		t.Fatalf("%v: got error %v, want %v with %q", d, err, client.ErrKilledWorker, cause)
	}
	g := inc.Submit(ctx, cl, client.Val(1), client.WithImpure())
	if v, err := g.Result(ctx); v != 2 || err != nil {
		t.Fatalf("a task after %v: got %v, %v, want 2", d, v, err)
	}
}

func running(c *cluster.Cluster) int {
	n := 0
	for _, w := range c.Workers() {
		if w.State == cluster.Running {
			n++
		}
	}
	return n
}

func until(ctx context.Context, t *testing.T, what string, f func() bool) {
	t.Helper()
	for !f() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("got no %s: %v", what, context.Cause(ctx))
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
