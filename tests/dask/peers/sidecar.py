"""Everything that tasks, plugins and clients do with a worker, on workers that have a sidecar."""

import asyncio
import os
import sys
import tempfile
import threading

import dask
import distributed
from checks import attempt, check, raises, run, until
from distributed import (
    Event, Lock, Queue, Reschedule, Semaphore, Variable, WorkerPlugin, get_client, get_worker, secede, wait, worker_client,
)


def collections(client):
    import dask.array as da
    import dask.bag as db

    x = da.ones((200, 200), chunks=(50, 50))
    attempt("array", lambda: float((x + x.T).sum().compute()), 80000.0)
    attempt("bag", lambda: db.from_sequence(range(100), npartitions=5).map(lambda v: v * 2).sum().compute(), 9900)
    with dask.config.set({"array.rechunk.method": "p2p"}):
        y = da.arange(10_000, chunks=100).reshape((100, 100)).rechunk((100, 5))
        attempt("p2p rechunk", lambda: int(y.sum().compute()), 49995000)


def frames(client):
    import dask.dataframe as dd
    import pandas as pd

    a = pd.DataFrame({"k": range(1000), "x": range(1000)})
    b = pd.DataFrame({"k": range(0, 1000, 2), "y": range(500)})
    left = dd.from_pandas(a, npartitions=4)
    attempt("groupby", lambda: left.assign(m=left.k % 7).groupby("m").x.sum().compute().sum(), 499500)
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        m = attempt("p2p merge", lambda: left.merge(dd.from_pandas(b, npartitions=3), on="k").compute(), lambda r: len(r) == 500)
        check("p2p rows", bool((m.x == 2 * m.y).all()))


def inside(client):
    """Check what a task can do."""

    def nested(n):
        secede()
        c = get_client()
        return sum(c.gather(c.map(lambda x: x * 2, range(n))))

    def with_client(n):
        with worker_client() as c:
            return sum(c.gather(c.map(lambda x: x + 1, range(n))))

    def again(path):
        if not os.path.exists(path):
            open(path, "w").close()
            raise Reschedule
        return 7

    def primitives(i):
        with Lock("lock"):
            Queue("queue").put(i)
        with Semaphore(2, name="semaphore"):
            pass
        Event("event").set()
        return i

    async def coroutine(x):
        await asyncio.sleep(0.01)
        return x, get_worker().address

    def scatter():
        c = get_client()
        return sum(c.gather(c.scatter(list(range(10)))))

    addresses = set(client.scheduler_info()["workers"])
    attempt("get_worker", lambda: client.submit(lambda: get_worker().address).result(60), lambda a: a in addresses)
    attempt("ip and http_server", lambda: client.submit(lambda: (get_worker().ip, get_worker().http_server.port > 0)).result(60), ("127.0.0.1", True))
    attempt("current task", lambda: client.submit(lambda: get_worker().get_current_task(), key="me").result(60), "me")
    attempt("get_client and secede", lambda: client.submit(nested, 10).result(60), 90)
    attempt("worker_client", lambda: client.gather([client.submit(with_client, i, pure=False) for i in range(4)]), [0, 1, 3, 6])
    attempt("reschedule", lambda: client.submit(again, tempfile.mktemp()).result(60), 7)
    attempt("primitives", lambda: client.gather(client.map(primitives, range(4))), [0, 1, 2, 3])
    attempt("queue", lambda: sorted(Queue("queue").get(timeout=60) for _ in range(4)), [0, 1, 2, 3])
    attempt("event", lambda: Event("event").is_set(), True)
    attempt("coroutine", lambda: client.submit(coroutine, 3).result(60)[0], 3)
    attempt("scatter", lambda: client.submit(scatter).result(60), 45)
    future = client.submit(lambda: 41)
    Variable("future").set(future)
    attempt("future in a task", lambda: client.submit(lambda: Variable("future").get().result() + 1).result(60), 42)
    with dask.annotate(executor="offload"):
        attempt("executor", lambda: client.submit(lambda: threading.current_thread().name).result(60), lambda n: "offload" in n.lower())


def failures(client):
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a)

    def odd():
        raise Odd(1, 2)

    def outer():
        return {}["missing"]

    e = raises("exception", KeyError, client.submit(outer).result, "missing")
    names, tb = [], e.__traceback__
    while tb:
        names.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    check("traceback", names[-1], "outer")
    check("no frames of Millstream in it", not any(n in ("execute", "erred") for n in names))
    raises("exception that cannot be unpickled", Exception, client.submit(odd).result, "1")
    lock = client.submit(threading.Lock)
    wait(lock)
    raises("result that cannot be pickled", TypeError, lock.result)
    raises("invalid executor", ValueError, lambda: submit_with(client, executor="none such"), "none such")
    done = client.submit(lambda: {"a": [1]}, pure=False)
    wait(done)
    check("type", done.type, dict)


def submit_with(client, **annotations):
    with dask.annotate(**annotations):
        return client.submit(lambda: 1, pure=False).result(60)


def actors(client):
    class Counter:
        n = 0

        def add(self, k=1):
            self.n += k
            return self.n

        async def later(self):
            return self.n

    a = client.submit(Counter, actor=True).result(60)
    attempt("actor", lambda: [a.add().result() for _ in range(3)], [1, 2, 3])
    attempt("actor attribute", lambda: a.n, 3)
    attempt("actor coroutine", lambda: a.later().result(), 3)
    attempt("actor in a task", lambda: client.submit(lambda a: a.add(k=2).result(), a).result(60), 5)


def everywhere(client):
    """Check requests of clients to all workers."""

    class Plugin(WorkerPlugin):
        name = "seen"

        def setup(self, worker):
            worker.seen = ["setup"]

        def teardown(self, worker):
            worker.seen.append("teardown")

    async def where(dask_worker):
        await asyncio.sleep(0)
        return dask_worker.address

    client.register_plugin(Plugin())
    attempt("plugin", lambda: set(map(tuple, client.run(lambda dask_worker: dask_worker.seen).values())), {("setup",)})
    client.unregister_worker_plugin("seen")
    attempt("teardown", lambda: set(map(tuple, client.run(lambda dask_worker: dask_worker.seen).values())), {("setup", "teardown")})
    attempt("run_coroutine", lambda: {k == v for k, v in client.run(where).items()}, {True})
    raises("run that fails", ZeroDivisionError, lambda: client.run(lambda: 1 / 0))
    path = os.path.join(tempfile.mkdtemp(), "uploaded_module.py")
    with open(path, "w") as f:
        f.write("def triple(x): return x * 3\n")
    client.upload_file(path)

    def triple(x):
        import uploaded_module

        return uploaded_module.triple(x)

    attempt("upload_file", lambda: client.submit(triple, 4).result(60), 12)
    versions = client.get_versions(check=False)["workers"].values()
    check("versions", {v["packages"]["distributed"] for v in versions}, {distributed.__version__})

    def hold():
        Event("held").set()
        Event("go").wait(60)

    held = client.submit(hold, key="held")
    Event("held").wait(60)
    attempt("call_stack", lambda: client.call_stack(keys=["held"]), lambda s: "held" in str(s) and "wait" in str(s))
    Event("go").set()
    held.result(60)

    def talk():
        import logging

        logging.getLogger("distributed.worker").warning("words of a task")

    client.submit(talk).result(60)
    until("log", lambda: "words of a task" in str(client.get_worker_logs()))
    until("no task is left", lambda: not any(client.processing().values()))


def main(client):
    client.wait_for_workers(int(sys.argv[2]), timeout=60)
    for part in (collections, frames, inside, failures, actors, everywhere):
        part(client)


run(main)
