"""Workers of `dask cuda worker` on a machine without a GPU: what dask-cuda needs from a scheduler.

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
    check("wait of dask-cuda", utils.wait_workers(client, min_timeout=60, n_gpus=2))
    by_name = {w["name"]: (address, w) for address, w in workers(client).items()}
    check("one worker per device", sorted(by_name), ["gpu-0", "gpu-1"])
    first = by_name["gpu-0"][0]
    check("each with a nanny", len({w["nanny"] for _, w in by_name.values()}), 2)
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
    """Check tasks by resource, transfers between all workers, and memory as in the tests of dask-cuda."""
    futures = client.map(lambda x: x + 1, range(20), resources={"GPU": 1}, pure=False)
    check("tasks with a GPU", client.gather(futures), list(range(1, 21)))
    f = client.submit(lambda: distributed.get_worker().name, workers=["gpu-1"], pure=False)
    check("by name", f.result(), "gpu-1")
    attempt("all to all", lambda: utils.all_to_all(client))
    [data] = client.scatter([b"x" * 1_000_000], workers=[first])
    client.amm.stop()  # it would drop a replica
    client.replicate([data], n=2)
    until("replicas", lambda: len(client.who_has(data)[data.key]) == 2)


def affinity(client):
    """Check the plugin that binds a worker to the cores of its device, as a user adds it."""
    core = min(os.sched_getaffinity(0))
    client.register_plugin(plugins.CPUAffinity([core]), name="affinity")
    check("affinity", set(client.run(lambda: tuple(os.sched_getaffinity(0))).values()), {(core,)})
    client.unregister_worker_plugin("affinity")
    check("gone", any("CPUAffinity" in n for n in client.run(names).values()), False)


def configuration(client):
    """Check `dask cuda config`, which queries the scheduler and each worker."""
    got = attempt("configuration", lambda: utils.get_cluster_configuration(client)) or {}
    check("silence", got.get("distributed.scheduler.worker-ttl"), 300)
    check("extensions", {"shuffle", "stealing", "variables"} <= set(got.get("active-extensions", ())))
    check("protocol", got.get("protocol"), sys.argv[2])
    # The number of workers depends on when the client last updated its state, on the Dask scheduler, too.
    check("workers", "nworkers" in got and "nthreads" in got)


def figures(client):
    """Check the GPU metrics of Dask workers: the device at registration, its load with each heartbeat. A task sets them,
    because there is no GPU."""

    def load(dask_worker):
        async def gpu(worker):
            return {"utilization": 12, "memory-used": 345}

        dask_worker.metrics["gpu"] = gpu

    client.run(load)
    until("heartbeats", lambda: all(w["metrics"].get("gpu") == {"utilization": 12, "memory-used": 345} for w in workers(client).values()))
    check("visible on the scheduler", client.run_on_scheduler(lambda dask_scheduler: {w.metrics["gpu"]["utilization"] for w in dask_scheduler.workers.values()}), {12})


def restart(client):
    before = set(client.run(os.getpid).values())
    client.restart(timeout=240)
    client.wait_for_workers(2, timeout=240)
    check("other processes", before.isdisjoint(client.run(os.getpid).values()))
    check("plugins again", set(map(tuple, client.run(names).values())), lambda g: all({"PreImport", "CUDFSetup"} <= set(x) for x in g))
    check("devices again", sorted(client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]).values()), ["0,1", "1,0"])
    check("afterwards", client.submit(lambda x: x + 1, 1, resources={"GPU": 1}).result(), 2)
    until("nothing left to move", lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    client.retire_workers(list(workers(client)))
    until("retired", lambda: not workers(client))


run(main)
