package ucx

import (
	"context"
	"testing"
	"time"
)

// testContext bounds a test's waiting.
func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newWorker makes a context and a worker that end with the test.
func newWorker(t testing.TB, cfg Config, wcfg WorkerConfig) *Worker {
	t.Helper()
	c, err := NewContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.NewWorker(wcfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// pair connects two workers of this process by lifeline.
func pair(t testing.TB, cfg Config, wcfg WorkerConfig) (a, b *Endpoint) {
	t.Helper()
	ctx := testContext(t)
	wa, wb := newWorker(t, cfg, wcfg), newWorker(t, cfg, wcfg)
	return connectPair(t, ctx, wa, wb)
}

func connectPair(t testing.TB, ctx context.Context, wa, wb *Worker) (a, b *Endpoint) {
	t.Helper()
	l, err := wb.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		ep  *Endpoint
		err error
	}
	got := make(chan result, 1)
	go func() {
		ep, err := l.Accept(ctx)
		got <- result{ep, err}
	}()
	a, err = wa.Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return a, r.ep
}
