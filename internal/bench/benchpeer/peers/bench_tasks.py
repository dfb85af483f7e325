"""Dask peer of `millstream bench tasks`, driven by JSON lines as described in bench/internal/taskbench: start, map-noop,
tree, random-dag, submit-latency, chain, fetch, shuffle, stop; and for a scheduler whose workers do nothing: scheduler,
usage, flood, release, empty.

    python bench_tasks.py

Workers import the functions of tasks by name (module bench_tasks), which is the cheapest way in Dask.
"""

import glob
import json
import os
import sys
import threading
import time

import benchlib

MASK = (1 << 64) - 1
# Values of tasks stay in the range in which both sides compute the same results.
VALUE_MASK = (1 << 40) - 1
DAG_ROOTS = 16
DAG_WINDOW = 1000

_lock = threading.Lock()
_ran = 0


def count():
    """Count a task that ran in this process."""
    global _ran
    with _lock:
        _ran += 1


def ran():
    """Return the number of tasks that ran in this process since the last call, and the process."""
    global _ran
    with _lock:
        n, _ran = _ran, 0
    return os.getpid(), n


def noop(i):
    count()
    return i


def leaf(i):
    count()
    return i


def add(a, b):
    count()
    return a + b


def mix(i, *deps):
    count()
    v = i
    for d in deps:
        v = (v * 31 + d) & VALUE_MASK
    return v


def blob(n, seed):
    return bytes([seed & 255]) * n


def length(b):
    return len(b)


def spin(marker, seconds):
    """Compute until the file marker + ".stop" exists, and return the start and end times. Another file marks the start."""
    begin = time.time()
    with open(f"{marker}.{os.getpid()}-{threading.get_ident()}.begun", "w"):
        pass
    n = 0
    while time.time() < begin + seconds and not os.path.exists(marker + ".stop"):
        for _ in range(100_000):
            n = (n * 31 + 7) & VALUE_MASK
    return begin, time.time()


class SplitMix:
    """Generator of bench/internal/taskbench: both sides draw the same graph."""

    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n


def random_dag(n, seed):
    """Return the dependencies of each task: 2 to 4 of the 1000 preceding tasks, none for the first."""
    rng = SplitMix(seed)
    dag = []
    for i in range(n):
        deps = []
        if i >= DAG_ROOTS:
            for _ in range(2 + rng.below(3)):
                d = i - 1 - rng.below(min(i, DAG_WINDOW))
                if d not in deps:
                    deps.append(d)
            while len(deps) < 2:
                d = (deps[-1] + 1) % i
                if d not in deps:
                    deps.append(d)
        dag.append(deps)
    return dag


def make_rows(partition, rows, seed):
    """Return a partition of the shuffle: a key and three columns, 32 bytes per row."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed + partition)
    return pd.DataFrame(
        {
            "key": rng.integers(0, 1 << 40, rows, dtype=np.int64),
            "a": np.arange(rows, dtype=np.int64),
            "b": np.full(rows, partition, dtype=np.int64),
            "c": rng.random(rows),
        }
    )


def summarize(frame):
    """Return the checked properties of an output partition: its rows and the sum of its keys."""
    return len(frame), int(frame["key"].sum() & VALUE_MASK)


class Side:
    """A cluster with its client."""

    def __init__(self):
        self.cluster = self.client = self.flood = self.loop = None
        self.futures = []

    def do(self, c):
        what = c["do"].replace("-", "_")
        method = getattr(self, "do_" + what, None)
        if method is None:
            raise ValueError(f"unknown command {c['do']!r}")
        return method(c)

    def do_start(self, c):
        import distributed
        from distributed import Client, LocalCluster
        from distributed.security import Security

        files = {}
        for role in ("scheduler", "worker", "client"):
            for part in ("cert", "key"):
                files[f"tls_{role}_{part}"] = os.path.join(c["certs"], f"{role}-{part}.pem")
        security = Security(require_encryption=True, tls_ca_file=os.path.join(c["certs"], "ca.pem"), **files)
        self.workers, self.threads = c["workers"], c["threads"]
        self.cluster = LocalCluster(
            n_workers=self.workers,
            threads_per_worker=self.threads,
            processes=True,
            protocol="tls://",
            security=security,
            dashboard_address=None,
            worker_dashboard_address=None,
            local_directory=c.get("directory") or None,
            silence_logs=50,
        )
        self.client = Client(self.cluster, security=security)
        self.client.wait_for_workers(self.workers)
        pids = [pid for pid, _ in self.client.run(funcs().ran).values()]
        if len(set(pids)) != self.workers or os.getpid() in pids:
            raise RuntimeError(f"workers run in processes {pids}, the client in {os.getpid()}")
        # Connections, imports and the first memory mappings are not measured.
        self.client.gather(self.client.map(funcs().noop, range(200), pure=False))
        self.client.run(funcs().ran)
        return {"version": "distributed " + distributed.__version__, "pids": pids, "pid": os.getpid()}

    def counted(self, n):
        """Raise an error unless exactly n tasks ran, all of them in workers."""
        got = self.client.run(funcs().ran)
        if sum(k for _, k in got.values()) != n:
            raise RuntimeError(f"{n} tasks were sent, {got} ran")
        if ran()[1] != 0:
            raise RuntimeError("tasks ran in the client's process")

    def in_memory(self, keys):
        """Raise an error unless the scheduler has each key as a separate task with a result."""
        tasks = self.cluster.scheduler.tasks
        n = sum(1 for k in keys if k in tasks and tasks[k].state == "memory")
        if n != len(keys):
            raise RuntimeError(f"the scheduler has {n} of {len(keys)} keys in memory")

    def do_map_noop(self, c):
        n = c["n"]
        begin = time.perf_counter()
        futures = self.client.map(funcs().noop, range(n), pure=False)
        results = self.client.gather(futures)
        took = time.perf_counter() - begin
        keys = {f.key for f in futures}
        if len(keys) != n:
            raise RuntimeError(f"{n} tasks have {len(keys)} keys")
        if results != list(range(n)):
            raise RuntimeError("results differ from the inputs")
        self.in_memory(keys)
        self.counted(n)
        return {"seconds": took, "tasks": n, "check": str(sum(results))}

    def graph(self, dsk, want):
        """Run a low-level graph unchanged, and gather the wanted keys."""
        begin = time.perf_counter()
        results = self.client.get(dsk, want, sync=True)
        return results, time.perf_counter() - begin

    def do_tree(self, c):
        from dask._task_spec import Task, TaskRef

        f, leaves = funcs(), c["n"]
        begin = time.perf_counter()
        dsk = {}
        for i in range(leaves):
            k = f"leaf-{i}"
            dsk[k] = Task(k, f.leaf, i)
        level, width, prefix = 0, leaves, "leaf"
        while width > 1:
            level += 1
            above = f"add{level}"
            for i in range(width // 2):
                k = f"{above}-{i}"
                dsk[k] = Task(k, f.add, TaskRef(f"{prefix}-{2 * i}"), TaskRef(f"{prefix}-{2 * i + 1}"))
            prefix, width = above, width // 2
        built = time.perf_counter() - begin
        results, took = self.graph(dsk, [f"{prefix}-0"])
        if results[0] != leaves * (leaves - 1) // 2:
            raise RuntimeError(f"sum of the tree is {results[0]}")
        self.counted(len(dsk))
        return {"seconds": built + took, "tasks": len(dsk), "check": str(results[0])}

    def do_random_dag(self, c):
        from dask._task_spec import Task, TaskRef

        f, n = funcs(), c["n"]
        dag = random_dag(n, c["seed"])
        wanted = sorted(set(range(n)) - {d for deps in dag for d in deps})
        begin = time.perf_counter()
        dsk = {}
        for i, deps in enumerate(dag):
            k = f"mix-{i}"
            dsk[k] = Task(k, f.mix, i, *[TaskRef(f"mix-{d}") for d in deps])
        built = time.perf_counter() - begin
        results, took = self.graph(dsk, [f"mix-{i}" for i in wanted])
        self.counted(n)
        check = 0
        for v in results:
            check = (check * 31 + v) & VALUE_MASK
        return {"seconds": built + took, "tasks": n, "check": f"{len(wanted)} sinks {check}"}

    def do_submit_latency(self, c):
        f, times = funcs(), []
        for i in range(c["n"]):
            begin = time.perf_counter()
            v = self.client.submit(f.noop, i, pure=False).result()
            times.append(time.perf_counter() - begin)
            if v != i:
                raise RuntimeError(f"noop({i}) is {v}")
        times.sort()
        self.counted(c["n"])
        return {"seconds": times[len(times) // 2], "tasks": c["n"]}

    def do_chain(self, c):
        from dask._task_spec import Task, TaskRef

        f, n = funcs(), c["n"]
        begin = time.perf_counter()
        dsk = {"chain-0": Task("chain-0", f.leaf, 0)}
        for i in range(1, n):
            k = f"chain-{i}"
            dsk[k] = Task(k, f.add, TaskRef(f"chain-{i - 1}"), 1)
        built = time.perf_counter() - begin
        results, took = self.graph(dsk, [f"chain-{n - 1}"])
        if results[0] != n - 1:
            raise RuntimeError(f"sum of the chain is {results[0]}")
        self.counted(n)
        return {"seconds": (built + took) / n, "tasks": n, "check": str(results[0])}

    def do_fetch(self, c):
        """Fetch a value from one worker to another while all slots, or none, compute."""
        self.fetch_once({**c, "busy": False}, -1)  # opens the connection and is not counted
        best = min(self.fetch_once(c, i) for i in range(c["n"]))
        return {"seconds": best, "bytes": c["size"], "transport": "tls"}

    def fetch_once(self, c, i):
        f, size = funcs(), c["size"]
        source, target = sorted(self.client.scheduler_info(-1)["workers"])[:2]
        value = self.client.submit(f.blob, size, i, workers=[source], pure=False)
        self.client.submit(f.length, value, workers=[source], pure=False).result()
        before = len(self.incoming(target, size))
        spins, marker = [], os.path.join(c["directory"], f"spin-dask-{os.getpid()}-{time.monotonic_ns()}")
        if c.get("busy"):
            for w in (source, target):
                for _ in range(self.threads):
                    spins.append(self.client.submit(f.spin, marker, c["spin"], workers=[w], pure=False))
            until(lambda: len(glob.glob(marker + ".*.begun")) == len(spins), "all slots compute", c["spin"])
        got = self.client.submit(f.length, value, workers=[target], pure=False)
        until(lambda: len(self.incoming(target, size)) > before, "the value has arrived", c["spin"])
        if spins:
            with open(marker + ".stop", "w"):
                pass
        if got.result() != size:
            raise RuntimeError(f"received {got.result()} of {size} bytes")
        move = self.incoming(target, size)[-1]
        for begin, end in self.client.gather(spins):
            if move["start"] < begin or move["stop"] > end:
                raise RuntimeError("slots did not compute during the whole fetch")
        return move["duration"]

    def incoming(self, worker, size):
        """Return the records of a worker of fetches of at least a size."""
        log = self.client.run(funcs().transfers, workers=[worker])[worker]
        return [t for t in log if t["total"] >= size]

    def do_shuffle(self, c):
        import dask
        import dask.dataframe as dd
        from distributed import wait

        f, parts = funcs(), c["parts"]
        rows = c["size"] // 32 // parts
        frame = dd.from_map(
            f.make_rows, range(parts), rows=rows, seed=c["seed"], meta=f.make_rows(0, 1, 0), enforce_metadata=False
        ).persist()
        wait(frame)
        before = self.summary(frame)
        begin = time.perf_counter()
        with dask.config.set({"dataframe.shuffle.method": "p2p"}):
            out = frame.shuffle("key", npartitions=parts).persist()
        wait(out)
        took = time.perf_counter() - begin
        if "shuffle-barrier" not in self.cluster.scheduler.task_prefixes:
            raise RuntimeError("Dask did not shuffle by p2p")
        after = self.summary(out)
        if before != after or before[0] != rows * parts:
            raise RuntimeError(f"{before} went in and {after} came out")
        return {"seconds": took, "bytes": rows * parts * 32, "check": f"{after[0]} rows", "transport": "tls"}

    def summary(self, frame):
        futures = [self.client.submit(funcs().summarize, p, pure=False) for p in futures_of(frame)]
        got = self.client.gather(futures)
        return sum(r for r, _ in got), sum(s for _, s in got) & VALUE_MASK

    def do_scheduler(self, c):
        """A scheduler without workers, over tcp, in its own thread."""
        import asyncio

        from distributed import Scheduler

        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

        async def start():
            return await Scheduler(protocol="tcp", host="127.0.0.1", port=0, dashboard=False)

        self.scheduler = asyncio.run_coroutine_threadsafe(start(), self.loop).result()
        return {"address": self.scheduler.address, "pid": os.getpid()}

    def do_usage(self, c):
        n = c.get("n", 0)
        self.wait_for_tasks(lambda: sum(t.state == "memory" for t in list(self.scheduler.tasks.values())) >= n)
        return usage()

    def do_empty(self, c):
        self.wait_for_tasks(lambda: not self.scheduler.tasks)
        return usage()

    def wait_for_tasks(self, done):
        until(done, "the scheduler has the expected number of tasks", 60)

    def do_flood(self, c):
        from distributed import Client, wait

        if self.flood is None:
            self.flood = Client(c["address"])
        begin = time.perf_counter()
        self.futures = self.flood.map(funcs().noop, range(c["n"]), pure=False)
        wait(self.futures)
        return {"seconds": time.perf_counter() - begin, "tasks": c["n"]}

    def do_release(self, c):
        self.futures = []
        return {}

    def do_stop(self, c):
        self.close()
        return {}

    def close(self):
        if self.client is not None:
            self.client.close()
            self.client = None
        if self.cluster is not None:
            self.cluster.close()
            self.cluster = None
        if self.flood is not None:
            self.flood.close()
            self.flood = None
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.loop = None


def usage():
    """Return the CPU time and memory of this process."""
    import resource

    r = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm") as f:
        pages = int(f.read().split()[1])
    cpu = r.ru_utime + r.ru_stime
    return {"cpu": cpu, "cpu_after": cpu, "rss": pages * os.sysconf("SC_PAGE_SIZE")}


def until(done, what, seconds):
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def transfers(dask_worker):
    """Return the incoming transfers of the worker."""
    return [
        {"start": t["start"], "stop": t["stop"], "duration": t["duration"], "total": t["total"]}
        for t in dask_worker.transfer_incoming_log
    ]


def futures_of(frame):
    from distributed import futures_of

    return sorted(futures_of(frame), key=lambda f: str(f.key))


def funcs():
    """Return this module under the name by which workers import it."""
    import bench_tasks

    return bench_tasks


def main():
    out = benchlib.take_stdout()
    side = Side()
    try:
        for line in sys.stdin:
            try:
                answer = side.do(json.loads(line))
            except Exception as e:  # noqa: BLE001 - the parent reports it
                answer = {"error": f"{type(e).__name__}: {e}"}
            print(json.dumps(answer), file=out, flush=True)
    finally:
        side.close()


if __name__ == "__main__":
    main()
