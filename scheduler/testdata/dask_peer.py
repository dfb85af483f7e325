"""Runs a Dask client and Dask workers against the scheduler at the given address.

Prints one line of JSON per check: {"check": name, "ok": bool, "got": repr}.
"""

import asyncio
import json
import os
import sys
import tempfile

import dask

dask.config.set(
    {
        "distributed.comm.timeouts.connect": "20s",
        "distributed.admin.tick.interval": "1s",
        "distributed.worker.profile.enabled": False,
        "temporary-directory": tempfile.mkdtemp(),
    }
)

from distributed import Client, Event, Lock, MultiLock, Nanny, Queue, Semaphore, Variable, Worker  # noqa: E402


def report(name, ok, got=None):
    print(json.dumps({"check": name, "ok": bool(ok), "got": repr(got)[:500]}), flush=True)


class Check:
    """Run one check and report its result."""

    def __init__(self, name):
        self.name = name

    async def __call__(self, coro, want=None):
        try:
            got = await asyncio.wait_for(coro, 60)
        except Exception as e:  # noqa: BLE001
            report(self.name, False, e)
            return None
        ok = want(got) if callable(want) else True if want is None else got == want
        report(self.name, ok, got)
        return got


async def main(address):
    common = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    async with Worker(address, name="one", nthreads=2, resources={"GPU": 1}, **common) as a, Worker(address, name="two", nthreads=1, **common) as b:
        async with Client(address, asynchronous=True) as c, Client(address, asynchronous=True) as d:
            await Check("wait_for_workers")(c.wait_for_workers(2, timeout=30))
            report("scheduler_info", set(c.scheduler_info()["workers"]) == {a.address, b.address}, c.scheduler_info())
            await Check("ncores")(c.nthreads(), {a.address: 2, b.address: 1})

            x = (await c.scatter({"x": 123}))["x"]
            await Check("gather through workers")(c.gather(x), 123)
            await Check("gather through the scheduler")(c.gather(x, direct=False), 123)
            y = await c.scatter([1, 2, 3], broadcast=True)
            await Check("broadcast data")(c.who_has(y), lambda w: all(len(v) == 2 for v in w.values()))
            await Check("has_what")(c.has_what(), lambda h: len(h) == 2)
            await Check("run")(c.run(os.getpid), {a.address: os.getpid(), b.address: os.getpid()})
            await Check("replicate")(c.replicate([x]))
            await Check("rebalance")(c.rebalance())

            v = Variable("v", client=c)
            await Check("variable data")(v.set({"a": [1, "b"]}))
            await Check("variable data back")(Variable("v", client=d).get(timeout=5), lambda g: g["a"][1] == "b")
            await v.set(x)
            f = await Check("variable future")(Variable("v", client=d).get(timeout=5), lambda g: g.key == x.key)
            await Check("variable future's value")(d.gather(f), 123)
            v.delete()

            q = await Queue("q", client=c, maxsize=2)
            await q.put(1)
            await q.put(x)
            r = await Queue("q", client=d)
            await Check("queue size")(r.qsize(), 2)
            await Check("queue data")(r.get(), 1)
            await Check("queue future")((await r.get()).result(), 123)

            lock = Lock("l")
            await Check("lock")(lock.acquire(timeout=5), True)
            await Check("lock is held")(Lock("l").acquire(timeout=0.1), False)
            await Check("unlock")(lock.release())
            sem = await Semaphore(max_leases=2, name="s")
            await Check("semaphore")(sem.acquire(timeout=5), True)
            await Check("semaphore value")(sem.get_value(), 1)
            await sem.release()
            multi = MultiLock(["m", "n"], client=c)
            await Check("multi lock")(multi.acquire(timeout=5), True)
            await Check("multi unlock")(multi.release())

            e = Event("e", client=c)
            await Check("event is not set")(e.wait(timeout=0.05), False)
            await e.set()
            await Check("event is set")(Event("e", client=d).wait(timeout=5), True)

            await Check("publish")(c.publish_dataset(x=x))
            await Check("published")(d.list_datasets(), ("x",))
            g = await Check("dataset")(d.get_dataset("x"), lambda g: g.key == x.key)
            await Check("dataset's value")(d.gather(g), 123)
            await Check("unpublish")(d.unpublish_dataset("x"))

            await Check("set_metadata")(c.set_metadata(["a", "b"], 7))
            await Check("get_metadata")(d.get_metadata(["a"]), {"b": 7})
            await Check("get_metadata default")(d.get_metadata(["z"], 9), 9)
            await Check("log_event")(c.log_event("topic", {"n": 1}))
            await Check("events")(d.get_events("topic"), lambda g: g[0][1] == {"n": 1})
            await Check("scheduler logs")(c.get_scheduler_logs(), lambda g: len(g) > 0)
            await Check("processing")(c.processing(), lambda g: set(g) == {a.address, b.address})
            await Check("nbytes")(c.nbytes(summary=False), lambda g: x.key in g)

            future = c.submit(lambda: 1, key="python-task")
            await Check("a Python task")(future.result(), 1)
            del future

            # A Dask client releases its keys: data that no client holds is freed.
            key = y[0].key
            del y

            async def freed():
                while key in a.data or key in b.data:
                    await asyncio.sleep(0.02)

            await Check("release")(freed())
            await Check("retire")(c.retire_workers([b.address]), lambda g: b.address in g)
            await Check("data moved")(c.gather(x, direct=False), 123)
    async with Nanny(address, name="three", nthreads=1, **common) as n:
        async with Client(address, asynchronous=True) as c:
            await Check("a nanny's worker")(c.wait_for_workers(1, timeout=30))
            await Check("restart through the nanny")(c.restart(timeout=60))
            await Check("worker is back")(c.nthreads(), lambda g: len(g) == 1)
        report("nanny", n.status.name == "running", n.status)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
