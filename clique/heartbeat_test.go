package clique

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/wire/msgpack"
)

// formingFn reports whether a worker has the roster of a clique and is connecting with the others.
var formingFn = remote("test.clique.forming", func(_ context.Context, h *hub, in idRequest) (bool, error) {
	s, err := h.session(in.ID)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forming && s.engine == nil, nil
})

// A clique whose forming hangs, since one of its workers has stopped in the middle of it, keeps no heartbeat of the
// others back. They end the forming on request.
func TestHeartbeatsWhileForming(t *testing.T) {
	for _, backend := range []Backend{UCX, Comm} {
		t.Run(string(backend), func(t *testing.T) { heartbeatsWhileForming(t, backend) })
	}
}

func heartbeatsWhileForming(t *testing.T, backend Backend) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	k, err := cluster.Local(ctx, cluster.Config{Workers: 3, Threads: 1, MemoryLimit: cluster.NoMemoryLimit,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	c, err := k.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.WaitForWorkers(ctx, 3); err != nil {
		t.Fatal(err)
	}
	known, err := c.Workers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	workers := slices.Sorted(maps.Keys(known))
	id := newID("hangs")
	answers, err := request[prepared](ctx, c, prepareFn, prepareRequest{ID: id, Keep: time.Minute, UCX: backend == UCX,
		Backend: backend}, workers)
	if err != nil {
		t.Fatal(err)
	}
	var ranks []prepared
	for _, w := range workers {
		a := answers[w]
		a.Worker = w
		ranks = append(ranks, a)
	}
	ranks = sortRanks(ranks)
	stopped := ranks[0].Worker // the others dial it
	resume := stop(t, k, stopped)
	defer resume()

	others := slices.DeleteFunc(slices.Clone(workers), func(w string) bool { return w == stopped })
	forming, giveUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		answers, err := request[formed](forming, c, formFn, formRequest{ID: id, Backend: string(backend),
			Timeout: time.Minute, Idle: time.Minute, Ranks: ranks}, others)
		for _, a := range answers {
			if a.Error != "" {
				err = errors.Join(err, errors.New(a.Error))
			}
		}
		done <- err
	}()
	// The ranks are at it: their sessions have begun.
	for _, w := range others {
		for {
			a, err := request[bool](ctx, c, formingFn, idRequest{id}, []string{w})
			if err != nil {
				t.Fatal(err)
			}
			if a[w] {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	const beats = 2
	last, n := map[string]float64{}, map[string]int{}
	for _, w := range others {
		last[w] = seen(t, k, w)
	}
	for n[others[0]] < beats || n[others[1]] < beats {
		for _, w := range others {
			if now := seen(t, k, w); now > last[w] {
				last[w], n[w] = now, n[w]+1
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("heartbeats while the clique is forming: %v", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the forming did not hang: %v", err)
	default:
	}
	undoing, enough := context.WithTimeout(ctx, 30*time.Second)
	_, _ = each(undoing, c, dissolveFn, id, others)
	enough()
	if err := <-done; err == nil {
		t.Error("a clique was formed with a worker that does not answer")
	}
	giveUp()
}

// stop halts the process of a worker until resume.
func stop(t *testing.T, k *cluster.Cluster, worker string) (resume func()) {
	t.Helper()
	for _, w := range k.Workers() {
		if w.Address == worker {
			if err := syscall.Kill(w.PID, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			return func() { _ = syscall.Kill(w.PID, syscall.SIGCONT) }
		}
	}
	t.Fatalf("no process for %s", worker)
	return nil
}

// seen is when the scheduler had the last heartbeat of a worker, in seconds.
func seen(t *testing.T, k *cluster.Cluster, worker string) float64 {
	t.Helper()
	v, _ := k.Scheduler().Identity().Get("workers")
	list, _ := v.(msgpack.Map)
	w, _ := list.Get(worker)
	d, ok := w.(msgpack.Map)
	if !ok {
		t.Fatalf("the scheduler has lost %s", worker)
	}
	last, _ := d.Get("last_seen")
	s, _ := last.(float64)
	return s
}
