package execution

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/worker/internal/memory"
)

// until waits for a condition that must become true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// A task that is abandoned after it seceded leaves as many executors as there are threads, also when its function
// takes a thread back before it returns.
func TestAbandonSeceded(t *testing.T) {
	for name, rejoin := range map[string]bool{"returns": false, "rejoins": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{CancelGrace: time.Millisecond})
			g := gateOf(t.Name())
			abandoned := func(n int) func() bool {
				return func() (ok bool) {
					r.do(nil, func() { ok = r.Abandoned() == n })
					return ok
				}
			}
			r.compute("long", spec(t, lingers, val(t.Name()), val(rejoin)), nil)
			if e := r.next(); e.what != "long-running" {
				t.Fatalf("got %+v, want long-running", e)
			}
			<-g.entered
			r.do(nil, func() { r.apply(&state.FreeKeys{Keys: []task.Key{task.NewKey("long")}}) })
			until(t, "one abandoned task", abandoned(1))
			close(g.open)
			until(t, "no abandoned task", abandoned(0))
			r.compute("next", spec(t, inc, val(1)), nil)
			if e := r.next(); e.key != "next" || e.what != "finished" {
				t.Errorf("got %+v, want the end of next", e)
			}
			until(t, "one executor", func() bool { return r.live.Load() == 1 })
		})
	}
}

var (
	bufferFreed = make(chan struct{}, 1)
	// buffer returns counted memory of 1 MiB.
	buffer = task.Register0("execution.buffer", func(context.Context) (*mem.Buffer, error) {
		host := mem.FromBytes(make([]byte, 1<<20))
		r := mem.NewRegion(mem.RegionConfig{Addr: host.Addr(), Len: host.Len(), Free: func() {
			host.Release()
			bufferFreed <- struct{}{}
		}})
		return r.Buffer(), nil
	})
)

// The memory of a result for which there is no room is freed when its task is rescheduled.
func TestResultWithoutRoom(t *testing.T) {
	m, err := memory.New(memory.Config{Logger: slog.New(slog.DiscardHandler), Limit: 4 << 20, Directory: t.TempDir(),
		Records: 10, Fractions: memory.Fractions{MaxSpill: 1, Usage: func() int64 { return 0 }}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{Memory: m})
	for _, key := range []string{"a", "b", "c"} {
		m.Store().Put(task.NewKey(key), task.NewValue(make([]byte, 1<<20)), 1<<20)
	}
	r.compute("buffer", spec(t, buffer), nil)
	if e := r.next(); e.key != "buffer" || e.what != "reschedule" {
		t.Fatalf("got %+v, want reschedule", e)
	}
	select {
	case <-bufferFreed:
	default:
		t.Error("result not freed")
	}
}
