package worker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/worker"
)

// relay forwards TCP connections to a scheduler, and can cut them.
type relay struct {
	l     net.Listener
	to    string
	wg    sync.WaitGroup
	mu    sync.Mutex
	open  bool       // guarded by mu
	conns []net.Conn // guarded by mu
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, to: strings.TrimPrefix(to, "tcp://"), open: true}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

func (r *relay) address() string { return "tcp://" + r.l.Addr().String() }

func (r *relay) accept() {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		r.mu.Lock()
		if err != nil || !r.open {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			r.mu.Unlock()
			continue
		}
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			r.wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// cut breaks all connections; new ones are closed at once until mend.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = false
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// A worker whose connection to the scheduler breaks reconnects with its data: scattered data, which no task can compute
// again, and results, which are not computed again.
func TestReconnect(t *testing.T) {
	leak.Check(t)
	c := start(t, "tcp://127.0.0.1:0", 1, worker.Config{Name: "other", Threads: 1})
	ctx := testContext(t)
	r := newRelay(t, c.scheduler.Address())
	w, err := worker.Start(ctx, worker.Config{Scheduler: r.address(), Name: "cut", Threads: 2, Logger: quiet(),
		Validate: true, LocalDirectory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })

	data, err := client.Scatter(ctx, c.client, []string{"precious"},
		client.ScatterOptions{Workers: []string{w.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	base := int(1000 * restarts.Add(1))
	var done []*client.Future[int]
	for i := range 8 {
		done = append(done, tally.Submit(ctx, c.client, client.Val(base+i), client.Val(base+8), client.Val(""),
			client.WithWorkers("cut")))
	}
	name := gateName(t)
	running := tally.Submit(ctx, c.client, client.Val(base+8), client.Val(base+8), client.Val(name),
		client.WithWorkers("cut"))
	if err := client.Wait(ctx, done); err != nil {
		t.Fatal(err)
	}
	await(t, "the gated task runs", func() bool { return timesRan(base+8) == 1 })

	there := func() bool {
		list, err := c.client.Workers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 2
	}
	r.cut()
	await(t, "the scheduler has removed the worker", func() bool { return !there() })
	length := size.Submit(ctx, c.client, data[0]) // waits for the data
	close(gates(name))
	r.mend()
	await(t, "the worker has reconnected", there)
	if v, err := length.Result(ctx); err != nil || v != len("precious") {
		t.Errorf("task that uses the scattered data: got %d, %v, want %d", v, err, len("precious"))
	}
	if v, err := data[0].Result(ctx); err != nil || v != "precious" {
		t.Errorf("scattered data: got %q, %v, want precious", v, err)
	}
	for i, f := range append(done, running) {
		x := base + i
		if v, err := f.Result(ctx); err != nil || v != x*x {
			t.Errorf("task %d: got %d, %v, want %d", i, v, err, x*x)
		}
		if n := timesRan(x); n != 1 && i < len(done) {
			t.Errorf("task %d: got %d runs, want 1", i, n)
		}
	}
}

// Scattered data is dropped without a delay when the process of its worker is dead: its host refuses connections.
func TestScatteredDataOfDeadWorker(t *testing.T) {
	leak.Check(t)
	c := start(t, "tcp://127.0.0.1:0", 1, worker.Config{Name: "other", Threads: 1})
	ctx := testContext(t)
	r := newRelay(t, c.scheduler.Address())
	w, err := worker.Start(ctx, worker.Config{Scheduler: r.address(), Name: "dead", Threads: 1, Logger: quiet(),
		LocalDirectory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	data, err := client.Scatter(ctx, c.client, []string{"lost"}, client.ScatterOptions{Workers: []string{w.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	r.cut() // without a message to the scheduler
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = data[0].Result(ctx)
	if err == nil {
		t.Fatal("lost data: got a value, want an error")
	}
	if !errors.Is(err, client.ErrCanceled) {
		t.Errorf("lost data: got %v, want ErrCanceled", err)
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
