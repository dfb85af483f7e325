package dask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/wire"
)

// lateModule is a module that only workers have.
const lateModule = `
import threading, time
from distributed import get_worker

class Counter:
    def __init__(self, start=0):
        self.n = start
    def add(self, x, twice=False):
        self.n += 2 * x if twice else x
        return self.n
    def fail(self):
        raise KeyError("no such count")

class Odd:
    def __init__(self, x):
        self.x = x
    def value(self):
        return self.x

tries = {}

def flaky(name, times):
    tries[name] = tries.get(name, 0) + 1
    if tries[name] <= times:
        raise ValueError(f"try {tries[name]}")
    return tries[name]

def where():
    return get_worker().name

def deep(x):
    return inner(x)

def inner(x):
    raise LookupError(f"no {x}")
`

// cluster is one of Dask's: its scheduler, and two workers that have lateModule.
type cluster struct {
	*rig.Rig
	c         *client.Client
	scheduler *rig.Process
	workers   []*rig.Process
}

func daskCluster(t *testing.T) *cluster {
	t.Helper()
	r := rig.New(t)
	// It would drop copies that the tests look for.
	r.Env = append(r.Env, "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START=False")
	s := r.DaskScheduler()
	return &cluster{Rig: r, c: r.Client(s.Address), scheduler: s, workers: lateWorkers(r, s.Address)}
}

// lateWorkers starts two workers with lateModule, a and b; a has resource tape.
func lateWorkers(r *rig.Rig, scheduler string) []*rig.Process {
	r.Helper()
	dir := r.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "late_module.py"), []byte(lateModule), 0o600); err != nil {
		r.Fatal(err)
	}
	old := r.Env
	defer func() { r.Env = old }()
	r.Env = append(slices.Clone(old), "PYTHONPATH="+dir+":"+rig.Root()+"/internal/dask/python:"+rig.Root()+
		"/tests/dask/peers")
	return []*rig.Process{
		r.DaskWorker(scheduler, "--name", "a", "--nthreads", "2", "--resources", "tape=1"),
		r.DaskWorker(scheduler, "--name", "b", "--nthreads", "2"),
	}
}

// client is another client of the cluster.
func (r *cluster) client(cfg client.Config) *client.Client {
	r.Helper()
	cfg.Dial, cfg.Logger = r.Dial(secure.Client), r.Logger("client")
	c, err := client.Connect(r.Context, r.scheduler.Address, cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = c.Close()
	})
	return c
}

// want checks a value.
func want[T any](t testing.TB, what string, wanted T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %+v", what, err)
		} else if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: got %v, want %v", what, got, wanted)
		}
	}
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %+v", what, err)
	}
}

var (
	pyAdd   = client.Python[int]("operator:add")
	pySum   = client.Python[int]("builtins:sum")
	pySlow  = client.PythonSource[int]("lambda x, s=60: [__import__('time').sleep(s), x][1]")
	pyLate  = client.Python[string]("late_module:where")
	pyFlaky = client.Python[int]("late_module:flaky")
)

// Every verb of the Go client once, against Dask's scheduler and workers.
func TestClientVerbs(t *testing.T) {
	r := daskCluster(t)
	for name, f := range map[string]func(*testing.T, context.Context, *cluster){
		"submit": verbSubmit, "map": verbMap, "values": verbValues, "graph": verbGraph, "errors": verbErrors,
		"late":   verbLate,
		"gather": verbGather, "scatter": verbScatter, "cancel": verbCancel, "retry": verbRetry, "release": verbRelease,
		"annotations": verbAnnotations, "primitives": verbPrimitives, "locks": verbLocks, "datasets": verbDatasets,
		"actors": verbActors, "run": verbRun, "replicas": verbReplicas, "metadata": verbMetadata,
		"completed": verbCompleted,
	} {
		t.Run(name, func(t *testing.T) {
			sub := *r
			sub.Rig = r.Sub(t)
			f(t, r.Context, &sub)
		})
	}
}

func verbSubmit(t *testing.T, ctx context.Context, r *cluster) {
	a := pyAdd.Submit(ctx, r.c, 1, 41)
	want(t, "1 + 41", 42)(a.Result(ctx))
	b := pyAdd.Submit(ctx, r.c, a, 1)
	want(t, "a + 1", 43)(b.Result(ctx))
	if again := pyAdd.Submit(ctx, r.c, 1, 41); again.Key() != a.Key() {
		t.Errorf("equal calls have keys %s and %s", a.Key(), again.Key())
	}
	if other := pyAdd.With(client.WithImpure()).Submit(ctx, r.c, 1, 41); other.Key() == a.Key() {
		t.Error("an impure call has the key of a pure one")
	}
	named := pyAdd.With(client.WithKey("my-key")).Submit(ctx, r.c, a, b)
	want(t, "a + b", 85)(named.Result(ctx))
	if named.Key().String() != "my-key" {
		t.Errorf("key %s", named.Key())
	}
	// Futures at any depth, in positions and by name.
	type box struct {
		A *client.Future[int]
		B []any
	}
	deep := client.PythonSource[int]("lambda box, *, more: box['A'] + sum(box['B'][0]) + box['B'][1] + more['x'][0][1]")
	f := deep.Kw("more", map[string]any{"x": []any{wire.Tuple{0, b}}}).Submit(ctx, r.c,
		box{a, []any{[]*client.Future[int]{a, b}, 1000}})
	want(t, "deep futures", 42+42+43+1000+43)(f.Result(ctx))
	want(t, "typed arguments", 85)(pySum.Submit(ctx, r.c, client.List[int](a, client.Val(43))).Result(ctx))
	want(t, "keyword arguments", []any{int64(3), int64(1)})(client.Python[[]any]("builtins:sorted").Kw("reverse",
		true).Submit(ctx, r.c, []any{1, 3}).Result(ctx))
	want(t, "definitions", 8)(client.PythonSource[int](`
		import math
		def area(a, b):
			return math.prod([a, b])
		class Box:
			def __new__(cls, a):
				return area(a, a) * 2
	`).Submit(ctx, r.c, 2).Result(ctx))
	for _, bad := range []*client.Future[int]{client.Python[int]("no-colon").Submit(ctx, r.c),
		client.PythonSource[int](" ").Submit(ctx, r.c),
		pyAdd.Submit(ctx, r.c, make(chan int), 1), client.Python[int]("a:b c").Submit(ctx, r.c)} {
		if _, err := bad.Result(ctx); err == nil {
			t.Errorf("%v has a result", bad)
		}
	}
}

func verbMap(t *testing.T, ctx context.Context, r *cluster) {
	n := 400
	xs := make([]int, n)
	for i := range xs {
		xs[i] = i
	}
	double := client.PythonSource[int]("lambda x, y=1: x * 2 + y")
	futures := double.Map(ctx, r.c, xs)
	got, err := client.Gather(ctx, futures)
	ok(t, "gather", err)
	for i, v := range got {
		if v != 2*i+1 {
			t.Fatalf("element %d is %d", i, v)
		}
	}
	// Over futures, with a second slice and a keyword that is a future.
	second := pyAdd.Map(ctx, r.c, futures[:5], []int{10, 20, 30})
	want(t, "two slices", []int{11, 23, 35})(client.Gather(ctx, second))
	want(t, "keyword", []int{7, 9})(client.Gather(ctx, double.Kw("y", futures[3]).Map(ctx, r.c, []int{0, 1})))
	keyed := double.With(client.WithKey("row")).Map(ctx, r.c, []int{5})
	if k := keyed[0].Key().String(); k != "row-0" {
		t.Errorf("key %s", k)
	}
	if _, err := client.Gather(ctx, double.Map(ctx, r.c, 5)); err == nil {
		t.Error("Map over a number works")
	}
}

func verbValues(t *testing.T, ctx context.Context, r *cluster) {
	identity := client.Python[any]("builtins:eval")
	for source, wanted := range map[string]any{
		"None": nil, "True": true, "-7": int64(-7), "1.5": 1.5, "'ü'": "ü", "b'x'": []byte("x"),
		"[1, 'a']": []any{int64(1), "a"}, "(1, 2)": wire.Tuple{int64(1), int64(2)},
		"{'a': 1}": wire.NewDict("a", int64(1)),
		"{5}":      wire.Set{int64(5)}, "1+2j": complex(1, 2), "bytearray(b'y')": wire.ByteArray("y"),
	} {
		want(t, source, wanted)(identity.Submit(ctx, r.c, source).Result(ctx))
	}
	// Arrays of numpy both ways.
	want(t, "typed array", []float64{0, 2, 4})(client.PythonSource[[]float64]("lambda a: a * 2").Submit(ctx, r.c,
		[]float64{0, 1, 2}).Result(ctx))
	a, err := client.Python[*wire.NDArray]("numpy:ones").Submit(ctx, r.c, wire.Tuple{2, 3}).Result(ctx)
	ok(t, "ones", err)
	if !reflect.DeepEqual(a.Shape, []int{2, 3}) || a.DType != "<f8" {
		t.Errorf("an array of shape %v and type %s", a.Shape, a.DType)
	}
	want(t, "array back", 6.0)(client.Python[float64]("numpy:sum").Submit(ctx, r.c, a).Result(ctx))
	want(t, "type", "numpy.ndarray")(client.PythonSource[string](
		"lambda x: f'{type(x).__module__}.{type(x).__name__}'").Submit(ctx, r.c, []int{1}).Result(ctx))
	want(t, "axis", []float64{2, 2, 2})(client.Python[[]float64]("numpy:sum").Kw("axis", 0).Submit(ctx, r.c,
		a).Result(ctx))
	// Tables of Arrow both ways.
	on := client.WithWorkers("a") // one import of pyarrow is enough
	if r.Older("2025.7.0") {      // which need the module, and do not import it
		_, err = client.Python[any]("importlib:import_module").With(client.WithWorkers(r.workers[0].Address)).Run(ctx,
			r.c, "pyarrow.fs")
		ok(t, "import", err)
	}
	table, err := client.PythonSource[arrow.Table]("lambda: __import__('pyarrow').table({'x': [1, 2, 3]})").With(
		on).Submit(ctx, r.c).Result(ctx)
	ok(t, "table", err)
	if table.NumRows() != 3 || table.Schema().Field(0).Name != "x" {
		t.Errorf("table %v", table)
	}
	want(t, "table back", 6)(client.PythonSource[int]("lambda t: sum(t['x'].to_pylist())").With(on).Submit(ctx, r.c,
		table).Result(ctx))
	// What Go does not know stays closed, and can be passed on.
	space, err := client.Python[any]("types:SimpleNamespace").Kw("a", []any{1, 2}).Submit(ctx, r.c).Result(ctx)
	ok(t, "a namespace", err)
	if _, is := space.(*client.Opaque); !is {
		t.Errorf("a namespace is a %T", space)
	}
	want(t, "a namespace back", 3)(client.PythonSource[int]("lambda x, list: sum(x.a) * len(list)").Submit(ctx, r.c,
		space, []any{space}).Result(ctx))
	odd := client.Python[*client.Opaque]("late_module:Odd")
	o, err := odd.Submit(ctx, r.c, 5).Result(ctx)
	ok(t, "an object", err)
	want(t, "an object's method", 5)(client.Python[int]("late_module:Odd.value").Submit(ctx, r.c, o).Result(ctx))
	closed, err := client.Python[*client.Opaque]("operator:add").Submit(ctx, r.c, 2, 3).Result(ctx)
	ok(t, "a number that stays closed", err)
	want(t, "and is passed on", 6)(pyAdd.Submit(ctx, r.c, closed, 1).Result(ctx))
	if _, err := client.Python[int]("builtins:str").Submit(ctx, r.c, 1).Result(ctx); err == nil {
		t.Error("text decodes to an int")
	}
	want(t, "numpy's scalar", 3)(client.Python[int]("numpy:int64").Submit(ctx, r.c, 3).Result(ctx))
}

func verbGraph(t *testing.T, ctx context.Context, r *cluster) {
	g := client.NewGraph()
	one := pyAdd.Node(g, "graph-one", 0, 1)
	two := pyAdd.With(client.WithWorkers("b"), client.WithRetries(2)).Node(g, "graph-two", one, one)
	three := pyLate.With(client.WithWorkers("a"), client.WithPriority(3)).Node(g, "graph-where")
	four := client.PythonSource[string]("lambda n, s: s * n").Node(g, "graph-four", two, three)
	futures, err := client.Compute(ctx, r.c, g, four, three)
	ok(t, "compute", err)
	next := client.PythonSource[string]("lambda s: s + '!'").Submit(ctx, r.c, futures[0]) // must not overtake the graph
	want(t, "graph", []string{"aa", "a"})(client.Gather(ctx, futures))
	want(t, "next", "aa!")(next.Result(ctx))
}

func verbErrors(t *testing.T, ctx context.Context, r *cluster) {
	_, err := client.Python[int]("late_module:deep").Submit(ctx, r.c, "such").Result(ctx)
	var te *client.TaskError
	if !errors.As(err, &te) || te.Text != "LookupError: no such" {
		t.Fatalf("the error is %+v", err)
	}
	var exc *wire.Exception
	if !errors.As(err, &exc) || exc.Type != "LookupError" || exc.Text != "no such" {
		t.Errorf("the exception is %+v", exc)
	}
	for _, part := range []string{"Traceback (most recent call last):", "in deep", "in inner", "late_module.py"} {
		if !strings.Contains(te.Stack, part) {
			t.Errorf("%q is not in the traceback\n%s", part, te.Stack)
		}
	}
	if text := fmt.Sprintf("%+v", err); !strings.Contains(text, "in inner") {
		t.Errorf("%%+v is %s", text)
	}
	// Of a task that depends on it, and of one whose arguments are wrong.
	dep := pyAdd.Submit(ctx, r.c, client.Python[int]("operator:truediv").Submit(ctx, r.c, 1, 0), 1)
	if _, err := dep.Result(ctx); !errors.As(err, &exc) || exc.Type != "ZeroDivisionError" {
		t.Errorf("a dependent's error is %v", err)
	}
	if _, err := pyAdd.Submit(ctx, r.c, 1).Result(ctx); !errors.As(err, &exc) || exc.Type != "TypeError" {
		t.Errorf("the error is %v", err)
	}
	if _, err := client.Python[int]("no_such_module:f").Submit(ctx, r.c).Result(ctx); !errors.As(err, &exc) ||
		exc.Type != "ModuleNotFoundError" {
		t.Errorf("the error is %v", err)
	}
	outcomes, err := client.GatherAll(ctx, client.PythonSource[float64]("lambda x: 1 / x").Map(ctx, r.c, []any{0, 2}))
	ok(t, "GatherAll", err)
	if outcomes[0].Err == nil || outcomes[1].Value != 0.5 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// The module is on the workers only.
func verbLate(t *testing.T, ctx context.Context, r *cluster) {
	name, err := pyLate.Submit(ctx, r.c).Result(ctx)
	ok(t, "where", err)
	if name != "a" && name != "b" {
		t.Errorf("the worker is %q", name)
	}
	_, err = client.PythonSource[int]("lambda: __import__('late_module') and 1").RunOnScheduler(ctx, r.c)
	if err == nil {
		t.Error("the scheduler has the module, which proves nothing")
	}
}

func verbGather(t *testing.T, ctx context.Context, r *cluster) {
	futures := pyAdd.With(client.WithImpure()).Map(ctx, r.c, []int{1, 2, 3}, []int{10, 20, 30})
	want(t, "direct", []int{11, 22, 33})(client.Gather(ctx, futures))
	indirect := r.client(client.Config{NoDirect: true})
	again := make([]*client.Future[int], len(futures))
	for i, f := range futures {
		again[i] = client.FutureOf[int](indirect, f.Key())
	}
	want(t, "through the scheduler", []int{11, 22, 33})(client.Gather(ctx, again))
	big, err := client.Python[[]float64]("numpy:zeros").Submit(ctx, indirect, 1<<20).Result(ctx)
	ok(t, "a large array through the scheduler", err)
	if len(big) != 1<<20 {
		t.Errorf("%d elements", len(big))
	}
}

func verbScatter(t *testing.T, ctx context.Context, r *cluster) {
	for name, opts := range map[string]client.ScatterOptions{
		"plain": {Unhashed: true}, "direct": {Unhashed: true, Direct: true},
		"workers": {Unhashed: true, Workers: []string{r.workers[1].Address}},
		"hashed":  {}, "direct to one": {Unhashed: true, Direct: true, Workers: []string{"b"}},
	} {
		futures, err := client.Scatter(ctx, r.c, [][]float64{{1, 2}, {3}}, opts)
		ok(t, name, err)
		want(t, name, 6.0)(client.PythonSource[float64]("lambda a, b: a.sum() + b.sum()").Submit(ctx, r.c, futures[0],
			futures[1]).Result(ctx))
		want(t, name, [][]float64{{1, 2}, {3}})(client.Gather(ctx, futures))
		if len(opts.Workers) > 0 {
			has, err := r.c.WhoHas(ctx, futures[0])
			ok(t, "who_has", err)
			if w := has[futures[0].Key()]; !slices.Contains(w, r.workers[1].Address) {
				t.Errorf("%s is at %v", name, w)
			}
		}
	}
	for _, direct := range []bool{false, true} {
		futures, err := client.Scatter(ctx, r.c, []string{"everywhere"},
			client.ScatterOptions{Broadcast: true, Unhashed: true, Direct: direct})
		ok(t, "broadcast", err)
		has, err := r.c.WhoHas(ctx, futures[0])
		ok(t, "who_has", err)
		if w := has[futures[0].Key()]; len(w) != 2 {
			t.Errorf("broadcast data is at %v", w)
		}
	}
}

func verbCancel(t *testing.T, ctx context.Context, r *cluster) {
	running := pySlow.With(client.WithImpure()).Submit(ctx, r.c, 1)
	waiting := pyAdd.Submit(ctx, r.c, running, 1)
	ok(t, "cancel", waiting.Cancel())
	if err := waiting.Wait(ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("a cancelled task ends with %v", err)
	}
	ok(t, "force", r.c.ForceCancel(running))
	if err := running.Wait(ctx); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("a cancelled task ends with %v", err)
	}
	want(t, "after it", 3)(pyAdd.Submit(ctx, r.c, 1, 2).Result(ctx))
}

func verbRetry(t *testing.T, ctx context.Context, r *cluster) {
	f := pyFlaky.With(client.WithWorkers("a")).Submit(ctx, r.c, "retry", 1)
	if err := f.Wait(ctx); err == nil {
		t.Fatal("the first try worked")
	}
	ok(t, "retry", r.c.Retry(ctx, f))
	want(t, "the second try", 2)(f.Result(ctx))
	want(t, "retries", 3)(pyFlaky.With(client.WithWorkers("a"), client.WithRetries(2)).Submit(ctx, r.c, "retries",
		2).Result(ctx))
}

func verbRelease(t *testing.T, ctx context.Context, r *cluster) {
	gone := func(key client.Key) {
		t.Helper()
		for {
			has, err := r.c.HasWhat(ctx)
			ok(t, "has_what", err)
			left := false
			for _, keys := range has {
				left = left || slices.Contains(keys, key)
			}
			if !left {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s is still there", key)
			}
		}
	}
	a := pyAdd.With(client.WithImpure()).Submit(ctx, r.c, 1, 1)
	b := pyAdd.With(client.WithImpure()).Submit(ctx, r.c, a, 1)
	ok(t, "wait", b.Wait(ctx))
	key := a.Key()
	a.Release()
	gone(key)
	want(t, "b", 3)(b.Result(ctx))
	if _, err := pyAdd.Submit(ctx, r.c, a, 1).Result(ctx); !errors.Is(err, client.ErrReleased) {
		t.Errorf("a released future as an argument: %v", err)
	}
}

func verbAnnotations(t *testing.T, ctx context.Context, r *cluster) {
	for _, name := range []string{"a", "b"} {
		want(t, "workers", name)(pyLate.With(client.WithImpure(), client.WithWorkers(name)).Submit(ctx,
			r.c).Result(ctx))
	}
	want(t, "an address", "b")(pyLate.With(client.WithImpure(), client.WithWorkers(r.workers[1].Address)).Submit(ctx,
		r.c).Result(ctx))
	want(t, "resources", "a")(pyLate.With(client.WithImpure(),
		client.WithResources(map[string]float64{"tape": 1})).Submit(ctx, r.c).Result(ctx))
	other := pyLate.With(client.WithImpure(), client.WithWorkers("tcp://127.0.0.1:1"),
		client.WithOtherWorkers()).Submit(ctx, r.c)
	if name, err := other.Result(ctx); err != nil || name == "" {
		t.Errorf("allow other workers: %q, %v", name, err)
	}
	// Of tasks with different annotations in one message each keeps its own.
	var futures []*client.Future[string]
	for i := range 20 {
		futures = append(futures, pyLate.With(client.WithImpure(), client.WithWorkers([]string{"a", "b"}[i%2]),
			client.WithPriority(float64(i))).Submit(ctx, r.c))
	}
	names, err := client.Gather(ctx, futures)
	ok(t, "gather", err)
	for i, name := range names {
		if name != []string{"a", "b"}[i%2] {
			t.Errorf("task %d ran on %s", i, name)
		}
	}
	// Of tasks that wait for the same resource the one of higher priority is first.
	notes := client.PythonSource[float64]("lambda x: __import__('time').time()")
	only := []client.Option{client.WithImpure(), client.WithResources(map[string]float64{"tape": 1})}
	flag := client.NewFlag(r.c, "annotations")
	block := client.PythonSource[bool]("lambda name: __import__('distributed').Event(name).wait()").With(
		only...).Submit(ctx, r.c, "annotations")
	low := notes.With(append(only, client.WithPriority(-5))...).Submit(ctx, r.c, 1)
	high := notes.With(append(only, client.WithPriority(5))...).Submit(ctx, r.c, 2)
	ok(t, "a task behind them", pyLate.With(client.WithImpure(), client.WithWorkers("b")).Submit(ctx, r.c).Wait(ctx))
	ok(t, "set", flag.Set(ctx))
	ok(t, "block", block.Wait(ctx))
	l, err := low.Result(ctx)
	ok(t, "low", err)
	h, err := high.Result(ctx)
	ok(t, "high", err)
	if h > l {
		t.Errorf("high priority ran %v s after low", h-l)
	}
}
