package dask

import (
	"testing"
	"time"

	"go.millstream.dev/scheduler"
	"go.millstream.dev/tests/dask/rig"
)

// The collections of unmodified Python clients on our scheduler, with Dask's workers.
func TestSchedulerGraphs(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	a := r.DaskWorker(s.Address, "--nthreads", "2", "--name", "alice", "--resources", "gpu=2")
	b := r.DaskWorker(s.Address, "--name", "bob")
	r.Script(s.Address, collections+annotated+nested+erring, a.Address, b.Address)
}

const collections = `
def inc(x): return x + 1

check("submit", client.submit(inc, 1).result(), 2)
check("submit of a future", client.submit(operator.add, client.submit(inc, 1), y := client.submit(inc, 2)).result(), 5)
check("futures within arguments", client.submit(sum, [y, client.submit(inc, 9)]).result(), 13)
check("keyword arguments", client.submit(int, "11", base=2).result(), 3)
check("map", client.gather(client.map(inc, range(100))), list(range(1, 101)))
check("map of two", client.gather(client.map(operator.add, [1, 2], client.map(inc, [1, 2]))), [3, 5])
check("map in batches", client.gather(client.map(inc, range(20), batch_size=7)), list(range(1, 21)))
check("delayed", dask.delayed(sum)([dask.delayed(inc)(i) for i in range(5)]).compute(), 15)
check("a graph of tuples", client.get({"x": 1, "y": (inc, "x"), ("z", 0): (operator.add, "y", 10)}, [("z", 0), "y"]), [12, 2])
x = da.arange(1000, chunks=100)
check("array", int((x + 1).sum().compute()), 500500)
m = da.random.default_rng(0).random((200, 200), chunks=(50, 50))
check("array product", bool(da.allclose(m @ m.T, (m @ m.T).T).compute()))
p = (x * 2).persist()
check("persist", int(p[10].compute()), 20)
check("of what is persisted", int(p.sum().compute()), 999000)
check("bag", db.from_sequence(range(10), npartitions=3).map(inc).filter(lambda v: v % 2).sum().compute(), 25)
frame = pd.DataFrame({"a": range(100), "b": [i % 7 for i in range(100)]})
df = dd.from_pandas(frame, npartitions=4)
check("dataframe", df.groupby("b").a.sum().compute().to_dict(), frame.groupby("b").a.sum().to_dict())
big = np.arange(300_000)
check("buffers out of band", int(client.submit(np.sum, big).result()), int(big.sum()))
check("buffers in a graph", int(dask.delayed(np.sum)(dask.delayed(big)).compute()), int(big.sum()))
check("keys of numpy", client.get({("n", np.int64(1)): (inc, 1)}, ("n", 1)), 2)
# More than one chunk of the materializer, in the order of the client.
n = 6000
dsk = {("c", 0): (inc, -1)} | {("c", i): (operator.add, ("c", i - 1) if i % 50 else ("c", 0), 1) for i in range(1, n)}
check("chain", client.get(dsk, [("c", 49), ("c", n - 1)]), [49, 50])
futures = [client.compute(dask.delayed(inc)(i)) for i in range(5)]
client.submit(inc, 5).result()
check("what was said before is there", client.gather(futures), [1, 2, 3, 4, 5])
del futures

`

const annotated = `
alice, bob = args

def where(_=None): return distributed.get_worker().address

check("workers of submit", client.submit(where, 1, workers=[alice], pure=False).result(), alice)
check("workers by name", client.submit(where, 2, workers="bob", pure=False).result(), bob)
check("workers of map", set(client.gather(client.map(where, range(5), workers=[bob], pure=False))), {bob})
check("other workers", client.submit(where, 3, workers=["tcp://127.0.0.1:1"], allow_other_workers=True, pure=False).result(timeout=30), lambda w: w in args)
check("resources of submit", client.submit(where, 4, resources={"gpu": 1}, pure=False).result(), alice)
with dask.annotate(workers=[bob]):
    d = dask.delayed(where)(5)
check("workers of a layer", client.compute(d, optimize_graph=False).result(), bob)
with dask.annotate(resources={"gpu": 1}):
    z = da.map_blocks(lambda b: np.array([where() == args[0]]), da.ones(4, chunks=1), dtype=bool)
check("resources of a layer", z.compute(optimize_graph=False).tolist(), [True] * 4)
with dask.annotate(workers=lambda key: [args[int(key[-1]) % 2]]):
    fs = client.map(where, range(6), key=[f"call-{i}" for i in range(6)])
check("a function of the key", client.gather(fs), [alice, bob] * 3)
with dask.annotate(workers=[alice]):
    fs = client.map(where, range(3), pure=False, workers=[bob])
check("arguments before annotations", set(client.gather(fs)), {bob})

def flaky(path):
    import os
    with open(path, "a") as f:
        f.write("x")
    if os.path.getsize(path) < 3:
        raise ValueError("not yet")
    return os.path.getsize(path)

import tempfile
path = tempfile.mktemp()
check("retries", client.submit(flaky, path, retries=5).result(), 3)
path = tempfile.mktemp()
check("retries of a collection", client.compute(dask.delayed(flaky)(path), retries=5).result(), 3)
path = tempfile.mktemp()
raises("too few retries", ValueError, client.submit(flaky, path, retries=1).result, "not yet")

ev = distributed.Event("go")
def hold(): distributed.Event("go").wait(timeout=60)
def note(i): return time.time()
block = client.submit(hold, workers=["bob"], pure=False)
low = [client.submit(note, i, priority=-1, workers=["bob"], pure=False) for i in range(3)]
high = [client.submit(note, i, priority=10, workers=["bob"], pure=False) for i in range(3)]
with dask.annotate(priority=20):
    first = client.compute(dask.delayed(note)(7), workers=["bob"], optimize_graph=False)
until("all wait", lambda: len(client.processing().get(bob, ())) == 8)
ev.set()
first, high, low = client.gather([first, high, low])
check("priorities", first < min(high) and max(high) < min(low))
raises("bad resources", Exception, lambda: client.submit(where, 9, resources=5, pure=False).result(timeout=30))
with dask.annotate(team="a", size=3):
    f = client.compute(dask.delayed(lambda: dict(distributed.get_worker().state.tasks[distributed.get_worker().get_current_task()].annotations))(), optimize_graph=False)
check("annotations reach the worker", f.result(), {"team": "a", "size": 3})
`

const erring = `
class Bomb:
    def __reduce__(self): return operator.truediv, (1, 0)

class Crash:
    def __reduce__(self):
        import os
        return os._exit, (3,)

def use(x): return x

raises("an error of a task", ZeroDivisionError, client.submit(operator.truediv, 1, 0).result)
e = raises("what cannot be opened", RuntimeError, client.submit(use, Bomb(), key="bomb").result, "Error during deserialization")
check("its cause", type(getattr(e, "__cause__", None)).__name__, "ZeroDivisionError")
raises("a process that dies", Exception, client.submit(use, Crash(), key="crash").result, "processes crashed")
check("the next graph", dask.delayed(use)(3).compute(), 3)
f = client.submit(operator.add, client.submit(operator.truediv, 1, 0, key="bad"), 1)
raises("of a dependency", ZeroDivisionError, f.result)
`

const nested = `
class Counter:
    n = 0
    def add(self, k=1):
        self.n += k
        return self.n

c = client.submit(Counter, actor=True).result()
check("actor", [c.add().result(), c.add(5).result(), c.n], [1, 6, 6])

def inner(n):
    with distributed.worker_client() as c:
        return sum(c.gather(c.map(lambda x: x * 2, range(n)))) + dask.delayed(sum)([1, 2]).compute()

check("worker_client", client.submit(inner, 10, pure=False).result(timeout=60), 93)

def lazily():
    return int(dask.array.ones(10, chunks=5).sum().compute())

import dask.array
check("a collection within a task", client.submit(lazily, pure=False).result(timeout=60), 10)
`

// A graph that takes too long to open is given up, and only it.
func TestSchedulerGraphDeadline(t *testing.T) {
	r := rig.New(t)
	s := r.StartScheduler(scheduler.Config{Python: scheduler.PythonConfig{Interpreter: r.Interpreter,
		GraphTimeout: 5 * time.Second, Processes: 2}})
	r.DaskWorker(s.Address())
	r.Script(s.Address(), `
class Endless:
    def __reduce__(self): return eval, ("[None for _ in iter(int, 1)]",)

slow = client.submit(operator.is_, Endless(), None, key="endless")
with connect(set_as_default=False) as other:
    # Another client's graphs are opened meanwhile.
    check("other clients", other.compute(dask.delayed(operator.add)(1, 2)).result(timeout=60), 3)
raises("the endless one", Exception, slow.result, "took longer than 5s")
check("afterwards", dask.delayed(operator.add)(1, 2).compute(), 3)
`)
}
