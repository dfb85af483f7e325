"""Python client of `millstream bench dask`, driven by JSON lines as described in bench/internal/daskbench: connect, then
one of map-noop, random-dag, merge-tree and df-merge. Each reply has seconds, tasks and check, which is equal on all sides."""

import json
import operator
import os
import random
import sys
import time

MASK = (1 << 40) - 1


def mix(*deps):
    v = 7
    for d in deps:
        v = (v * 31 + d) & 0xFFFFFFFFFF
    return v


class Bench:
    def __init__(self):
        self.client = None

    def connect(self, address, workers, **_):
        from distributed import Client

        self.client = Client(address, timeout="120s")
        self.client.wait_for_workers(workers, timeout=120)
        # The first task of a process imports modules.
        self.client.gather(self.client.map(operator.index, range(100, 100 + 4 * workers), pure=False))
        return {}

    def map_noop(self, n, go=None, **_):
        function = operator.index  # importable everywhere, and returns its argument
        if go:
            import millstream

            function = millstream.go(go)
            self.client.gather(self.client.map(function, range(8), pure=False))
        begin = time.perf_counter()
        futures = self.client.map(function, range(n), pure=False)
        results = self.client.gather(futures)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "tasks": n, "check": str(sum(results))}

    def random_dag(self, n, seed, **_):
        rng = random.Random(seed)
        graph = {}
        for i in range(n - 1):
            deps = [f"node-{rng.randrange(max(0, i - 200), i)}" for _ in range(rng.randint(1, 3))] if i >= 16 else []
            graph[f"node-{i}"] = (mix, i, *dict.fromkeys(deps))
        used = {d for t in graph.values() for d in t[2:]}
        graph["total"] = (sum, [k for k in graph if k not in used])
        return self._get(graph, "total")

    def merge_tree(self, n, **_):
        graph = {f"leaf-{i}": (operator.index, i) for i in range(n)}
        level, depth = [f"leaf-{i}" for i in range(n)], 0
        while len(level) > 1:
            depth += 1
            above = []
            for i in range(0, len(level) - 1, 2):
                key = f"add{depth}-{i // 2}"
                graph[key] = (operator.add, level[i], level[i + 1])
                above.append(key)
            if len(level) % 2:
                above.append(level[-1])
            level = above
        return self._get(graph, level[0])

    def _get(self, graph, key):
        begin = time.perf_counter()
        result = self.client.get(graph, key)
        return {"seconds": time.perf_counter() - begin, "tasks": len(graph), "check": str(result)}

    def df_merge(self, n, parts, seed, **_):
        import dask
        import dask.dataframe as dd

        rows = n // parts
        with dask.config.set({"dataframe.shuffle.method": "p2p"}):
            left = dd.from_map(frame, [(seed, i, rows, n, "a") for i in range(parts)])
            right = dd.from_map(frame, [(seed + 1000, i, rows, n, "b") for i in range(parts)])
            begin = time.perf_counter()
            merged = left.merge(right, on="key")
            count, keys, a, b = dask.compute(merged["key"].count(), merged["key"].sum(), merged["a"].sum(), merged["b"].sum())
            seconds = time.perf_counter() - begin
        return {"seconds": seconds, "tasks": 2 * rows * parts, "check": f"{count} {keys} {a} {b}"}


def frame(spec):
    """Return a partition: keys drawn from all, and a number."""
    import numpy as np
    import pandas as pd

    seed, i, rows, n, name = spec
    rng = np.random.default_rng([seed, i])
    return pd.DataFrame({"key": rng.integers(0, n, rows), name: rng.integers(0, 1000, rows)})


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for a reply
    bench = Bench()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(bench, command.pop("do").replace("-", "_"))(**command)
        except Exception as e:  # noqa: BLE001
            import traceback

            traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)
    if bench.client is not None:
        bench.client.close()


if __name__ == "__main__":
    main()
