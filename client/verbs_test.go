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
	"go.millstream.dev/worker"
)

// reading is a value that Python receives as a dict.
type reading struct {
	Sensor string
	Values []float64
	At     time.Time
	Parts  map[string]int
}

// job is an argument that contains references.
type job struct {
	Name  string
	Base  client.Ref[int]
	Extra []client.Ref[int]
}

var (
	measure = client.Func("measure", func(_ context.Context, name string) (reading, error) {
		return reading{name, []float64{1, 2.5}, time.Unix(1700000000, 123456789).UTC(), map[string]int{"a": 1}}, nil
	})
	describe = client.Func("describe", func(_ context.Context, r reading) (string, error) {
		return fmt.Sprintf("%s %v %d %d", r.Sensor, r.Values, r.At.UnixNano(), r.Parts["a"]), nil
	})
	doJob = client.Func("job", func(_ context.Context, j job) (int, error) {
		n := j.Base.Get()
		for _, e := range j.Extra {
			n += e.Get()
		}
		return n, nil
	})
	totals = client.Func("totals", func(_ context.Context, m map[string]int) (int, error) {
		return m["x"] + m["y"], nil
	})
	answer = client.Func0("answer", func(context.Context) (int, error) { return 42, nil })
	three  = client.Func3("three", func(_ context.Context, a int, b string, c float64) (string, error) {
		return fmt.Sprint(a, b, c), nil
	})
	four  = client.Func4("four", func(_ context.Context, a, b, c, d int) (int, error) { return a + b + c + d, nil })
	where = client.Func0("where", func(ctx context.Context) (string, error) {
		return task.FromContext(ctx).Host.Worker, nil
	})
	nested = client.Func("nested", func(ctx context.Context, n int) (int, error) {
		var sum int
		err := client.Inside(ctx, func(c *client.Client) error {
			xs, err := client.Gather(ctx, inc.Map(ctx, c, []int{n, n + 1, n + 2}))
			sum = total(xs)
			return err
		})
		return sum, err
	})
)

func TestArguments(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		ctx, c := r.ctx, r.c
		get := must[int](t)
		one, two := inc.Submit(ctx, c, client.Val(0)), inc.Submit(ctx, c, client.Val(1))
		if v := get(doJob.Submit(ctx, c, client.Val(job{"j", one.Ref(),
			[]client.Ref[int]{two.Ref(), task.RefOf(7)}})).Result(ctx)); v != 10 {
			t.Errorf("references in a struct: got %d, want 10", v)
		}
		if v := get(sum.Submit(ctx, c, client.List[int](one, client.Val(5), two)).Result(ctx)); v != 8 {
			t.Errorf("references in a list: got %d, want 8", v)
		}
		if v := get(sum.Submit(ctx, c, client.ListOf([]*client.Future[int]{one, two})).Result(ctx)); v != 3 {
			t.Errorf("a list of futures: got %d, want 3", v)
		}
		if v := get(totals.Submit(ctx, c, client.Dict(map[string]client.Arg[int]{"x": one, "y": client.Val(9)})).Result(
			ctx)); v != 10 {
			t.Errorf("references in a map: got %d, want 10", v)
		}
		if v := get(answer.Submit(ctx, c).Result(ctx)); v != 42 {
			t.Errorf("no arguments: got %d, want 42", v)
		}
		if v := must[string](t)(three.Submit(ctx, c, one, client.Val("b"), client.Val(1.5)).Result(ctx)); v != "1b1.5" {
			t.Errorf("three arguments: got %s, want 1b1.5", v)
		}
		if v := get(four.Submit(ctx, c, one, two, client.Val(3), client.Val(4)).Result(ctx)); v != 10 {
			t.Errorf("four arguments: got %d, want 10", v)
		}
		// A struct is sent from one worker to the other, and to the client.
		m := measure.Submit(ctx, c, client.Val("s1"), client.WithWorkers("w0"))
		d := describe.Submit(ctx, c, m, client.WithWorkers("w1"))
		const want = "s1 [1 2.5] 1700000000123456789 1"
		if v := must[string](t)(d.Result(ctx)); v != want {
			t.Errorf("a struct between workers: %q, want %q", v, want)
		}
		if v := must[reading](t)(m.Result(ctx)); v.At.UnixNano() != 1700000000123456789 ||
			!slices.Equal(v.Values, []float64{1, 2.5}) {
			t.Errorf("struct sent to the client: got %+v, want the values 1 and 2.5", v)
		}
	})
}

func TestBadInput(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	var enc *task.EncodeError
	if _, err := opaque.Submit(r.ctx, r.c, client.Val(socket{make(chan int)})).Result(r.ctx); !errors.As(err, &enc) {
		t.Errorf("argument that cannot be encoded: got %v, want an EncodeError", err)
	}
	if _, err := inc.Submit(r.ctx, r.c, nil).Result(r.ctx); !errors.As(err, &enc) {
		t.Errorf("nil argument: got %v, want an EncodeError", err)
	}
	// A result that cannot be encoded stays on its worker, and the error has the cause.
	if _, err := makeSocket.Submit(r.ctx, r.c).Result(r.ctx); err == nil ||
		!strings.Contains(err.Error(), "client_test.socket at .c") {
		t.Errorf("result that cannot be encoded: got %v, want client_test.socket at .c", err)
	}
	wrong := task.RefTo[int](measure.Submit(r.ctx, r.c, client.Val("x")).Key())
	_, err := inc.Submit(r.ctx, r.c, wrong).Result(r.ctx)
	var te *client.TaskError
	if !errors.As(err, &te) || !strings.Contains(err.Error(), "argument 0 of inc must be int") {
		t.Errorf("result of another type: got %v, want an error about argument 0 of inc", err)
	}
	if v := must[int](t)(inc.Submit(r.ctx, r.c, client.Val(1)).Result(r.ctx)); v != 2 {
		t.Errorf("the cluster does not go on: got %d, want 2", v)
	}
}

var (
	opaque     = client.Func("opaque", func(context.Context, socket) (int, error) { return 0, nil })
	makeSocket = client.Func0("make-socket", func(context.Context) (socket, error) {
		return socket{make(chan int)}, nil
	})
)

// socket is a value that is only valid in its own process.
type socket struct{ c chan int }

func TestCancelReleaseRetry(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	long := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	after := inc.Submit(r.ctx, r.c, task.RefTo[int](long.Key()))
	if err := long.Cancel(); err != nil {
		t.Fatal(err)
	}
	if _, err := long.Result(r.ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("canceled: got %v, want ErrCanceled", err)
	}
	if _, err := after.Result(r.ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("what needs a canceled task: got %v, want ErrCanceled", err)
	}
	for i := range 20 { // the reply to the cancellation must not end the second task
		f := inc.Submit(r.ctx, r.c, client.Val(1000+i))
		if err := f.Cancel(); err != nil {
			t.Fatal(err)
		}
		if v := must[int](t)(inc.Submit(r.ctx, r.c, client.Val(1000+i)).Result(r.ctx)); v != 1001+i {
			t.Errorf("submitted again: got %d, want %d", v, 1001+i)
		}
	}
	f := inc.Submit(r.ctx, r.c, client.Val(1))
	if err := f.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	f.Release()
	f.Release()
	if _, err := inc.Submit(r.ctx, r.c, f).Result(r.ctx); !errors.Is(err, client.ErrReleased) {
		t.Errorf("a released future as an argument: got %v, want ErrReleased", err)
	}
	bad := fail.Submit(r.ctx, r.c, client.Val("once"))
	_ = bad.Wait(r.ctx)
	if err := r.c.Retry(r.ctx, bad); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Result(r.ctx); err == nil {
		t.Error("error of a failed task: got nil, want it kept")
	}
}

// The last event of a progress counts each future once, by its outcome.
func TestProgressCounts(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	good, bad := inc.Submit(r.ctx, r.c, client.Val(1)), fail.Submit(r.ctx, r.c, client.Val("no"))
	gone := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	if err := gone.Cancel(); err != nil {
		t.Fatal(err)
	}
	var last client.ProgressEvent
	for last = range client.Progress(r.ctx, good, bad, gone) {
	}
	if last.Finished != 1 || last.Failed != 1 || last.Canceled != 1 || !last.IsDone() || last.Ended() != 3 {
		t.Errorf("got %+v, want one finished, one failed, one canceled", last)
	}
}

func TestAsCompletedAndProgress(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	futures := inc.Map(r.ctx, r.c, []int{1, 2, 3, 4})
	bad := fail.Submit(r.ctx, r.c, client.Val("no"))
	seen := 0
	for f, err := range client.AsCompleted(r.ctx, append(slices.Clone(futures), bad)) {
		seen++
		if (err != nil) != (f == bad) {
			t.Errorf("%v: %v", f, err)
		}
	}
	if seen != 5 {
		t.Errorf("%d futures completed, want 5", seen)
	}
	n := 0
	for v, err := range client.Results(r.ctx, futures) {
		n += must[int](t)(v, err)
	}
	if n != 14 {
		t.Errorf("sum of the results is %d, want 14", n)
	}
	var last client.ProgressEvent
	for e := range client.Progress(r.ctx, append(client.Futures(futures), bad)...) {
		last = e
	}
	if !last.IsDone() || last.Finished != 4 || last.Failed != 1 {
		t.Errorf("progress: got the last event %+v, want 4 finished and 1 failed", last)
	}
	var bar strings.Builder
	if err := client.ProgressBar(r.ctx, &bar, client.Futures(futures)...); err != nil ||
		!strings.Contains(bar.String(), "4 of 4") || strings.ContainsRune(bar.String(), '\r') {
		t.Errorf("bar %q: %v", bar.String(), err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	long := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	for f, err := range client.AsCompleted(ctx, []*client.Future[bool]{long}) {
		if f != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", f, err)
		}
	}
	if err := client.ProgressBar(ctx, &bar, long); !errors.Is(err, context.Canceled) {
		t.Errorf("bar: got %v, want Canceled", err)
	}
}

func TestGraph(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		g := client.NewGraph()
		a := inc.Node(g, "a", client.Val(1))
		b := add.Node(g, "b", a, client.RefTo[int]("later"))
		answer.Node(g, "later")
		f := must[[]*client.Future[int]](t)(client.Compute(r.ctx, r.c, g, b))
		if v := must[int](t)(f[0].Result(r.ctx)); v != 44 {
			t.Errorf("got %d, want 44", v)
		}
		anys := must[[]*client.Future[any]](t)(g.Submit(r.ctx, r.c, b.Key()))
		if v := must[int](t)(client.As[int](anys[0]).Result(r.ctx)); v != 44 {
			t.Errorf("got %d, want 44", v)
		}
	})
}

func TestGraphMistakes(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	g := client.NewGraph()
	a := inc.Node(g, "a", client.RefTo[int]("c"))
	inc.Node(g, "b", a)
	c := inc.Node(g, "c", client.RefTo[int]("b"))
	_, err := client.Compute(r.ctx, r.c, g, c)
	if want := "cycle: a needs c needs b needs a"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a cycle: got error %v, want one with %q", err, want)
	}
	g = client.NewGraph()
	inc.Node(g, "a", client.Val(1))
	inc.Node(g, "a", client.Val(2))
	if _, err := g.Submit(r.ctx, r.c, task.NewKey("a")); err == nil {
		t.Error("duplicate key: got nil, want an error")
	}
	g = client.NewGraph()
	if _, err := g.Submit(r.ctx, r.c, task.NewKey("a")); err == nil {
		t.Error("unknown wanted key: got nil, want an error")
	}
	g = client.NewGraph()
	n := opaque.Node(g, "a", client.Val(socket{make(chan int)}))
	if _, err := client.Compute(r.ctx, r.c, g, n); err == nil || !strings.Contains(err.Error(), "node a") {
		t.Errorf("value that cannot be encoded: got %v, want an error about node a", err)
	}
}

func TestScatterReplicateRun(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		ctx, c := r.ctx, r.c
		f := must[[]*client.Future[[]int]](t)(client.Scatter(ctx, c, [][]int{{1, 2, 3}, {4}}, client.ScatterOptions{}))
		if v := must[int](t)(sum.Submit(ctx, c, f[0]).Result(ctx)); v != 6 {
			t.Errorf("scattered: got %d, want 6", v)
		}
		if v := must[[][]int](t)(client.Gather(ctx, f)); !slices.Equal(v[1], []int{4}) {
			t.Errorf("gathered: got %v, want [4] at index 1", v)
		}
		all := must[[]*client.Future[string]](t)(client.Scatter(ctx, c, []string{"x"},
			client.ScatterOptions{Broadcast: true}))
		who := must[map[task.Key][]string](t)(c.WhoHas(ctx, all[0]))
		if len(who[all[0].Key()]) != 2 {
			t.Errorf("broadcast: got %v, want two workers", who)
		}
		if err := c.Replicate(ctx, 2, nil, f[1]); err != nil {
			t.Fatal(err)
		}
		if who := must[map[task.Key][]string](t)(c.WhoHas(ctx, f[1])); len(who[f[1].Key()]) != 2 {
			t.Errorf("replicated: got %v, want two workers", who)
		}
		if err := c.Rebalance(ctx, nil, client.Futures(f)...); err != nil {
			t.Error(err)
		}
		what := must[map[string][]task.Key](t)(c.HasWhat(ctx))
		if len(what) != 2 {
			t.Errorf("HasWhat: got %v, want two workers", what)
		}
		ran := must[map[string]string](t)(where.Run(ctx, c))
		for _, w := range r.workers {
			if ran[w.Address()] != w.Address() {
				t.Errorf("run: %v, want one of %s", ran, w.Address())
			}
		}
		if got := must[map[string]int](t)(inc.Run(ctx, c, 1, r.workers[0].Address())); len(got) != 1 {
			t.Errorf("Run on one worker: got %v, want one result", got)
		}
		if _, err := fail.Run(ctx, c, "oh"); err == nil || !strings.Contains(err.Error(), "oh") {
			t.Errorf("Run of a failing function: got %v, want its error", err)
		}
		ws := must[map[string]client.Worker](t)(c.Workers(ctx))
		if len(ws) != 2 || ws[r.workers[0].Address()].Threads != 2 {
			t.Errorf("workers: got %v, want 2 with 2 threads each", ws)
		}
	})
}

func TestOptions(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	r.addWorker(worker.Config{Name: "gpu", Resources: map[string]float64{"GPU": 1}})
	ctx, c := r.ctx, r.c
	at := func(opts ...client.Option) string {
		t.Helper()
		return must[string](t)(where.Submit(ctx, c, append(opts, client.WithImpure())...).Result(ctx))
	}
	if a := at(client.WithWorkers("gpu")); a != r.workers[1].Address() {
		t.Errorf("by name: got %s, want %s", a, r.workers[1].Address())
	}
	if a := at(client.WithWorkers(r.workers[0].Address())); a != r.workers[0].Address() {
		t.Errorf("by address: got %s, want %s", a, r.workers[0].Address())
	}
	if a := at(client.WithResources(map[string]float64{"GPU": 1})); a != r.workers[1].Address() {
		t.Errorf("by resource: got %s, want %s", a, r.workers[1].Address())
	}
	if a := at(client.WithWorkers("nobody"), client.WithOtherWorkers()); a == "" {
		t.Error("loose restrictions")
	}
	if k := where.Submit(ctx, c, client.WithKey("my-key")).Key(); k != task.NewKey("my-key") {
		t.Errorf("got key %s, want my-key", k)
	}
	if a, b := where.Submit(ctx, c, client.WithImpure()), where.Submit(ctx, c,
		client.WithImpure()); a.Key() == b.Key() {
		t.Error("impure calls have one key")
	}
	flaky.Store(2)
	if v := must[int](t)(tries.Submit(ctx, c, client.WithRetries(3), client.WithPriority(5),
		client.WithFIFO(time.Second)).Result(ctx)); v != 7 {
		t.Errorf("retried: got %d, want 7", v)
	}
	if _, err := nap.Submit(ctx, c, client.Val(time.Hour), client.WithTimeout(time.Millisecond)).Result(
		ctx); err == nil {
		t.Error("a task without time ends well")
	}
}

func TestInside(t *testing.T) {
	eachTransport(t, 1, func(t *testing.T, r *rig) {
		fs := nested.Map(r.ctx, r.c, []int{1, 10, 100, 1000}) // more than threads
		got := must[[]int](t)(client.Gather(r.ctx, fs))
		if !slices.Equal(got, []int{9, 36, 306, 3006}) {
			t.Errorf("got %v, want [9 36 306 3006]", got)
		}
		if _, err := client.FromContext(r.ctx); !errors.Is(err, task.ErrOutside) {
			t.Errorf("outside of a task: got %v, want ErrOutside", err)
		}
	})
}
