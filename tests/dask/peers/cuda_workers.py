"""The workers of `dask cuda worker`, on a machine without a GPU: what dask-cuda asks of a scheduler.

Arguments: the scheduler's address, and the protocol.
"""

import os
import sys

import distributed
from checks import attempt, check, run, until
from dask_cuda import plugins, utils


def workers(client):
    return client.scheduler_info(n_workers=-1)["workers"]


def names(dask_worker):
    return sorted(type(p).__name__ for p in dask_worker.plugins.values())


def preloads(dask_worker):
    return [p.name for p in dask_worker.preloads]


def main(client):
    client.wait_for_workers(2, timeout=120)
    check("dask-cuda's own wait", utils.wait_workers(client, min_timeout=60, n_gpus=2))
    by_name = {w["name"]: (address, w) for address, w in workers(client).items()}
    check("one worker per device", sorted(by_name), ["gpu-0", "gpu-1"])
    first = by_name["gpu-0"][0]
    check("with a nanny each", len({w["nanny"] for _, w in by_name.values()}), 2)
    check("resources", [w["resources"] for _, w in by_name.values()], [{"GPU": 1.0}] * 2)
    check("threads", [w["nthreads"] for _, w in by_name.values()], [1, 1])
    visible = client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
    check("devices", sorted(visible.values()), ["0,1", "1,0"])
    check("plugins", set(map(tuple, client.run(names).values())), lambda g: all({"PreImport", "CUDFSetup"} <= set(x) for x in g))
    check("pre-import", set(client.run(lambda: "colorsys" in sys.modules).values()), {True})
    check("preload", set(map(tuple, client.run(preloads).values())), {("dask_cuda.initialize",)})
    placed(client, first)
    affinity(client)
    configuration(client)
    figures(client)
    restart(client)


def placed(client, first):
    """Tasks by resource, data between all workers, and memory as dask-cuda's own checks move it."""
    futures = client.map(lambda x: x + 1, range(20), resources={"GPU": 1}, pure=False)
    check("tasks of a GPU", client.gather(futures), list(range(1, 21)))
    f = client.submit(lambda: distributed.get_worker().name, workers=["gpu-1"], pure=False)
    check("by name", f.result(), "gpu-1")
    attempt("all to all", lambda: utils.all_to_all(client))
    [data] = client.scatter([b"x" * 1_000_000], workers=[first])
    client.replicate([data], n=2)
    until("replicas", lambda: len(client.who_has(data)[data.key]) == 2)


def affinity(client):
    """The plugin that binds a worker to the cores of its device, as a user adds it."""
    core = min(os.sched_getaffinity(0))
    client.register_plugin(plugins.CPUAffinity([core]), name="affinity")
    check("affinity", set(client.run(lambda: tuple(os.sched_getaffinity(0))).values()), {(core,)})
    client.unregister_worker_plugin("affinity")
    check("gone", any("CPUAffinity" in n for n in client.run(names).values()), False)


def configuration(client):
    """`dask cuda config`: it asks the scheduler and each worker."""
    got = attempt("configuration", lambda: utils.get_cluster_configuration(client)) or {}
    check("silence", got.get("distributed.scheduler.worker-ttl"), 300)
    check("extensions", {"shuffle", "stealing", "variables"} <= set(got.get("active-extensions", ())))
    check("protocol", got.get("protocol"), sys.argv[2])
    # How many workers it counts depends on when the client has last looked, with Dask's scheduler too.
    check("workers", "nworkers" in got and "nthreads" in got)


def figures(client):
    """A GPU's figures as Dask's workers send them: what it is when they register, its load with each heartbeat. Here
    they are made up by a task, since there is none."""

    def load(dask_worker):
        async def gpu(worker):
            return {"utilization": 12, "memory-used": 345}

        dask_worker.metrics["gpu"] = gpu

    client.run(load)
    until("heartbeats", lambda: all(w["metrics"].get("gpu") == {"utilization": 12, "memory-used": 345} for w in workers(client).values()))
    check("seen in the scheduler", client.run_on_scheduler(lambda dask_scheduler: {w.metrics["gpu"]["utilization"] for w in dask_scheduler.workers.values()}), {12})


def restart(client):
    before = set(client.run(os.getpid).values())
    client.restart(timeout=240)
    client.wait_for_workers(2, timeout=240)
    check("other processes", before.isdisjoint(client.run(os.getpid).values()))
    check("plugins again", set(map(tuple, client.run(names).values())), lambda g: all({"PreImport", "CUDFSetup"} <= set(x) for x in g))
    check("devices again", sorted(client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]).values()), ["0,1", "1,0"])
    check("afterwards", client.submit(lambda x: x + 1, 1, resources={"GPU": 1}).result(), 2)
    until("nothing is left to move", lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    client.retire_workers(list(workers(client)))
    until("retired", lambda: not workers(client))


run(main)
