package shuffle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
)

// rig is a graph of two transfers, a barrier and an output on two workers, with a simulated Python that creates runs.
type rig struct {
	*hosttest.Host
	*Shuffles
	a, b *peers.Worker

	mu     sync.Mutex
	plans  []string // workers of the requested plans; guarded by mu
	called []string // workers notified of the end of inputs; guarded by mu
	fail   map[string]error
	during func() // called while a run is created
	python error
}

func start(t *testing.T) *rig {
	r := &rig{Host: hosttest.New(t), fail: map[string]error{}}
	workers := peers.NewWorkers(r.Host.State)
	r.Shuffles = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Apply: r.Host.Apply, Workers: workers,
		Publish: func(any, ...string) {},
		Planner: func(string) (*pyproc.Process, func()) { return nil, nil },
		Python: func(_ context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error) {
			m := body.(msgpack.Map)
			list, _ := m.Get("workers")
			r.mu.Lock()
			r.plans = append(r.plans, fmt.Sprint(list))
			r.mu.Unlock()
			if r.during != nil {
				r.during()
			}
			if r.python != nil {
				return nil, r.python
			}
			answer, err := msgpack.Append(nil, msgpack.MapOf("workers", list))
			return &pyproc.Message{Op: op, Body: answer, Frames: [][]byte{[]byte("map"), []byte("\x80\x05N.")}}, err
		},
		Call: func(_ context.Context, address string, m msgpack.Map) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.called = append(r.called, address)
			return r.fail[address]
		},
	})
	r.Do(func() {
		for i, w := range []**peers.Worker{&r.a, &r.b} {
			address := fmt.Sprint("tcp://", string(rune('a'+i)))
			*w = &peers.Worker{Address: address, Name: address, Alias: address}
			(*w).ID = r.AddWorker(address, *w)
			workers.Add(*w)
		}
		r.Submit(r.AddClient("c", nil), []string{"t1"}, []string{"t2"}, []string{"shuffle-barrier-x", "t1", "t2"},
			[]string{"out", "shuffle-barrier-x"})
	})
	r.Serve(r.Register)
	return r
}

func (r *rig) create(worker string) (msgpack.Map, error) {
	v, err := r.Try("shuffle_get_or_create", "shuffle_id", "x", "key", "t1", "worker", worker)
	m, _ := v.(msgpack.Map)
	return m, err
}

// Concurrent requests of workers receive one run, which is created once.
func TestCreateOnce(t *testing.T) {
	r := start(t)
	var wg sync.WaitGroup
	for _, w := range []string{"tcp://a", "tcp://b", "tcp://a", "tcp://b"} {
		wg.Go(func() {
			if m, err := r.create(w); err != nil || m.GetString("status") != "OK" {
				t.Errorf("%s: got %v, error %v, want OK", w, m, err)
			}
		})
	}
	wg.Wait()
	if len(r.plans) != 1 {
		t.Errorf("plans: got %v, want one", r.plans)
	}
	r.Do(func() {
		x := r.Shuffles.Run("x")
		if active, _ := r.Counts(); active != 1 || x.Number != 1 || !x.Workers["tcp://a"] || !x.Workers["tcp://b"] {
			t.Errorf("run: got %+v", x)
		}
	})
	if m := r.Call("shuffle_get", "id", "x", "worker", "tcp://b").(msgpack.Map); m.GetString("status") != "OK" {
		t.Errorf("shuffle_get: got %v, want OK", m)
	}
}

// A run is created again if one of its workers was removed meanwhile; a failure of Python is returned.
func TestCreateAgain(t *testing.T) {
	r := start(t)
	gone := false
	r.during = func() {
		if !gone {
			gone = true
			r.Do(func() {
				r.Host.Apply(&state.RemoveWorker{Worker: r.b.ID, Safe: true})
				r.Workers.Remove(r.b)
			})
		}
	}
	if m, err := r.create("tcp://a"); err != nil || m.GetString("status") != "OK" {
		t.Errorf("got %v, error %v, want OK", m, err)
	}
	if len(r.plans) != 2 || strings.Contains(r.plans[1], "tcp://b") {
		t.Errorf("plans: got %v, want a second one without b", r.plans)
	}

	r = start(t)
	r.python = errors.New("no such module")
	if _, err := r.create("tcp://a"); err == nil || !strings.Contains(err.Error(), "no such module") {
		t.Errorf("got %v, want the failure", err)
	}
	r.python = nil
	if m, err := r.create("tcp://a"); err != nil || m.GetString("status") != "OK" {
		t.Errorf("after a failure: got %v, error %v, want OK", m, err)
	}
}

// The barrier notifies all workers of the run, retries those that cannot be reached, and fails in the end.
func TestBarrier(t *testing.T) {
	r := start(t)
	if _, err := r.create("tcp://a"); err != nil {
		t.Fatal(err)
	}
	r.Call("shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	if len(r.called) != 2 {
		t.Errorf("notified workers: got %v, want both", r.called)
	}
	r.called = nil
	r.fail["tcp://b"] = errors.New("no route")
	r.Fails("makes no progress", "shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	if n := strings.Count(fmt.Sprint(r.called), "tcp://b"); n < 3 {
		t.Errorf("requests to b: got %d, want at least 3", n)
	}
	r.fail["tcp://b"] = &rpc.RemoteError{}
	r.Fails("RuntimeError", "shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	r.Fails("does not match", "shuffle_barrier", "id", "x", "run_id", 2, "consistent", true)
	r.Fails("KeyError", "shuffle_barrier", "id", "y", "run_id", 1, "consistent", true)
}

// Outputs are bound to a worker while the run is active.
func TestRestrict(t *testing.T) {
	r := start(t)
	if _, err := r.create("tcp://a"); err != nil {
		t.Fatal(err)
	}
	out := task.NewKey("out")
	workers := func() (list []string) {
		r.Do(func() {
			if a := r.Host.State.Task(out).Annotations(); a != nil {
				list = a.Workers
			}
		})
		return list
	}
	r.Call("shuffle_restrict_task", "id", "x", "run_id", 1, "key", "out", "worker", "tcp://b")
	r.Call("shuffle_restrict_task", "id", "x", "run_id", 1, "key", "out", "worker", "tcp://a")
	if got := fmt.Sprint(workers()); got != "[tcp://b]" {
		t.Errorf("got %s, want the first that was said", got)
	}
	r.Do(func() {
		lost := r.Lose("tcp://b")
		if active, bound := r.Counts(); len(lost) != 1 || active+bound != 0 {
			t.Errorf("lost worker: got runs %v, %d active, %d bound", lost, active, bound)
		}
		if len(r.Lose("tcp://b")) != 0 {
			t.Error("second Lose: got a run")
		}
		before := r.Host.State.Task(task.NewKey("t1")).RunID()
		r.Restart(lost[0])
		if after := r.Host.State.Task(task.NewKey("t1")).RunID(); after <= before {
			t.Errorf("t1: got run %d after %d, want a later one", after, before)
		}
	})
	if got := workers(); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
	if m, err := r.create("tcp://a"); err != nil || m.GetString("status") != "OK" {
		t.Errorf("next run: got %v, error %v, want OK", m, err)
	}
	r.Do(func() {
		if x := r.Shuffles.Run("x"); x.Number != 2 {
			t.Errorf("got run %d, want 2", x.Number)
		}
	})
}

// A shuffle whose barrier has failed is not restarted, even if no task depends on the barrier.
func TestRestartFailed(t *testing.T) {
	r := start(t)
	r.Do(func() {
		r.Submit(r.AddClient("d", nil), []string{"u1"}, []string{"u2"}, []string{"shuffle-barrier-y", "u1", "u2"})
		first := r.Host.State.Task(task.NewKey("u1"))
		r.Host.Apply(&state.TaskErred{Worker: first.ProcessingOn().ID(), Key: first.Key(), RunID: first.RunID(),
			ExceptionText: "boom"})
		barrier, other := r.Host.State.Task(task.NewKey("shuffle-barrier-y")), r.Host.State.Task(task.NewKey("u2"))
		if barrier.State() != state.Erred || barrier.NumDependents() != 0 {
			t.Fatalf("barrier: got %v with %d dependents, want erred without any", barrier.State(),
				barrier.NumDependents())
		}
		before := other.RunID()
		r.Restart(&Run{ID: "y", Barrier: barrier.Key(), Number: 1})
		if got := other.RunID(); got != before || barrier.State() != state.Erred {
			t.Errorf("u2: got run %d after %d, barrier %v, want no other run", got, before, barrier.State())
		}
	})
}

// A barrier that is released, failed or forgotten ends its run.
func TestMoved(t *testing.T) {
	for _, to := range []state.TaskState{state.Released, state.Erred, state.Forgotten} {
		r := start(t)
		if _, err := r.create("tcp://a"); err != nil {
			t.Fatal(err)
		}
		r.Do(func() {
			r.Moved(&state.Action{Key: task.NewKey(BarrierPrefix + "x"), To: state.Processing})
			r.Moved(&state.Action{Key: task.NewKey("t1"), To: to})
			if active, _ := r.Counts(); active != 1 {
				t.Errorf("%v: run ended too early", to)
			}
			r.Moved(&state.Action{Key: task.NewKey(BarrierPrefix + "x"), To: to})
			if active, _ := r.Counts(); active != 0 {
				t.Errorf("%v: run still active", to)
			}
		})
	}
}
