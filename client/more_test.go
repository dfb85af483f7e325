package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/wire"
)

func TestNamesAndTexts(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	if answer.Name() != "answer" || inc.Name() != "inc" || add.Name() != "add" || three.Name() != "three" ||
		four.Name() != "four" {
		t.Error("a function has another name")
	}
	if !strings.HasPrefix(r.c.ID(), "Client-") || r.c.Address() != r.scheduler.Address() || r.c.Err() != nil {
		t.Errorf("%s at %s: %v", r.c.ID(), r.c.Address(), r.c.Err())
	}
	f := inc.Submit(r.ctx, r.c, client.Val(1), client.WithKey("k"))
	if err := f.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	if s := f.String(); s != "Future(k, finished)" {
		t.Errorf("got %s, want Future(k, finished)", s)
	}
	if client.Status(99).String() != "unknown" {
		t.Error("a status that there is not")
	}
	bad := inc.Submit(r.ctx, r.c, nil)
	if bad.Key() != "" || bad.Status() != client.Failed || bad.Err() == nil || bad.Wait(r.ctx) == nil ||
		bad.Cancel() == nil {
		t.Error("a future of nothing")
	}
	bad.Release()
	if _, err := inc.Submit(r.ctx, r.c, bad).Result(r.ctx); err == nil {
		t.Error("a future of nothing as an argument")
	}
	if err := r.c.Cancel(bad); err != nil {
		t.Error(err)
	}
}

func TestTaskErrorShowsAll(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 1)
	_, err := explode.Submit(r.ctx, r.c, client.Val("boom")).Result(r.ctx)
	var te *client.TaskError
	var exc *wire.Exception
	if !errors.As(err, &te) || !errors.As(err, &exc) || exc.Type != "RuntimeError" {
		t.Fatalf("got %v, want a TaskError with a RuntimeError", err)
	}
	if s := fmt.Sprintf("%+v", te); !strings.Contains(s, "rig_test.go") ||
		strings.Contains(fmt.Sprintf("%v", te), "rig_test.go") {
		t.Errorf("%%+v: got %s, want the stack", s)
	}
	// A task that depends on a failed task fails with its error.
	_, err = inc.Submit(r.ctx, r.c, fail.Submit(r.ctx, r.c, client.Val("root"))).Result(r.ctx)
	if !errors.As(err, &te) || te.Text != "root" {
		t.Errorf("got %v, want the error of the dependency", err)
	}
	if errors.Is(err, client.ErrKilledWorker) {
		t.Error("no worker died")
	}
}

func TestKilledWorkerIsKnown(t *testing.T) {
	r := newRigWith(t, "tcp://127.0.0.1:0", 0, scheduler.Config{NoWorkersTimeout: 50 * time.Millisecond})
	_, err := inc.Submit(r.ctx, r.c, client.Val(1)).Result(r.ctx)
	var te *client.TaskError
	if !errors.As(err, &te) || !strings.Contains(te.Exception.Type, "NoWorker") &&
		!strings.Contains(te.Exception.Type, "NoValidWorker") {
		t.Errorf("cluster without workers: got %v, want NoValidWorker", err)
	}
	killed := &client.TaskError{Key: task.NewKey("k"), Exception: &wire.Exception{Type: "KilledWorker"}}
	if !errors.Is(killed, client.ErrKilledWorker) {
		t.Error("a killed worker is not known")
	}
}

func TestMapOfArguments(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	one := inc.Submit(r.ctx, r.c, client.Val(0))
	a := inc.MapArgs(r.ctx, r.c, []client.Arg[int]{one, client.Val(5)})
	b := add.MapArgs(r.ctx, r.c, []client.Arg[int]{one, a[1]}, []client.Arg[int]{a[0], client.Val(1)})
	if v := must[[]int](t)(client.Gather(r.ctx, append(a, b...))); !slices.Equal(v, []int{2, 6, 3, 7}) {
		t.Errorf("got %v, want [2 6 3 7]", v)
	}
	c := add.MapArgs(r.ctx, r.c, client.Args(a), client.Args(b))
	d := four.Map(r.ctx, r.c, []int{1, 2}, []int{10, 20}, []int{100, 200, 300}, []int{1000, 2000})
	e := four.MapArgs(r.ctx, r.c, client.Args(a), client.Args(b), client.Args(c), client.Args(d[:1]))
	want := []int{5, 13, 1111, 2222, 1121}
	if v := must[[]int](t)(client.Gather(r.ctx, slices.Concat(c, d, e))); !slices.Equal(v, want) {
		t.Errorf("got %v, want %v", v, want)
	}
	text := client.Val("x")
	x := three.Map(r.ctx, r.c, []int{1, 2}, []string{"a", "b", "c"}, []float64{0.5, 1.5})
	y := three.MapArgs(r.ctx, r.c, client.Args(a), []client.Arg[string]{text, text},
		[]client.Arg[float64]{client.Val(2.5)})
	texts := []string{"1a0.5", "2b1.5", "2x2.5"}
	if v := must[[]string](t)(client.Gather(r.ctx, append(x, y...))); !slices.Equal(v, texts) {
		t.Errorf("got %q, want %q", v, texts)
	}
	g := client.NewGraph()
	n := three.Node(g, "t", client.Val(1), client.Val("b"), client.Val(2.5))
	m := four.Node(g, "f", client.Val(1), client.Val(2), client.Val(3), client.Val(4))
	j := doJob.Node(g, "j", client.Val(job{Base: m.Ref()}))
	if g.Len() != 3 {
		t.Errorf("%d nodes", g.Len())
	}
	s := must[[]*client.Future[string]](t)(client.Compute(r.ctx, r.c, g, n))
	f := must[[]*client.Future[int]](t)(client.Compute(r.ctx, r.c, g, m, j))
	if v := must[string](t)(s[0].Result(r.ctx)); v != "1b2.5" {
		t.Errorf("got %s, want 1b2.5", v)
	}
	if v := must[[]int](t)(client.Gather(r.ctx, f)); !slices.Equal(v, []int{10, 10}) {
		t.Errorf("got %v, want [10 10]", v)
	}
	at := r.workers[0].Address()
	if got := must[map[string]string](t)(three.Run(r.ctx, r.c, 1, "b", 2.5)); got[at] != "1b2.5" {
		t.Errorf("three arguments: got %q, want 1b2.5", got[at])
	}
	if got := must[map[string]int](t)(four.Run(r.ctx, r.c, 1, 2, 3, 4)); got[at] != 10 {
		t.Errorf("four arguments: got %d, want 10", got[at])
	}
	if ran := must[map[string]int](t)(add.Run(r.ctx, r.c, 1, 2)); len(ran) != 1 {
		t.Errorf("Run: got results %v, want one", ran)
	}
}

func TestForceCancel(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	mine := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	other := r.connect()
	theirs := nap.Submit(r.ctx, other, client.Val(time.Hour))
	if mine.Key() != theirs.Key() {
		t.Fatal("two tasks")
	}
	// Publish waits until the scheduler has read the stream of the client up to here.
	if err := client.Publish(r.ctx, other, "naps", []*client.Future[bool]{theirs}, false); err != nil {
		t.Fatal(err)
	}
	if err := r.c.ForceCancel(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Result(r.ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("the other client's future: got %v, want ErrCanceled", err)
	}
}

func TestQueueOfFutures(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	q := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, r.c, "q", 1))
	defer q.Close()
	if err := q.PutFuture(r.ctx, inc.Submit(r.ctx, r.c, client.Val(1))); err != nil {
		t.Fatal(err)
	}
	// Use a new queue: an abandoned Put may still wait on the scheduler for a moment.
	full := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, r.c, "full", 1))
	defer full.Close()
	if err := full.Put(r.ctx, 4); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Millisecond)
	defer cancel()
	if err := full.Put(ctx, 5); err == nil {
		t.Error("a full queue took one more")
	}
	f := must[*client.Future[int]](t)(q.GetFuture(r.ctx))
	if v := must[int](t)(f.Result(r.ctx)); v != 2 {
		t.Errorf("got %d, want 2", v)
	}
	if err := q.Put(r.ctx, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := q.GetFuture(r.ctx); err == nil {
		t.Error("a value is a future")
	}
	v := client.NewVariable[int](r.c, "v")
	if err := v.Set(r.ctx, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := v.GetFuture(r.ctx); err == nil {
		t.Error("a value is a future")
	}
	s := client.NewSemaphore(r.c, "s", 1)
	if err := errors.Join(s.Acquire(r.ctx), s.Release(r.ctx), s.Delete(r.ctx)); err != nil {
		t.Error(err)
	}
	if err := client.NewSemaphore(r.c, "none", 0).Acquire(r.ctx); err == nil {
		t.Error("a semaphore without room")
	}
}

func TestShutdown(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 1)
	f := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	if err := r.c.ShutdownCluster(r.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Result(r.ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("a task of a cluster that ended: got %v, want ErrCanceled", err)
	}
	<-r.scheduler.Done()
}

func TestClosedClient(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	c := r.connect()
	f := inc.Submit(r.ctx, c, client.Val(1))
	if err := f.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	q := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, c, "q", 0))
	left := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, c, "left", 0))
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Errorf("closing a queue twice: got %v, want nil", err)
	}
	if err := errors.Join(c.Close(), c.Shutdown(r.ctx)); err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Errorf("closing a queue after its client: got %v, want nil", err)
	}
	for what, err := range map[string]error{
		"submit":  inc.Submit(r.ctx, c, client.Val(2)).Err(),
		"map":     inc.Map(r.ctx, c, []int{1})[0].Err(),
		"future":  client.FutureOf[int](c, f.Key()).Err(),
		"cancel":  c.Cancel(f),
		"call":    c.Restart(r.ctx, 0),
		"publish": client.Publish(r.ctx, c, "x", []*client.Future[int]{f}, false),
		"delete":  client.NewVariable[int](c, "v").Delete(),
	} {
		if !errors.Is(err, client.ErrClosed) {
			t.Errorf("%s with a closed client: %v", what, err)
		}
	}
	g := client.NewGraph()
	if _, err := client.Compute(r.ctx, c, g, inc.Node(g, "a", client.Val(1))); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a graph with a closed client: got %v, want ErrClosed", err)
	}
	if _, err := client.Scatter(r.ctx, c, []int{1}, client.ScatterOptions{}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("scatter with a closed client: got %v, want ErrClosed", err)
	}
	if _, err := client.Gather(r.ctx, []*client.Future[int]{f, inc.Submit(r.ctx, r.c, client.Val(1))}); err == nil {
		t.Error("futures of two clients")
	}
}
