"""Requests of clients and tasks to a scheduler during computations: actors, nested clients, progress and others."""

import io
import operator
import sys
import time
from contextlib import redirect_stdout

import cloudpickle
from checks import attempt, check, raises, run, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(client):
    client.wait_for_workers(3)
    actors(client)
    nested(client)
    following(client)
    placing(client)
    coordinating(client)


class Counter:
    n = 0

    def increment(self, by=1):
        self.n += by
        return self.n

    def fail(self):
        raise ValueError("an actor fails")


def actors(client):
    future = client.submit(Counter, actor=True)
    counter = attempt("actor", future.result, lambda g: "Actor" in repr(g))
    attempt("method", lambda: counter.increment().result(), 1)
    attempt("again", lambda: counter.increment(by=2).result(), 3)
    attempt("attribute", lambda: counter.n, 3)
    raises("an actor's error", ValueError, lambda: counter.fail().result(), "an actor fails")
    attempt("actor in a task", lambda: client.submit(use_actor, counter).result(), 4)
    check("an actor is on one worker", [len(w) for w in client.who_has([future]).values()], [1])


def use_actor(counter):
    return counter.increment().result()


def nested(client):
    from distributed import get_client, secede, worker_client

    def fib(n):
        if n < 2:
            return n
        c = get_client()
        a, b = c.submit(fib, n - 1, pure=False), c.submit(fib, n - 2, pure=False)
        secede()
        return sum(c.gather([a, b]))

    attempt("get_client and secede", lambda: client.submit(fib, 5).result(timeout=60), 5)

    def inside(n):
        with worker_client() as c:
            return sum(c.gather(c.map(operator.add, range(n), range(n))))

    attempt("worker_client", lambda: client.submit(inside, 4).result(timeout=60), 12)

    def scattered():
        with worker_client() as c:
            x = c.scatter([1, 2, 3])
            return c.submit(sum, x).result()

    attempt("scatter in a task", lambda: client.submit(scattered).result(timeout=60), 6)


def following(client):
    from distributed import get_task_metadata, get_task_stream, progress, wait

    def draw(futures, **kwargs):
        out = io.StringIO()
        with redirect_stdout(out):
            progress(futures, notebook=False, **kwargs)
        return out.getvalue()

    attempt("progress", lambda: draw(client.map(slowinc, range(6), pure=False)), lambda g: "100% Completed" in g)
    done = client.map(slowinc, range(2))
    wait(done)
    attempt("progress of finished tasks", lambda: draw(done), lambda g: "Completed" in g)
    attempt("progress of failed tasks", lambda: draw([client.submit(operator.truediv, 1, 0)]), lambda g: "Completed" in g)
    attempt("several bars", lambda: bars(client.map(slowinc, range(3), pure=False) + client.map(operator.neg, range(2))), {"slowinc": 3, "neg": 2})
    attempt("bars grouped by a function", lambda: bars(client.map(slowinc, range(4), pure=False), lambda key: "all"), {"all": 4})
    with get_task_metadata() as tasks:
        client.submit(slowinc, 1, key="noted").result()
    check("get_task_metadata", (tasks.state, list(tasks.metadata)), ({"noted": "memory"}, ["noted"]))
    with get_task_stream() as stream:
        client.submit(slowinc, 2, key="streamed").result()
    ran = [(d["key"], "compute" in [s["action"] for s in d["startstops"]]) for d in stream.data]
    check("get_task_stream", ran, [("streamed", True)])
    x = client.submit(slowinc, 5, key="told")
    x.result()
    attempt("story", lambda: client.story("told"), lambda g: len(g) > 3)
    attempt("tasks of the scheduler", lambda: client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks["told"].state), "memory")
    computations(client)
    x = client.submit(time.sleep, 2)
    until("a task runs", lambda: any(x.key in keys for keys in client.processing().values()))
    attempt("call_stack", lambda: client.call_stack([x]))
    x.cancel()


def computations(client):
    """Check that graphs that arrive while others run belong to one computation, with the lines that submitted them."""
    import dask
    from distributed import Event

    def shown(dask_scheduler):
        last = dask_scheduler.computations[-1]
        return len(dask_scheduler.computations), last.start, [[frame.code for frame in frames] for frames in last.code]

    client.submit(slowinc, 6, pure=False).result()
    before, start, code = client.run_on_scheduler(shown)
    check("a computation without code", code, [])
    check("start of a computation", abs(time.time() - start) < 600)
    with dask.config.set({"distributed.diagnostics.computations.nframes": 1}):
        go = Event(client=client)
        first = client.submit(go.wait, 60, pure=False)
        second = client.submit(slowinc, 7, pure=False)
    check("the second graph of a computation", second.result(), 8)
    go.set()
    check("the first graph of a computation", first.result(), True)
    after, _, code = client.run_on_scheduler(shown)
    check("two graphs, one computation", after, before + 1)
    check("source lines of a computation", [c.startswith("def computations(client):") for frames in code for c in frames], [True, True])


def bars(futures, group_by="prefix"):
    """Return the final text of a bar of several groups."""
    from distributed.diagnostics.progressbar import MultiProgressBar
    from distributed.utils import LoopRunner

    class Bars(MultiProgressBar):
        def _draw_bar(self, remaining, all, status, **kwargs):
            self.all = all

    b = Bars(futures, group_by=group_by)
    LoopRunner().run_sync(b.listen)
    return {k: v for k, v in b.all.items()}


def slowinc(x):
    time.sleep(0.02)
    return x + 1


def placing(client):
    (a, b, c) = client.nthreads()
    x = client.submit(slowinc, 10, workers=[a])
    attempt("worker restriction", lambda: (x.result(), [list(v) for v in client.who_has([x]).values()]), (11, [[a]]))
    client.amm.stop()  # it would drop one
    attempt("replicate", lambda: client.replicate([x], n=2))
    until("two replicas", lambda: [len(v) for v in client.who_has([x]).values()] == [2])
    attempt("rebalance", lambda: client.rebalance([x]))
    attempt("priority", lambda: client.submit(slowinc, 3, priority=10).result(), 4)
    attempt("retries", lambda: client.submit(flaky, client.id, retries=3).result(), "at last")
    failed = client.submit(lambda: 1 / 0)
    raises("an error", ZeroDivisionError, failed.result, "division by zero")
    attempt("traceback", failed.traceback, lambda g: g is not None)
    raises("recreate_error_locally", ZeroDivisionError, lambda: client.recreate_error_locally(failed))
    attempt("recreate_task_locally", lambda: client.recreate_task_locally(client.submit(slowinc, x)), 12)
    attempt("retry", lambda: client.retry([failed]))
    raises("the same error", ZeroDivisionError, failed.result)
    until("fire_and_forget", lambda: forgotten(client))


def flaky(name):
    from distributed import Variable, get_client

    v = Variable("flaky-" + name, client=get_client())
    try:
        n = v.get(timeout=0.05)
    except Exception:
        n = 0
    v.set(n + 1)
    if n < 2:
        raise RuntimeError("not yet")
    return "at last"


def forgotten(client):
    from distributed import Variable, fire_and_forget

    fire_and_forget(client.submit(note, client.id, pure=False))
    return Variable("forgotten-" + client.id).get(timeout=30)


def note(name):
    from distributed import Variable

    Variable("forgotten-" + name).set(True)


def coordinating(client):
    from distributed import Event, Lock, Queue, Semaphore, Variable, as_completed

    def locked(name, n):
        with Lock(name):
            v = Variable("sum-" + name)
            v.set(v.get() + n)

    Variable("sum-l").set(0)
    client.gather(client.map(lambda n: locked("l", n), range(5)))
    attempt("locks in tasks", Variable("sum-l").get, 10)
    q = Queue("q")
    client.gather(client.map(lambda n: Queue("q").put(n), range(4)))
    attempt("queue", lambda: sorted(q.get() for _ in range(4)), [0, 1, 2, 3])
    s = Semaphore(max_leases=2, name="sem")

    def limited(s, n):
        with s:
            return n

    attempt("semaphore", lambda: client.gather(client.map(limited, [s] * 4, range(4))), [0, 1, 2, 3])
    e = Event("e")
    f = client.submit(lambda: Event("e").wait(30))
    e.set()
    attempt("event", f.result, True)
    attempt("as_completed", lambda: sorted(r for _, r in as_completed(client.map(slowinc, range(4)), with_results=True)), [1, 2, 3, 4])


run(main)
