package dask

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task/lifetrace"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

const (
	goTrace     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	pythonTrace = "00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-01"
)

// recorder keeps the trace contexts of the tasks of this process.
type recorder struct {
	mu  sync.Mutex
	ran map[string]string // by key
}

func (*recorder) Submitted(context.Context, string, string, int) string { return goTrace }
func (*recorder) Arrived(string, string, time.Time)                     {}
func (*recorder) Assigned(string, string, string, time.Time)            {}

func (*recorder) Compute(ctx context.Context, _, _, _ string) (context.Context, any) { return ctx, nil }

func (r *recorder) Ran(trace string, _ any, run lifetrace.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[run.Key] = trace
}

// The trace context of a Go and of a Python client reaches a Go worker through a Dask scheduler.
func TestTraceContext(t *testing.T) {
	rec := &recorder{ran: map[string]string{}}
	defer lifetrace.Set(lifetrace.Set(rec))
	r := rig.New(t)
	s := r.DaskScheduler()
	r.StartWorker(s.Address, worker.Config{Threads: 1})
	c := r.Client(s.Address)
	if n, err := goInc.Submit(r.Context, c, client.Val(7), client.WithKey("go-key")).Result(r.Context); err != nil ||
		n != 8 {
		t.Errorf("got %d, %v, want 8", n, err)
	}
	r.Script(s.Address, `
with dask.annotate(traceparent=args[0]):
    f = client.submit(millstream.go("clienttest.inc"), 4, key="python-key")
check("result", f.result(), 5)
`, pythonTrace)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if got := rec.ran["go-key"]; got != goTrace {
		t.Errorf("trace context of the Go client: got %q, want %q", got, goTrace)
	}
	if got := rec.ran["python-key"]; got != pythonTrace {
		t.Errorf("trace context of the Python client: got %q, want %q", got, pythonTrace)
	}
}
