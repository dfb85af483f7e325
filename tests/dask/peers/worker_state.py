"""Attributes of get_worker() and worker.state on a Dask worker and on a Go worker, whose addresses are the arguments."""

import sys
import warnings

import distributed
from checks import check, run, until
from distributed import wait


def names(dask_worker):
    warnings.simplefilter("ignore")
    out = {}
    for of, obj in (("worker", dask_worker), ("state", dask_worker.state)):
        for name in dir(obj):
            if not name.startswith("_") and name != "client":  # a client connects when it is accessed
                try:
                    out[of + "." + name] = type(getattr(obj, name)).__name__
                except Exception as e:
                    out[of + "." + name] = repr(e)
    return out


def inc(x):
    return x + 1


def add(x, y):
    return x + y


def fail(x):
    raise ValueError("wrong")


def state(dask_worker):
    s = dask_worker.state
    return {
        "tasks": {k: (t.key, t.state, t.nbytes, t.prefix, t.exception_text, type(t).__name__) for k, t in s.tasks.items()},
        "data": sorted(map(str, dask_worker.data)), "counts": (s.executed_count, len(s.executing), len(s.ready), s.nbytes, len(s.in_flight_tasks)),
        "story": [(row[0], row[1], row[2]) for row in s.story("a")], "log": len(dask_worker.state.log) > 0,
        "threads": s.nthreads,
    }


def inside(x):
    w = distributed.get_worker()
    ts = w.state.tasks[w.get_current_task()]
    return ts.state, [t.key for t in w.state.executing], [d.key for d in ts.dependencies]


def main(client):
    theirs, ours = sys.argv[2:4]
    want = client.run(names, workers=[theirs])[theirs]
    got = client.run(names, workers=[ours])[ours]
    # Objects of the Go process, and numbers of another type.
    other = {
        "worker.data", "state.data", "worker.http_application", "worker.http_server", "worker.listener", "worker.state",
        "worker.scheduler_delay", "state.transfer_incoming_bytes_limit",
    }
    check("attributes", len(want) > 150)
    check("types", {n: (got.get(n), t) for n, t in want.items() if got.get(n) != t and n not in other}, {})

    views = []
    for address in (theirs, ours):
        a = client.submit(inc, 1, key="a", workers=[address])
        b = client.submit(add, a, 1, key=("b", 0), workers=[address])
        c = client.submit(fail, a, key="c", workers=[address])
        wait([a, b, c])
        view = client.run(state, workers=[address])[address]
        views.append(view)
        del a, b, c
        until("forgotten", lambda: not client.run(lambda dask_worker: len(dask_worker.state.tasks), workers=[address])[address])
    want, got = views
    for name in ("tasks", "data", "counts", "log", "threads"):
        check(name, got[name], want[name])
    check("story", [row for row in got["story"] if row[1] == "executing"], [("a", "executing", "memory")])

    for address in (theirs, ours):
        x = client.submit(inc, 1, key="x", workers=[address])
        got = client.submit(inside, x, key="inside", workers=[address]).result(60)
        check("within a task", got, ("executing", ["inside"], ["x"]))
        del x
        until("released", lambda: not client.run(lambda dask_worker: len(dask_worker.state.tasks), workers=[address])[address])


if __name__ == "__main__":
    run(main)
