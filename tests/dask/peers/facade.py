"""The dask_scheduler argument of functions: state and methods, with two Dask workers of one thread."""

import sys
import time

from checks import check, raises, run, until

# Modules of the tests are not on the path of workers and helpers.
import cloudpickle
import dask

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(client):
    client.wait_for_workers(2)
    idle(client)
    busy(client)
    annotated(client)
    methods(client)


def on(client, function, *args, **kwargs):
    return client.run_on_scheduler(function, *args, **kwargs)


def idle(client):
    workers = sorted(client.nthreads())
    check("idle", on(client, lambda dask_scheduler: sorted(dask_scheduler.idle)), workers)
    for name in ("saturated", "unrunnable", "replicated_tasks"):
        check(name, on(client, lambda dask_scheduler, name=name: len(getattr(dask_scheduler, name))), 0)
    check("queued", on(client, lambda dask_scheduler: list(dask_scheduler.queued)), [])
    check("resources", on(client, lambda dask_scheduler: dask_scheduler.resources), {"A": dict.fromkeys(workers, 2)})
    check("host_info", on(client, lambda dask_scheduler: dask_scheduler.host_info["127.0.0.1"]["nthreads"]), 2)
    check("memory", on(client, lambda dask_scheduler: dask_scheduler.memory.process), lambda n: n > 10_000_000)
    check("bandwidth", on(client, lambda dask_scheduler: dask_scheduler.bandwidth), lambda n: n > 0)
    check("plugins", on(client, lambda dask_scheduler: dict(dask_scheduler.plugins)), {})

    def statuses(dask_scheduler):
        from distributed.core import Status

        return [(w.status == Status.running, w.status == "running", w.status.name, w.status in {Status.running}) for w in dask_scheduler.workers.values()]

    check("status", on(client, statuses), [(True, True, "running", True)] * 2)
    check("status for the client", on(client, lambda dask_scheduler: {w.status for w in dask_scheduler.running}), {"running"})

    async def loop(dask_scheduler):
        import asyncio

        return dask_scheduler.loop is asyncio.get_running_loop()

    check("loop", on(client, loop))


def busy(client):
    def inc(x):
        return x + 1

    def block(x, name):
        from distributed import Event

        Event(name).wait(60)
        return x

    from distributed import Event

    event = Event("go-on")
    x = client.submit(inc, 1, key="inc-0")
    x.result(60)
    slow = [client.submit(block, x, "go-on", key=("slow", i), workers=[w]) for i, w in enumerate(client.nthreads())]
    last = client.submit(sum, slow, key="sum-1")
    until("both run", lambda: on(client, lambda dask_scheduler: sum(len(w.processing) for w in dask_scheduler.workers.values())) == 2)

    def look(dask_scheduler):
        tasks = dask_scheduler.tasks
        x, last, one = tasks["inc-0"], tasks["sum-1"], tasks[("slow", 0)]
        w = one.processing_on
        return {
            "waiting_on": sorted(t.key for t in last.waiting_on),
            "waiters": len(x.waiters),
            "dependents": len(x.dependents),
            "type": x.type,
            "processing": [t.key for t in w.processing] == [one.key],
            "has_what": any("inc-0" in [t.key for t in v.has_what] for v in dask_scheduler.workers.values()),
            "prefix": w.task_prefix_count,
            "groups": sorted(dask_scheduler.task_groups),
            "group": (one.group.name, len(one.group), one.group.states["processing"]),
            "prefixes": {name: p.states["processing"] for name, p in dask_scheduler.task_prefixes.items()},
            "of prefix": [g.name for g in one.prefix.groups],
            "active": [g.name for g in one.prefix.active],
            "group dependencies": sorted(g.name for g in last.group.dependencies),
            "wants": len(list(last.who_wants)[0].wants_what),
            "idle": len(dask_scheduler.idle),
            "n_tasks": dask_scheduler.n_tasks,
            "nbytes": x.get_nbytes() > 0,
            "worker memory": w.memory.optimistic <= w.memory.process,
            "repr": repr(one.group),
        }

    got = on(client, look)
    want = {
        "waiting_on": [("slow", 0), ("slow", 1)], "waiters": 2, "dependents": 2, "type": "int", "processing": True,
        "has_what": True, "prefix": {"slow": 1}, "groups": ["inc", "slow", "sum"], "group": ("slow", 2, 2),
        "prefixes": {"inc": 0, "slow": 2, "sum": 0}, "of prefix": ["slow"], "active": ["slow"],
        "group dependencies": ["slow"], "wants": 4, "idle": 0, "n_tasks": 4, "nbytes": True, "worker memory": True,
        "repr": "<slow: processing: 2>",
    }
    for name, value in want.items():
        check(name, got[name], value)
    event.set()
    check("the result", last.result(60), 4)
    log = on(client, lambda dask_scheduler: [(t.key, t.start, t.finish) for t in dask_scheduler.transition_log if t.key == "inc-0"])
    check("transition_log", log, [("inc-0", "released", "waiting"), ("inc-0", "waiting", "processing"), ("inc-0", "processing", "memory")])
    check("story", on(client, lambda dask_scheduler: [t.finish for t in dask_scheduler.story("inc-0")]), ["waiting", "processing", "memory"])
    check("story of a task", on(client, lambda dask_scheduler: len(dask_scheduler.story(dask_scheduler.tasks["inc-0"]))), 3)
    check("transition_log for the client", on(client, lambda dask_scheduler: dask_scheduler.transition_log), lambda log: type(log[0]) is tuple)
    on(client, lambda dask_scheduler: dask_scheduler.transition_log.clear())
    check("a cleared log", on(client, lambda dask_scheduler: len(dask_scheduler.transition_log)), 0)
    counter = on(client, lambda dask_scheduler: dask_scheduler.transition_counter)
    check("transition_counter", counter, lambda n: n >= 10)
    bad = client.submit(lambda: 1 / 0, key="bad-0")
    until("an error", lambda: bad.status == "error")
    failed = on(client, lambda dask_scheduler: [(t.exception_text, len(t.erred_on), t.exception_blame.key) for t in [dask_scheduler.tasks["bad-0"]]])
    check("an erred task", failed, [("ZeroDivisionError('division by zero')", 1, "bad-0")])


def annotated(client):
    worker = sorted(client.nthreads())[0]
    with dask.annotate(workers=[worker], resources={"A": 1}, note="mine", allow_other_workers=False):
        d = dask.delayed(lambda: time.sleep(0.01))(dask_key_name="note-0")
        future = client.persist(d, optimize_graph=False)
    until("it is done", lambda: client.futures["note-0"].done())

    def look(dask_scheduler):
        t = dask_scheduler.tasks["note-0"]
        valid = dask_scheduler.valid_workers(t)
        return t.annotations.get("note"), t.worker_restrictions, t.resource_restrictions, t.loose_restrictions, sorted(w.address for w in valid)

    check("annotations", on(client, look), ("mine", {worker}, {"A": 1}, False, [worker]))
    plain = client.submit(lambda: 1, key="plain-0")
    plain.result(60)
    check("no restrictions", on(client, lambda dask_scheduler: dask_scheduler.valid_workers(dask_scheduler.tasks["plain-0"])), None)
    del future


def methods(client):
    client.amm.stop()  # it would drop the replica
    workers = sorted(client.nthreads())
    data = client.scatter(b"data")
    check("get_ncores", on(client, lambda dask_scheduler: dask_scheduler.get_ncores()), dict.fromkeys(workers, 1))
    check("get_who_has", on(client, lambda k, dask_scheduler: len(dask_scheduler.get_who_has([k])[k]), data.key), 1)
    check("get_has_what", on(client, lambda k, dask_scheduler: sum(k in v for v in dask_scheduler.get_has_what().values()), data.key), 1)
    check("get_processing", on(client, lambda dask_scheduler: sum(map(len, dask_scheduler.get_processing().values()))), 0)
    check("get_nbytes", on(client, lambda k, dask_scheduler: dask_scheduler.get_nbytes([k], summary=False)[k], data.key), lambda n: n > 0)
    check("get_task_status", on(client, lambda k, dask_scheduler: dask_scheduler.get_task_status([k])[k], data.key), "memory")
    check("adaptive_target", on(client, lambda dask_scheduler: dask_scheduler.adaptive_target()), lambda n: n >= 0)
    check("workers_to_close", on(client, lambda dask_scheduler: len(dask_scheduler.workers_to_close(n=1))), 1)
    raises("key of workers_to_close", NotImplementedError, lambda: on(client, lambda dask_scheduler: dask_scheduler.workers_to_close(n=1, key=id)), "key")
    raises("a wrong argument", ValueError, lambda: on(client, lambda dask_scheduler: dask_scheduler.workers_to_close(memory_ratio=-1)), "memory_ratio")

    async def replicate(key, dask_scheduler):
        await dask_scheduler.replicate(keys=[key], n=2)
        return len(dask_scheduler.tasks[key].who_has), len(dask_scheduler.replicated_tasks)

    check("replicate", on(client, replicate, data.key), (2, 1))

    async def retire(dask_scheduler):
        (one, *_) = dask_scheduler.workers_to_close(n=1)
        info = await dask_scheduler.retire_workers(workers=[one], close_workers=True)
        return list(info) == [one], len(dask_scheduler.workers), one

    ok, left, gone = on(client, retire)
    check("retire_workers", (ok, left), (True, 1))
    check("the data", client.gather(data), b"data")

    async def remove(dask_scheduler):
        (w,) = dask_scheduler.workers
        return await dask_scheduler.remove_worker(w, stimulus_id="x", close=True), len(dask_scheduler.workers)

    check("remove_worker", on(client, remove), ("OK", 0))


run(main)
