"""Two Go workers without Python next to a Dask worker: everything that happens to a worker.

Arguments: the scheduler's address, its dashboard's host:port, the address of the Dask worker, and those of the two.
"""

import sys
import urllib.parse
import urllib.request

import dask
import distributed
import millstream
from checks import attempt, check, run, until


def main(client):
    dashboard, py, a, b = sys.argv[2:6]
    place(client, py, a, b)
    broadcasts(client, py, a, b)
    replicas(client, py, a, b)
    steal(client, a, b)
    pages(client, dashboard, a)
    retire(client, a, b)


def state(client, key):
    def ask(key, dask_scheduler):
        return dask_scheduler.tasks[key].state if key in dask_scheduler.tasks else None

    return client.run_on_scheduler(ask, key)


def place(client, py, a, b):
    """Check millstream.install: Python tasks run on the Dask worker, Go functions on workers that have them."""
    done = millstream.install(client)
    check("install", (done.scheduler, done.changed, sorted(done.go_workers), done.python_workers), ("dask", True, sorted([a, b]), (py,)))
    check("install reports it", "Python tasks stay off" in str(done) and "2 Millstream workers (2 without Python)" in str(done))
    check("install knows the functions", "upper" in done.functions)
    check("install again", millstream.install(client).changed, False)
    numbers = client.map(lambda x: x + 1, range(40), pure=False)
    upper = client.map(millstream.go("upper"), [f"w{i}" for i in range(10)], pure=False)
    check("python", client.gather(numbers), list(range(1, 41)))
    check("go", client.gather(upper), [f"W{i}" for i in range(10)])
    holders = client.who_has(numbers + upper)
    check("python ran on the Dask worker", {w for f in numbers for w in holders[f.key]}, {py})
    check("go ran on Go workers", {w for f in upper for w in holders[f.key]} <= {a, b})
    with dask.annotate(workers=[a]):
        f = client.submit(millstream.go("upper"), "x", pure=False)
    check("restricted by the user", f.result(), "X")
    check("on that worker", set(client.who_has(f)[f.key]), {a})
    f = client.submit(millstream.go("not there"), 1)
    until("waits if no worker has it", lambda: state(client, f.key) == "no-worker")
    f.cancel()
    import dask.array as da

    check("collections", int((da.ones((20, 20), chunks=5) + 1).sum().compute()), 800)


def broadcasts(client, py, a, b):
    """Check that requests to all workers do not fail because of two of them."""
    got = attempt("run", lambda: client.run(lambda: "ran"))
    check("run on the Dask worker", got[py], "ran")
    check("run on Go workers", all("without Python" in got[w] for w in (a, b)))
    attempt("plugin", lambda: client.register_plugin(Plugin(), name="p"))
    attempt("plugin removed", lambda: client.unregister_worker_plugin("p"))
    check("versions", attempt("get_versions", lambda: client.get_versions(check=True))["workers"][a]["host"]["go"], lambda v: v.startswith("go1"))
    check("logs", len(client.get_worker_logs()[a]) > 0)
    attempt("call_stack", client.call_stack)
    attempt("profile", client.profile)
    attempt("story", lambda: client.story("x"))


class Plugin(distributed.WorkerPlugin):
    def setup(self, worker):
        pass


def replicas(client, py, a, b):
    """Check transfers between the kinds of workers: scatter, replicate, rebalance, the active memory manager."""
    import numpy as np

    x = np.arange(1000.0)
    [f] = client.scatter([x], workers=[a], hash=False)
    client.replicate([f], n=3)
    until("replicate", lambda: set(client.who_has(f)[f.key]) == {py, a, b})
    check("gathered", client.gather(f, direct=False).sum(), x.sum())
    check("directly", client.gather(f, direct=True).sum(), x.sum())
    client.amm.run_once()
    client.amm.start()
    until("the memory manager removes replicas", lambda: len(client.who_has(f)[f.key]) == 1)
    client.amm.stop()
    many = [client.scatter(np.ones(100) * i, workers=[a], hash=False) for i in range(8)]
    attempt("rebalance", lambda: client.rebalance(many))
    check("all there", [float(v[0]) for v in client.gather(many)], [float(i) for i in range(8)])
    check("go reads python results", client.submit(millstream.go("total"), client.submit(np.arange, 4.0), pure=False).result(), 6.0)


def steal(client, a, b):
    """Check that tasks of one worker are stolen by the other."""
    root = client.submit(millstream.go("linspace"), 0, 1, 1 << 18, workers=[a], pure=False)
    distributed.wait(root)
    slow = [client.submit(millstream.go("pause"), 0.1, root, pure=False) for _ in range(30)]
    distributed.wait(slow)
    where = client.who_has(slow)
    check("both ran some", {w for f in slow for w in where[f.key]}, {a, b})


def get(url):
    with urllib.request.urlopen(url, timeout=120) as r:
        return r.status, r.read().decode()


def update_all(dask_scheduler):
    """Create each component of the dashboard and update it, as an open page does twice a second."""
    import inspect

    from distributed.dashboard.components import DashboardComponent, scheduler

    done, failed = [], {}
    for name, part in inspect.getmembers(scheduler, inspect.isclass):
        # Those of GPUs need a library that may be missing, some others have arguments of their own. Plots of graphs fail
        # in Dask once tasks were scattered or forgotten, and do not depend on workers.
        if "GPU" in name or "RMM" in name or "Graph" in name or name in ("Hardware", "Events", "ProfileServer", "ProfileTimePlot"):
            continue
        if not issubclass(part, DashboardComponent) or part is DashboardComponent:
            continue
        try:
            made = part(dask_scheduler)
            made.update()
            made.update()
            done.append(name)
        except Exception as e:
            failed[name] = repr(e)
    return done, failed


def pages(client, dashboard, worker):
    """Check the dashboard with Go workers in the cluster."""
    done, failed = client.run_on_scheduler(update_all)
    check("components that fail", failed, {})
    check("components of the dashboard", len(done) > 20 and "WorkerTable" in done)
    name = urllib.parse.quote(worker, "")
    # Not /json/identity.json and /sitemap.json: they fail in Dask even without Go workers.
    for page in ["/status", "/workers", "/tasks", "/system", "/profile", "/info/main/workers.html",
                 f"/info/worker/{name}.html", f"/info/logs/{name}.html", f"/info/call-stacks/{name}.html", "/info/main/logs.html",
                 "/health", "/json/counts.json", "/individual-plots.json", "/metrics"]:
        _, text = attempt(page, lambda page=page: get(f"http://{dashboard}{page}"), lambda r: r[0] == 200) or (0, "")
        if page.endswith("workers.html"):
            check(page + " names the worker", worker in text)


def retire(client, a, b):
    """Check that a retired worker moves its data."""
    only = client.submit(millstream.go("upper"), "kept", workers=[b], pure=False)
    distributed.wait(only)
    client.retire_workers([b])
    until("retired", lambda: b not in client.scheduler_info(n_workers=-1)["workers"])
    check("its data is on another worker", only.result(), "KEPT")
    check("not on it", b not in client.who_has(only)[only.key])
    check("the other continues", client.submit(millstream.go("upper"), "on", pure=False).result(), "ON")


run(main)
