package dask

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// Functions of Go that Python programs of the tests call.
var (
	_ = task.Register2("sumsq", func(_ context.Context, x, y float64) (float64, error) { return x*x + y*y, nil })
	_ = task.Register3("linspace", func(_ context.Context, from, to float64, n int) ([]float64, error) {
		if n < 2 || n > 1<<20 {
			return nil, fmt.Errorf("%d points", n)
		}
		out := make([]float64, n)
		for i := range out {
			out[i] = from + (to-from)*float64(i)/float64(n-1)
		}
		return out, nil
	})
	_ = task.Register1("total", func(_ context.Context, x []float64) (float64, error) {
		var s float64
		for _, v := range x {
			s += v
		}
		return s, nil
	})
	_ = task.Register1("upper", func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil })
	_ = task.Register1("words", func(_ context.Context, m map[string][]int) (map[string]int, error) {
		out := map[string]int{}
		for k, v := range m {
			for _, n := range v {
				out[k] += n
			}
		}
		return out, nil
	})
	_ = task.Register1("same", func(_ context.Context, x any) (any, error) { return x, nil })
	_ = task.Register1("matrix", func(_ context.Context, a *wire.NDArray) (*wire.NDArray, error) { return a, nil })
	_ = task.Register1("squares", func(_ context.Context, t arrow.Table) (arrow.Table, error) {
		b := array.NewRecordBuilder(memory.DefaultAllocator,
			arrow.NewSchema([]arrow.Field{{Name: "square", Type: arrow.PrimitiveTypes.Int64}}, nil))
		defer b.Release()
		for _, chunk := range t.Column(0).Data().Chunks() {
			for i := range chunk.Len() {
				v := chunk.(*array.Int64).Value(i)
				b.Field(0).(*array.Int64Builder).Append(v * v)
			}
		}
		rec := b.NewRecordBatch()
		defer rec.Release()
		return array.NewTableFromRecords(rec.Schema(), []arrow.RecordBatch{rec}), nil
	})
	_ = task.Register1("root", func(_ context.Context, x float64) (float64, error) {
		if x < 0 {
			return 0, &wire.Exception{Module: "builtins", Type: "ValueError", Text: "math domain error",
				Args: []any{"math domain error"}}
		}
		return math.Sqrt(x), nil
	})
	_ = task.Register1("fails", func(_ context.Context, text string) (int, error) { return 0, errors.New(text) })
	_ = task.Register0("panics", func(context.Context) (int, error) { return deep(3) })
	_ = task.Register2("pause", func(ctx context.Context, seconds float64, x []float64) (int, error) {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(time.Duration(seconds * float64(time.Second))):
			return len(x), nil
		}
	})
	_ = task.Register1("sleeps", func(ctx context.Context, seconds float64) (string, error) {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(seconds * float64(time.Second))):
			return "slept", nil
		}
	})
)

// deep panics below some calls, so that there is a stack to show.
func deep(n int) (int, error) {
	if n == 0 {
		panic("out of ideas")
	}
	return deep(n - 1)
}

// A worker without Python in a cluster of Dask's runs Go functions that Python graphs name, by every way in which they
// can, with values of Python's and back, and errors. Dask's own processes do not have the package millstream: only the
// client does.
func TestWorkerGoFunctions(t *testing.T) {
	r := rig.New(t)
	without := r.Sub(t)
	without.Env = []string{"PYTHONPATH=" + rig.Root() + "/tests/dask/peers"}
	s := without.DaskScheduler()
	p := without.DaskWorker(s.Address, "--nthreads", "1")
	w := r.StartWorker(s.Address, worker.Config{Threads: 2, Name: "go-0"})
	r.Script(s.Address, goWays+goValues+goErrors, w.Address(), p.Address)
}

// The same on our scheduler, which places Go functions by itself: nobody says where they belong.
func TestSchedulerGoFunctions(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	p := r.DaskWorker(s.Address, "--nthreads", "1")
	w := r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-0"})
	r.Script(s.Address, `
goaddr, pyaddr = args
done = millstream.install(client)
check("nothing to install", (done.scheduler, done.changed, done.go_workers, done.without_python, done.python_workers), ("millstream", False, (goaddr,), (goaddr,), (pyaddr,)))
sumsq = millstream.go("sumsq")
one = client.submit(operator.add, 0.5, 0.5)
check("submit", client.submit(sumsq, one, 4).result(), 17.0)
check("map", client.gather(client.map(sumsq, range(5), range(5))), [0.0, 2.0, 8.0, 18.0, 32.0])
check("delayed", dask.delayed(operator.add)(dask.delayed(sumsq)(dask.delayed(sumsq)(1, 2), 2), 1).compute(), 30.0)
check("python", client.gather(client.map(lambda x: x + 1, range(20), pure=False)), list(range(1, 21)))
raises("error", RuntimeError, client.submit(millstream.go("fails"), "no luck").result, "no luck")

@millstream.go("sumsq")
def declared(x: float, y: float) -> float: ...
check("by name of the parameter", client.submit(declared, 3, y=4).result(), 25.0)
with dask.annotate(go={"fn": "sumsq", "args": [3, 4]}):
    check("annotation", client.submit(lambda: None, pure=False).result(), 25.0)
import types
check("namespace", client.submit(types.SimpleNamespace, go="sumsq", args=[one, 2]).result(), 5.0)
`, w.Address(), p.Address)
}

const goWays = `
import datetime, types
goaddr, pyaddr = args
GO = types.SimpleNamespace
R = dict(resources={"go": 1})

# annotations
with dask.annotate(go={"fn": "sumsq", "args": [3, 4]}, **R):
    check("annotation", client.submit(lambda: None, pure=False).result(), 25.0)
with dask.annotate(go="sumsq", **R):
    check("annotation with the task's arguments", client.submit(lambda x, y: None, 3, 4, pure=False).result(), 25.0)

# a class that is everywhere
check("namespace", client.submit(GO, go="sumsq", args=[1, 2.5], **R).result(), 7.25)
one = client.submit(operator.add, 0.5, 0.5, workers=[pyaddr])
check("namespace with a future", client.submit(GO, go="sumsq", args=[one, 2], **R).result(), 5.0)

# by name
def go_upper(s): raise RuntimeError("python must not run this")
check("name", client.submit(go_upper, "abc", **R).result(), "ABC")

# stubs
sumsq = millstream.go("sumsq")
check("stub", client.submit(sumsq, 3, 4, **R).result(), 25.0)
check("stub in map", client.gather(client.map(sumsq, range(5), range(5), **R)), [0.0, 2.0, 8.0, 18.0, 32.0])

@millstream.go("sumsq")
def declared(x: float, y: float) -> float: ...
check("by name of the parameter", client.submit(declared, 3, y=4, **R).result(), 25.0)
raises("unknown parameter", TypeError, client.submit(declared, 3, z=4, **R).result, "no parameter")
raises("undeclared parameters", TypeError, client.submit(sumsq, 3, y=4, **R).result, "by position")

with dask.annotate(**R):
    d = dask.delayed(sumsq)(dask.delayed(sumsq)(1, 2), 2)
    check("delayed", d.compute(optimize_graph=False), 29.0)
    check("delayed by name of the parameter", dask.delayed(declared)(3, y=dask.delayed(sumsq)(1, 1)).compute(optimize_graph=False), 13.0)
    graph = {"a": (sumsq, 1, 1), "b": (sumsq, "a", 2)}
    check("graph", client.get(graph, "b"), 8.0)

raises("a stub on a Python worker says what it needs", RuntimeError, client.submit(sumsq, 1, 2, workers=[pyaddr], pure=False).result, "Millstream worker")
raises("not in Python", RuntimeError, lambda: sumsq(1, 2), "client.submit")
`

const goValues = `
go = millstream.go
R = dict(resources={"go": 1}, pure=False)
same = go("same")
def back(x): return client.submit(same, x, **R).result()

for v in [None, True, 0, -5, 2**40, 2**70, 1.5, float("inf"), "text", "ü\n", b"bytes", [1, "two", [3.0]], (1, 2), {"a": 1, "b": [2, 3]}, {1, 2},
          datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc), datetime.timedelta(seconds=5), datetime.date(2024, 5, 6)]:
    check("there and back: %r" % (v,), back(v), v)
check("a tuple stays one", type(back((1, 2))), tuple)

# numpy both ways
x = np.arange(12.0).reshape(3, 4)
check("array", back(x), x)
check("matrix", client.submit(go("matrix"), x[:, ::2], **R).result(), x[:, ::2])
lin = client.submit(go("linspace"), 0, 10, 11, **R)
check("slices are arrays", type(lin.result()), np.ndarray)
check("on Dask's worker", client.submit(np.sum, lin, workers=[pyaddr]).result(), 55.0)
made = client.submit(np.arange, 5.0, workers=[pyaddr])
check("of Dask's worker", client.submit(go("total"), made, **R).result(), 10.0)
check("a list for floats", client.submit(go("total"), [1, 2.5], **R).result(), 3.5)
check("numpy scalar", client.submit(go("total"), np.ones(3, dtype="f4"), **R).result(), 3.0)
parts = [client.submit(operator.mul, 1.0, i, workers=[pyaddr]) for i in range(4)]
check("futures in a list", client.submit(go("total"), parts, **R).result(), 6.0)
check("futures in a dict", client.submit(go("words"), {"a": [1, client.submit(operator.add, 1, 1, workers=[pyaddr])]}, **R).result(), {"a": 3})

# Arrow
table = pa.table({"x": [1, 2, 3]})
[t] = client.scatter([table], workers=[goaddr], hash=False)
sq = client.submit(go("squares"), t, **R)
check("arrow", sq.result().to_pydict(), {"square": [1, 4, 9]})
check("arrow on Dask's worker", client.submit(lambda t: t.num_rows, sq, workers=[pyaddr]).result(), 3)

# what Go does not know passes through
class Thing:
    def __init__(self, n): self.n = n
thing = client.submit(Thing, 7, workers=[pyaddr])
check("opaque", client.submit(same, thing, **R).result().n, 7)
raises("an object among arguments", TypeError, client.submit(same, Thing(1), **R).result, "cannot be converted to a Go value")
raises("wrong type", TypeError, client.submit(go("upper"), 5, **R).result, "upper")
raises("wrong number", TypeError, client.submit(go("upper"), "a", "b", **R).result, "want 1")
`

const goErrors = `
go = millstream.go
R = dict(resources={"go": 1}, pure=False)
raises("error", RuntimeError, client.submit(go("fails"), "no luck", **R).result, "no luck")
raises("with a class of its own", ValueError, client.submit(go("root"), -1, **R).result, "math domain error")
e = raises("panic", RuntimeError, client.submit(go("panics"), **R).result, "out of ideas")
check("with its stack", "deep" in "".join(getattr(e, "__notes__", [])))
raises("unknown function", LookupError, client.submit(go("nothing"), 1, **R).result, "nothing")
raises("python", Exception, client.submit(lambda: 1, workers=[goaddr], pure=False).result, "Python")
e = raises("of a dependency", ValueError, client.submit(operator.add, client.submit(go("root"), -1, **R), 1, workers=[pyaddr], pure=False).result)
check("retries", client.submit(go("upper"), "x", retries=2, **R).result(), "X")
f = client.submit(go("sleeps"), 600.0, **R)
until("it runs", lambda: any(str(f.key) in map(str, k) for k in client.processing().values()))
f.cancel()
check("the thread is free again", client.gather(client.map(go("upper"), ["a", "b", "c"], **R)), ["A", "B", "C"])
until("nothing is left", lambda: not client.processing()[goaddr])
`
