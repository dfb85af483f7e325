package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/comm/commaddr"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// Functions of the tests.
var (
	inc     = client.Func("inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	add     = client.Func2("add", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
	sum     = client.Func("sum", func(_ context.Context, xs []int) (int, error) { return total(xs), nil })
	fail    = client.Func("fail", func(_ context.Context, s string) (int, error) { return 0, errors.New(s) })
	explode = client.Func("explode", func(_ context.Context, s string) (int, error) { panic(s) })
	nap     = client.Func("nap", func(ctx context.Context, d time.Duration) (bool, error) {
		select {
		case <-time.After(d):
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
)

func total(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// rig is a cluster in this process.
type rig struct {
	t         testing.TB
	ctx       context.Context
	scheduler *scheduler.Scheduler
	workers   []*worker.Worker
	c         *client.Client
}

// transports are the addresses of the clusters of tests.
var transports = []string{"inproc://", "tcp://127.0.0.1:0"}

// eachTransport runs a test on clusters over all transports.
func eachTransport(t *testing.T, workers int, f func(t *testing.T, r *rig)) {
	for _, address := range transports {
		scheme, _ := commaddr.Parse(address)
		t.Run(scheme, func(t *testing.T) { f(t, newRig(t, address, workers)) })
	}
}

func newRig(t testing.TB, address string, workers int) *rig {
	t.Helper()
	return newRigWith(t, address, workers, scheduler.Config{Validate: true})
}

func newRigWith(t testing.TB, address string, workers int, cfg scheduler.Config) *rig {
	t.Helper()
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx}
	cfg.Listen, cfg.Logger = []string{address}, quiet
	cfg.ReplicaInterval = cmp.Or(cfg.ReplicaInterval, -1) // tests count replicas
	s, err := scheduler.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.scheduler = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the scheduler: %v", err)
		}
	})
	for range workers {
		r.addWorker(worker.Config{})
	}
	r.c = r.connect()
	return r
}

func (r *rig) addWorker(cfg worker.Config) *worker.Worker {
	r.t.Helper()
	cfg.Scheduler, cfg.Logger = r.scheduler.Address(), quiet
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("w%d", len(r.workers))
	}
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	cfg.LocalDirectory = r.t.TempDir()
	w, err := worker.Start(r.ctx, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.workers = append(r.workers, w)
	r.t.Cleanup(func() {
		if err := w.Close(); err != nil {
			r.t.Errorf("close a worker: %v", err)
		}
	})
	return w
}

func (r *rig) connect() *client.Client {
	r.t.Helper()
	c, err := client.Connect(r.ctx, r.scheduler.Address(), client.Config{Logger: quiet})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.t.Errorf("close a client: %v", err)
		}
	})
	return c
}

// must returns a value or ends the test.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%+v", err)
		}
		return v
	}
}
