"""All methods of Client that need no graph, against a scheduler with one Dask worker under a nanny."""

import os
import pathlib
import sys
import tempfile
import zipfile

from checks import attempt, check, raises, run, until

# Modules of the tests are not on the path of workers and helpers.
import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(client):
    client.wait_for_workers(1)
    (worker,) = client.scheduler_info(n_workers=-1)["workers"]
    about(client, worker)
    on_scheduler(client, worker)
    reports(client)
    events(client, worker)
    plugins(client, worker)
    (worker,) = client.nthreads()  # restarted by Environ
    files(client)
    data(client, worker)
    restarts(client, worker)


def about(client, worker):
    import distributed

    info = client.scheduler_info(n_workers=-1)
    check("scheduler_info", info["type"], "Scheduler")
    check("worker", info["workers"][worker]["nthreads"], 2)
    attempt("dashboard_link", lambda: client.dashboard_link, lambda g: g.startswith("http://"))
    attempt("repr", lambda: repr(client), lambda g: "Client" in g)
    attempt("html repr", client._repr_html_, lambda g: "Scheduler" in g)
    attempt("nthreads", client.nthreads, {worker: 2})
    attempt("ncores", client.ncores, {worker: 2})
    attempt("processing", client.processing, {worker: ()})
    attempt("has_what", client.has_what, {worker: ()})
    attempt("who_has", client.who_has, {})
    attempt("nbytes", client.nbytes, {})
    attempt("call_stack", client.call_stack, lambda g: dict(g) in ({}, {worker: {}}))
    attempt("story", lambda: client.story("no-such-key"), lambda g: g in ((), []))
    attempt("get_versions", lambda: client.get_versions(check=False), lambda g: worker in g["workers"] and g["client"]["packages"]["distributed"] == distributed.__version__)
    attempt("get_versions checked", lambda: client.get_versions(check=True, packages=["sys"]))
    attempt("get_scheduler_logs", client.get_scheduler_logs, lambda g: len(g) > 0)
    attempt("get_worker_logs", client.get_worker_logs, lambda g: worker in g)
    attempt("get_nanny_logs", lambda: client.get_worker_logs(nanny=True), lambda g: worker in g)
    attempt("get_task_stream", client.get_task_stream, lambda g: len(g) == 0)
    with tempfile.TemporaryDirectory() as d:
        attempt("write_scheduler_file", lambda: client.write_scheduler_file(os.path.join(d, "s.json")))
        check("scheduler file", "tcp" in pathlib.Path(d, "s.json").read_text() or "://" in pathlib.Path(d, "s.json").read_text())


def on_scheduler(client, worker):
    run = client.run_on_scheduler
    attempt("run_on_scheduler", lambda: run(lambda x, y=0: x + y, 1, y=2), 3)
    attempt("address", lambda: run(lambda dask_scheduler: dask_scheduler.address), client.scheduler.address)
    attempt("workers", lambda: run(lambda dask_scheduler: [(w.address, w.nthreads) for w in dask_scheduler.workers.values()]), [(worker, 2)])
    attempt("identity", lambda: run(lambda dask_scheduler: dask_scheduler.identity()["type"]), "Scheduler")
    attempt("no tasks", lambda: run(lambda dask_scheduler: len(dask_scheduler.tasks)), 0)
    attempt("clients", lambda: run(lambda dask_scheduler: list(dask_scheduler.clients)), lambda g: client.id in g)

    def keep(dask_scheduler):
        dask_scheduler.mine = getattr(dask_scheduler, "mine", 0) + 1
        return dask_scheduler.mine

    attempt("first", lambda: run(keep), 1)
    attempt("attributes are kept", lambda: run(keep), 2)

    async def later(dask_scheduler):
        import asyncio

        await asyncio.sleep(0.01)
        dask_scheduler.log_event("from-scheduler", {"n": 1})
        return "async"

    attempt("coroutine", lambda: run(later), "async")
    attempt("log_event", lambda: client.get_events("from-scheduler"), lambda g: g[0][1] == {"n": 1})
    raises("an error of the function", ZeroDivisionError, lambda: run(lambda: 1 / 0), "division by zero")
    raises("an extension", NotImplementedError, lambda: run(lambda dask_scheduler: dask_scheduler.extensions["shuffle"]), "Go")
    check("names of extensions", run(lambda dask_scheduler: "shuffle" in dask_scheduler.extensions and "spans" not in dask_scheduler.extensions))
    check("worker_ttl", run(lambda dask_scheduler: dask_scheduler.worker_ttl), 300)
    raises("no such thing", AttributeError, lambda: run(lambda dask_scheduler: dask_scheduler.nonsense), "nonsense")

    raises("no such attribute of a worker", AttributeError, lambda: run(lambda dask_scheduler: [w.color for w in dask_scheduler.workers.values()]), "it has actors")
    future = client.submit(lambda: 1, key="facade-0")
    future.result(60)
    raises("no such attribute of a task", AttributeError, lambda: run(lambda dask_scheduler: dask_scheduler.tasks["facade-0"].color), "it has actor")
    raises("an extension that is not there", KeyError, lambda: run(lambda dask_scheduler: dask_scheduler.extensions["spans"]), "Millstream")
    for n in range(1, 11):  # a call sees everything before it, even after a recent call
        run(lambda dask_scheduler: len(dask_scheduler.tasks))
        future = client.submit(lambda: 1, key=f"facade-{n}")
        future.result(60)
        attempt(f"fresh {n}", lambda n=n: run(lambda dask_scheduler: dask_scheduler.tasks[f"facade-{n}"].state), "memory")
    attempt("story of a future", lambda: [len(client.story(x)) > 0 for x in (future, future.key)], [False, True])
    future.release()

    def memory():
        return b"x" * 3_000_000

    attempt("a large result", lambda: len(run(memory)), 3_000_000)

    def die():
        os._exit(7)

    raises("a function that ends its process", Exception, lambda: run(die))
    attempt("and the next one", lambda: run(lambda: 1), 1)


def reports(client):
    from distributed import get_task_stream, performance_report

    def report():
        with tempfile.TemporaryDirectory() as d:
            name = os.path.join(d, "report.html")
            with performance_report(filename=name):
                client.submit(lambda: 1, key="reported-0").result()
            with open(name) as f:
                text = f.read()
            return text.startswith("<!doctype html>") and 'id="data"' in text

    attempt("performance_report", report, True)

    def stream():
        with get_task_stream() as ts:
            client.submit(lambda: 1, key="streamed-0").result()
        return [t["key"] for t in ts.data]

    attempt("get_task_stream of a block", stream, ["streamed-0"])

    def plot():
        with tempfile.TemporaryDirectory() as d:
            name = os.path.join(d, "stream.html")
            with get_task_stream(plot="save", filename=name) as ts:
                client.submit(lambda: 1, key="plotted-0").result()
            return os.path.getsize(name) > 0 and len(ts.data)

    attempt("get_task_stream in a file", plot, 1)


def events(client, worker):
    got = []
    client.subscribe_topic("topic", got.append)
    attempt("log_event to a topic", lambda: client.log_event("topic", {"n": 1}))
    # The subscription and the event take different ways, and earlier events are not delivered.
    until("an event arrives", lambda: client.log_event("topic", {"n": 1}) or got)
    check("the event", got[0][1] if got else None, {"n": 1})
    client.unsubscribe_topic("topic")
    attempt("events of workers", lambda: client.get_events(worker), lambda g: len(g) > 0)
    attempt("all events", client.get_events, lambda g: "topic" in g)
    client.run(lambda dask_worker: dask_worker.log_event("from-worker", {"n": 2}))
    until("an event of a worker", lambda: any(e[1].get("n") == 2 for e in client.get_events("from-worker")))
    attempt("set_metadata", lambda: client.set_metadata(["a", "b"], 7))
    attempt("get_metadata", lambda: client.get_metadata(["a"]), {"b": 7})
    raises("get_metadata of nothing", KeyError, lambda: client.get_metadata(["z"]))
    with distributed_metadata() as tasks:
        pass
    check("get_task_metadata", (tasks.metadata, tasks.state), ({}, {}))


def distributed_metadata():
    from distributed import get_task_metadata

    return get_task_metadata()


def plugins(client, worker):
    from distributed import NannyPlugin, WorkerPlugin
    from distributed.diagnostics.plugin import Environ

    class Plugin(WorkerPlugin):
        name = "mine"

        def setup(self, worker):
            worker.mine = 1

        def teardown(self, worker):
            worker.mine = 2

    class Bad(WorkerPlugin):
        def setup(self, worker):
            raise ValueError("bad plugin")

    class Nannies(NannyPlugin):
        name = "nannies"

        def setup(self, nanny):
            nanny.mine = 3

    mine = lambda dask_worker: getattr(dask_worker, "mine", 0)  # noqa: E731
    attempt("register_plugin", lambda: client.register_plugin(Plugin()), lambda g: g[worker]["status"] == "OK")
    attempt("plugin has run", lambda: client.run(mine), {worker: 1})
    attempt("unregister_worker_plugin", lambda: client.unregister_worker_plugin("mine"), lambda g: g[worker]["status"] == "OK")
    attempt("plugin is gone", lambda: client.run(mine), {worker: 2})
    raises("a plugin that fails", ValueError, lambda: client.register_plugin(Bad(), name="bad"), "bad plugin")
    attempt("the bad one goes", lambda: client.unregister_worker_plugin("bad"))
    raises("a plugin that is not there", ValueError, lambda: client.unregister_worker_plugin("none"), "does not exist")
    attempt("worker callbacks", lambda: client.register_worker_callbacks(lambda dask_worker: setattr(dask_worker, "mine", 9)))
    attempt("callback has run", lambda: client.run(mine), {worker: 9})
    attempt("nanny plugin", lambda: client.register_plugin(Nannies()))
    attempt("nanny plugin has run", lambda: client.run(lambda dask_worker: dask_worker.mine, nanny=True), {worker: 3})
    attempt("Environ", lambda: client.register_plugin(Environ({"MILLSTREAM_TEST": "7"})))
    client.wait_for_workers(1, timeout=60)  # nannies stop waiting for a worker after a timeout
    attempt("shuffle plugin", lambda: list(client.run(lambda dask_worker: "shuffle" in dask_worker.plugins).values()), [True])


def files(client):
    with tempfile.TemporaryDirectory() as d:
        path = pathlib.Path(d, "uploaded_module.py")
        path.write_text("x = 123\n")
        attempt("upload_file", lambda: client.upload_file(str(path)))

        def use():
            import uploaded_module

            return uploaded_module.x

        attempt("uploaded file", lambda: list(client.run(use).values()), [123])
        attempt("uploaded file on the scheduler", lambda: client.run_on_scheduler(use), 123)
        path.write_text("x = 124\n")
        attempt("upload_file again", lambda: client.upload_file(str(path)))
        attempt("newer file", lambda: list(client.run(use).values()) + [client.run_on_scheduler(use)], [124, 124])
        path = pathlib.Path(d, "uploaded_package.zip")
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("uploaded_package/__init__.py", "y = 5\n")
        attempt("upload_file of an archive", lambda: client.upload_file(str(path)))
        attempt("archive", lambda: client.run_on_scheduler(lambda: __import__("uploaded_package").y), 5)
    installed(client)


def installed(client):
    from distributed.diagnostics.plugin import InstallPlugin

    attempt("InstallPlugin", lambda: client.register_plugin(InstallPlugin(lambda: os.environ.update(MILLSTREAM_INSTALLED="8"), False), name="install"))
    attempt("installed", lambda: list(client.run(lambda: os.environ.get("MILLSTREAM_INSTALLED")).values()), ["8"])


def data(client, worker):
    import numpy as np

    x = client.scatter(np.arange(5))
    attempt("gather", lambda: client.gather(x).sum(), 10)
    attempt("gather through the scheduler", lambda: client.gather(x, direct=False).sum(), 10)
    attempt("who_has of data", lambda: client.who_has([x]), lambda g: [list(v) for v in g.values()] == [[worker]])
    attempt("nbytes of data", lambda: client.nbytes(summary=False), lambda g: list(g) == [x.key])
    attempt("tasks on the scheduler", lambda: client.run_on_scheduler(
        lambda dask_scheduler: [(k, t.state, len(t.who_has), t.nbytes) for k, t in dask_scheduler.tasks.items()]), [(x.key, "memory", 1, 40)])
    attempt("replicate", lambda: client.replicate([x]))
    attempt("rebalance", client.rebalance)
    attempt("publish", lambda: client.publish_dataset(x=x, y=[1, 2]))
    attempt("list", lambda: sorted(client.list_datasets()), ["x", "y"])
    attempt("dataset", lambda: client.get_dataset("x").result().sum(), 10)
    attempt("plain dataset", lambda: client.datasets["y"], [1, 2])
    raises("no dataset", KeyError, lambda: client.get_dataset("none"))
    attempt("default", lambda: client.get_dataset("none", default=3), 3)
    raises("published earlier", KeyError, lambda: client.publish_dataset(x=1))
    attempt("unpublish", lambda: [client.unpublish_dataset(n) for n in ("x", "y")])
    attempt("cancel", lambda: client.cancel([x]))
    until("cancelled", lambda: x.cancelled())


def restarts(client, worker):
    before = client.run(os.getpid)
    attempt("restart_workers", lambda: client.restart_workers([worker], timeout=240), lambda g: list(g.values()) == ["OK"])
    client.wait_for_workers(1, timeout=60)
    after = client.run(os.getpid)
    check("another process", set(before.values()) != set(after.values()))
    attempt("plugins after a restart", lambda: list(client.run(lambda: os.environ.get("MILLSTREAM_TEST")).values()), ["7"])
    attempt("files after a restart", lambda: list(client.run(lambda: __import__("uploaded_module").x).values()), [124])
    attempt("callbacks after a restart", lambda: list(client.run(lambda dask_worker: dask_worker.mine).values()), [9])
    attempt("restart", lambda: client.restart(timeout=240))
    check("workers are back", len(client.nthreads()), 1)
    attempt("retire_workers", lambda: client.retire_workers(), lambda g: len(g) == 1)
    until("no worker is left", lambda: not client.nthreads())
    attempt("shutdown", client.shutdown)


run(main)
