package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

var (
	inc   = client.Func("cluster_test.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	sum   = client.Func("cluster_test.sum", sumOf)
	pidOf = client.Func("cluster_test.pid", func(context.Context, int) (int, error) { return os.Getpid(), nil })
	fail  = client.Func("cluster_test.fail", func(_ context.Context, what string) (int, error) {
		return 0, errors.New(what)
	})
	crash = client.Func("cluster_test.panic", func(_ context.Context, what string) (int, error) { panic(what) })
	nap   = client.Func2("cluster_test.nap", func(ctx context.Context, ms, x int) (int, error) {
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return x, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	blob = client.Func("cluster_test.blob", func(_ context.Context, n int) ([]byte, error) {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		return b, nil
	})
	size = client.Func("cluster_test.size", func(_ context.Context, bs [][]byte) (int, error) {
		n := 0
		for _, b := range bs {
			n += len(b)
		}
		return n, nil
	})
)

func sumOf(_ context.Context, xs []int) (int, error) {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n, nil
}

// quiet is a logger for tests with expected failures.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// within returns a context with a timeout, for tests that must not hang.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, o cluster.Config) (context.Context, *cluster.Cluster, *client.Client) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	o.Validate = true
	c, err := cluster.Local(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	cl, err := c.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return ctx, c, cl
}

func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Submit, Map, Gather, futures as arguments, errors and panics, in every mode and over every protocol.
func TestLocal(t *testing.T) {
	for _, o := range []cluster.Config{
		{Mode: cluster.Goroutines, Workers: 2, Threads: 2},
		{Mode: cluster.Goroutines, Workers: 2, Threads: 1, Protocol: "tcp"},
		{Mode: cluster.Goroutines, Workers: 1, Threads: 2, Protocol: "tls"},
		{Workers: 2, Threads: 1},
		{Workers: 2, Threads: 1, DataConnections: "none"},
		{Workers: 1, Threads: 2, Protocol: "tcp"},
		{Workers: 2, Threads: 1, Protocol: "ucxx"},
	} {
		name := fmt.Sprintf("%v %s data=%s", o.Mode, o.Protocol, o.DataConnections)
		t.Run(strings.ReplaceAll(name, "  ", " default "), func(t *testing.T) {
			leak.Check(t)
			ctx, c, cl := start(t, o)
			exercise(ctx, t, cl)
			pids := where(ctx, t, c, cl)
			if err := cl.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, pid := range pids {
				if pid != os.Getpid() && syscall.Kill(pid, 0) == nil {
					t.Errorf("process %d is still there", pid)
				}
			}
		})
	}
}

// exercise uses the features that every cluster has.
func exercise(ctx context.Context, t *testing.T, cl *client.Client) {
	t.Helper()
	if got, err := inc.Submit(ctx, cl, client.Val(41)).Result(ctx); err != nil || got != 42 {
		t.Fatalf("inc(41): got %v, %v, want 42", got, err)
	}
	futures := inc.Map(ctx, cl, numbers(200))
	got, err := client.Gather(ctx, futures)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != i+1 {
			t.Fatalf("result %d is %d", i, x)
		}
	}
	if got, err := sum.Submit(ctx, cl, client.ListOf(futures)).Result(ctx); err != nil || got != 200*201/2 {
		t.Errorf("sum %v, %v", got, err)
	}
	var task *client.TaskError
	if _, err := fail.Submit(ctx, cl, client.Val("no luck")).Result(ctx); !errors.As(err, &task) ||
		!strings.Contains(err.Error(), "no luck") {
		t.Errorf("got %v, want a TaskError with the text of the error", err)
	}
	if _, err := crash.Submit(ctx, cl, client.Val("all over")).Result(ctx); !errors.As(err, &task) ||
		!strings.Contains(err.Error(), "all over") {
		t.Errorf("got %v, want a TaskError with the text of the panic", err)
	}
	blobs := blob.Map(ctx, cl, []int{1 << 20, 2 << 20, 3 << 20, 1})
	if got, err := size.Submit(ctx, cl, client.ListOf(blobs)).Result(ctx); err != nil || got != 6<<20+1 {
		t.Errorf("size %v, %v", got, err)
	}
}

// where checks that tasks run in the processes that the cluster reports.
func where(ctx context.Context, t *testing.T, c *cluster.Cluster, cl *client.Client) []int {
	t.Helper()
	var pids []int
	for _, w := range c.Workers() {
		if w.State != cluster.Running || w.Address == "" {
			t.Errorf("worker: got %+v, want a running one with an address", w)
		}
		got, err := pidOf.Submit(ctx, cl, client.Val(w.PID), client.WithWorkers(w.Address)).Result(ctx)
		if err != nil || got != w.PID {
			t.Errorf("worker %s runs in %d, %v; not in %d", w.Name, got, err, w.PID)
		}
		pids = append(pids, w.PID)
	}
	return pids
}

// A killed worker is replaced, and its lost results are computed again.
func TestLocalKilled(t *testing.T) {
	leak.Check(t)
	ctx, c, cl := start(t, cluster.Config{Workers: 2, Threads: 1, Logger: quiet})
	futures := inc.Map(ctx, cl, numbers(50))
	if _, err := client.Gather(ctx, futures); err != nil {
		t.Fatal(err)
	}
	first := c.Workers()[0]
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got, err := sum.Submit(ctx, cl, client.ListOf(futures)).Result(ctx); err != nil || got != 50*51/2 {
		t.Errorf("sum %v, %v", got, err)
	}
	for ctx.Err() == nil {
		if w := c.Workers(); len(w) == 2 && w[0].State == cluster.Running && w[0].PID != first.PID {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if w := c.Workers()[0]; w.Starts != 2 {
		t.Errorf("worker: got %+v, want 2 starts", w)
	}
	where(ctx, t, c, cl)
}

// A restart replaces every worker and removes all tasks.
func TestLocalRestart(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			leak.Check(t)
			ctx, c, cl := start(t, cluster.Config{Mode: mode, Workers: 2, Threads: 1, Logger: quiet})
			future := inc.Submit(ctx, cl, client.Val(1))
			if err := future.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if err := cl.Restart(ctx, time.Minute); err != nil {
				t.Fatal(err)
			}
			exercise(ctx, t, cl)
			for _, w := range c.Workers() {
				if w.Starts != 2 {
					t.Errorf("worker: got %+v, want 2 starts", w)
				}
			}
			where(ctx, t, c, cl)
		})
	}
}

// Data survives the workers that had it.
func TestScale(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			leak.Check(t)
			ctx, c, cl := start(t, cluster.Config{Mode: mode, Workers: 1, Threads: 1})
			if err := c.Scale(ctx, 3); err != nil {
				t.Fatal(err)
			}
			if got := len(where(ctx, t, c, cl)); got != 3 {
				t.Fatalf("%d workers", got)
			}
			futures := inc.Map(ctx, cl, numbers(60))
			if _, err := client.Gather(ctx, futures); err != nil {
				t.Fatal(err)
			}
			if err := c.Scale(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if got := c.Workers(); len(got) != 1 {
				t.Errorf("workers: got %+v, want one", got)
			}
			got, err := client.Gather(ctx, futures)
			if err != nil || got[59] != 60 {
				t.Errorf("results: got %v, %v, want 1 to 60", got, err)
			}
			if err := c.Scale(ctx, -1); err == nil {
				t.Error("Scale(-1): got nil, want an error")
			}
		})
	}
}

func TestAdapt(t *testing.T) {
	leak.Check(t)
	ctx, c, cl := start(t, cluster.Config{Mode: cluster.Goroutines, Workers: -1, Threads: 1})
	a, err := c.Adapt(cluster.AdaptiveConfig{Maximum: 3, Interval: 20 * time.Millisecond,
		TargetDuration: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	futures := nap.Map(ctx, cl, slicesOf(40, 30), numbers(30))
	most := 0
	for _, f := range futures {
		if err := f.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(c.Workers()))
	}
	if most < 2 || most > 3 {
		t.Errorf("%d workers for 30 tasks", most)
	}
	for _, f := range futures {
		f.Release()
	}
	for len(c.Workers()) > 0 {
		if ctx.Err() != nil {
			t.Fatalf("workers that have nothing to do: %+v", c.Workers())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func slicesOf(v, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestLocalErrors(t *testing.T) {
	leak.Check(t)
	for want, o := range map[string]cluster.Config{
		"inproc:// cannot connect processes": {Protocol: "inproc"},
		`protocol "smoke"`:                   {Protocol: "smoke"},
		"-2 threads":                         {Threads: -2},
		"mode Mode(9)":                       {Mode: 9},
		`Config.DataConnections is "fast"`:   {DataConnections: "fast"},
		"mkdir /dev/null":                    {Workers: 1, LocalDirectory: "/dev/null/no-such-folder", Logger: quiet},
	} {
		c, err := cluster.Local(within(t, time.Minute), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
		if c != nil {
			_ = c.Close()
		}
	}
	// The end of the context ends the start, and no process remains.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := cluster.Local(ctx, cluster.Config{Workers: 1}); err == nil {
		_ = c.Close()
		t.Error("Local with an ended context: got nil, want an error")
	}
}

// Other programs can connect with certificates only.
func TestCredentials(t *testing.T) {
	ctx, c, _ := start(t, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Protocol: "tls"})
	files, err := c.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dial, err := files.Dial("client")
	if err != nil {
		t.Fatal(err)
	}
	cfg := client.Config{}
	cfg.Dial.TLS = dial
	cl, err := client.Connect(ctx, c.Address(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	exercise(ctx, t, cl)
	cfg.Dial.TLS, cfg.Dial.Timeout = nil, 5*time.Second
	if cl, err := client.Connect(ctx, c.Address(), cfg); err == nil {
		_ = cl.Close()
		t.Error("connection without a certificate: got nil, want an error")
	}
	_, plain, _ := start(t, cluster.Config{Mode: cluster.Goroutines, Workers: 1})
	if _, err := plain.WriteCredentials(t.TempDir()); err == nil {
		t.Error("WriteCredentials without TLS: got nil, want an error")
	}
}

// A closed cluster leaves no goroutine, descriptor or process.
func TestSoakStartStop(t *testing.T) {
	rounds := map[cluster.Mode]int{cluster.Goroutines: 10, cluster.Processes: 3}
	if os.Getenv("MILLSTREAM_SOAK") != "" {
		rounds = map[cluster.Mode]int{cluster.Goroutines: 200, cluster.Processes: 200}
	}
	for mode, n := range rounds {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := within(t, time.Duration(n)*time.Minute)
			round := func() {
				c, err := cluster.Local(ctx, cluster.Config{Mode: mode, Workers: 2, Threads: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				cl, err := c.Client(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				if got, err := sum.Submit(ctx, cl, client.ListOf(inc.Map(ctx, cl, numbers(10)))).Result(
					ctx); err != nil || got != 55 {
					t.Fatalf("got %v, %v, want 55", got, err)
				}
			}
			round() // creates what is created once per process
			leak.Check(t, leak.MaxRSS(64<<20))
			for range n {
				round()
			}
		})
	}
}
