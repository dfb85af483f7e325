"""Memory of the cluster and dumps of its state: Client.amm, MemorySampler, benchmark_hardware, dump_cluster_state."""

import os
import tempfile
import time

from checks import attempt, check, raises, run, until

from distributed import Event, wait
from distributed.cluster_dump import DumpArtefact
from distributed.diagnostics import MemorySampler


def main(client):
    client.wait_for_workers(2)
    manager(client)
    sampler(client)
    hardware(client)
    dump(client)


def replicas(client, future):
    return len(client.who_has([future])[future.key])


def manager(client):
    check("the manager runs by default", client.amm.running(), True)
    client.amm.stop()
    check("it stops", client.amm.running(), False)
    future = client.scatter(b"x" * 1000)
    for n in range(3):  # again and again: the key is the same
        client.replicate([future])
        check(f"two replicas, {n}", replicas(client, future), 2)
        client.amm.run_once()
        until(f"one replica, {n}", lambda: replicas(client, future) == 1)
        check(f"the value, {n}", client.gather(future), b"x" * 1000)
    client.replicate([future])
    client.amm.start()
    client.amm.start()  # a second start changes nothing
    check("it runs again", client.amm.running(), True)
    until("the periodic run drops a replica", lambda: replicas(client, future) == 1)

    # Replicas that tasks need stay, and those that they have fetched go afterwards.
    data = client.scatter(bytes(1000))
    workers = list(client.nthreads())

    def use(x):
        Event("used").wait(120)
        return len(x)

    tasks = [client.submit(use, data, workers=[w], pure=False) for w in workers]
    until("both workers have fetched the data", lambda: replicas(client, data) == 2)
    client.amm.run_once()
    check("replicas of running tasks stay", replicas(client, data), 2)
    Event("used").set()
    check("their results", client.gather(tasks), [1000, 1000])
    until("and are dropped afterwards", lambda: replicas(client, data) == 1)


def sampler(client):
    ms = MemorySampler()

    def sample(name, interval):
        """Replace the samples of a measure by those of half a second."""
        with ms.sample(name, measure=name, interval=interval):
            time.sleep(0.5)
        return ms.samples[name]

    until("samples", lambda: len(sample("process", 0.05)) >= 4)
    future = client.submit(lambda: bytes(50_000_000), pure=False)
    wait(future)
    # Heartbeats report the memory.
    until("bytes of results", lambda: max(n for _, n in sample("managed", 0.1)) >= 50_000_000)
    check("bytes of processes", all(n > 10_000_000 for _, n in ms.samples["process"]))
    check("times increase", ms.samples["process"], lambda s: list(s) == sorted(s) and abs(s[-1][0] - time.time()) < 60)
    frame = attempt("to_pandas", ms.to_pandas, lambda f: set(f.columns) == {"process", "managed"})
    for measure in ("managed_total", "spilled", "unmanaged", "unmanaged_old", "unmanaged_recent", "optimistic"):
        with ms.sample(measure, measure=measure):
            pass
        check(f"measure {measure}", ms.samples[measure], lambda s: len(s) >= 1 and s[0][1] >= 0)

    def unknown():
        with ms.sample("x", measure="color"):
            raise RuntimeError("not reached")

    raises("unknown measure", AttributeError, unknown, "color")


def hardware(client):
    got = client.benchmark_hardware()
    check("kinds", set(got), {"disk", "memory", "network"})
    for kind, sizes in got.items():
        check(f"{kind}", sizes, lambda s: len(s) >= 5 and all(v > 0 for v in s.values()))


def dump(client):
    def inc(x):
        return x + 1

    futures = client.map(inc, range(3), pure=False)
    total = client.submit(sum, futures, pure=False)
    bad = client.submit(lambda: 1 / 0, key="bad")
    wait([total, bad])
    worker = client.nthreads()
    with tempfile.TemporaryDirectory() as d:
        for suffix, form in ((".msgpack.gz", "msgpack"), (".yaml", "yaml")):
            name = os.path.join(d, "dump")
            client.dump_cluster_state(name, format=form)
            a = DumpArtefact.from_url(name + suffix)
            check(f"{form}: parts", set(a), {"scheduler", "workers", "versions"})
            memory = {t["key"] for t in a.scheduler_tasks_in_state("memory")}
            check(f"{form}: tasks in memory", {f.key for f in [*futures, total]} <= memory)
            erred = a.scheduler_tasks_in_state("erred")
            check(f"{form}: erred tasks", [t["key"] for t in erred], ["bad"])
            check(f"{form}: exception", "ZeroDivisionError" in str(erred[0]["exception_text"]))
            check(f"{form}: tasks of workers", total.key in {t["key"] for t in a.worker_tasks_in_state("memory")})
            story = a.scheduler_story(total.key)
            check(f"{form}: story", story[total.key], lambda s: len(s) >= 3 and s[0][1] == "released")
            check(f"{form}: story of workers", total.key in a.worker_story(total.key))
            check(f"{form}: missing workers", a.missing_workers(), [])
            check(f"{form}: workers", set(a["scheduler"]["workers"]), set(worker))
            t = a["scheduler"]["tasks"][total.key]
            check(f"{form}: dependencies", len(t["dependencies"]), 3)
            check(f"{form}: holders", t["who_has"], lambda w: len(w) >= 1)
            check(f"{form}: versions", "packages" in a["versions"]["scheduler"])
            a.to_yamls(os.path.join(d, form))
            check(f"{form}: to_yamls", os.path.exists(os.path.join(d, form, "scheduler", "tasks.yaml")))
        client.dump_cluster_state(os.path.join(d, "less"), exclude=["tasks", "log"])
        less = DumpArtefact.from_url(os.path.join(d, "less.msgpack.gz"))
        check("exclude", "tasks" not in less["scheduler"] and all("tasks" not in w for w in less["workers"].values()))
        raises("written by the scheduler", NotImplementedError,
               lambda: client.dump_cluster_state("memory://dump"), "write_from_scheduler=False")


run(main)
