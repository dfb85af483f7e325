"""Dask peer of the benchmarks of frames, driven by JSON lines as described in bench/internal/framebench: start, load, run,
save, drop. Tables and results are persisted Dask DataFrames on a LocalCluster of worker processes.

    python bench_frames_dask.py
"""

import json
import os
import sys
import time


def read(path):
    """Return a partition of a table."""
    import pandas as pd
    import pyarrow as pa

    with pa.OSFile(path) as source:
        table = pa.ipc.open_file(source).read_all()
    return table.to_pandas(types_mapper=lambda t: pd.ArrowDtype(t) if pa.types.is_string(t) else None)


def write(part, number, dir):
    """Write a partition of a result, and return its path."""
    import pyarrow as pa

    path = os.path.join(dir, f"{number}.arrow")
    table = pa.Table.from_pandas(part, preserve_index=False)
    for i, field in enumerate(table.schema):
        if field.name.startswith("id") and pa.types.is_floating(field.type):
            # In pandas, integers with nulls are floats.
            table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def merge(t, case):
    return t[f"{case}_left"].merge(t[f"{case}_right"], on="key", suffixes=("", "_right"))


def groupby(t, case):
    if case.startswith("j"):
        return join(t, case)
    g = t["g"]

    def by(keys, **aggs):
        options = {"split_out": max(1, g.npartitions)} if "id3" in keys or "id6" in keys else {}
        return g.groupby(keys, sort=False).agg(aggs, **options).reset_index()

    if case == "q1":
        return by(["id1"], v1="sum")
    if case == "q2":
        return by(["id1", "id2"], v1="sum")
    if case == "q3":
        return by(["id3"], v1="sum", v3="mean")
    if case == "q4":
        return by(["id4"], v1="mean", v2="mean", v3="mean")
    if case == "q5":
        return by(["id6"], v1="sum", v2="sum", v3="sum")
    if case == "q6":
        return by(["id4", "id5"], v3=["median", "std"])
    if case == "q7":
        out = by(["id3"], v1="max", v2="min")
        return out.assign(range=out["v1"] - out["v2"])[["id3", "range"]]
    if case == "q8":
        part = g[["id6", "v3"]]
        return part.shuffle("id6").map_partitions(largest, meta={"id6": "int32", "v3": "float64"})
    if case == "q9":
        part = g[["id2", "id4", "v1", "v2"]]
        meta = {"id2": part["id2"].dtype, "id4": "int32", "r2": "float64"}
        return part.shuffle(["id2", "id4"]).map_partitions(regression, meta=meta)
    keys = ["id1", "id2", "id3", "id4", "id5", "id6"]
    return by(keys, v3="sum", v1="count")


def largest(part):
    """Return the rows with the two largest v3 of each id6."""
    return part.sort_values("v3", ascending=False).groupby("id6", sort=False).head(2)[["id6", "v3"]]


def regression(part):
    """Return the square of the correlation of v1 and v2 in each group."""
    part = part.assign(xy=part["v1"] * part["v2"], xx=part["v1"] ** 2, yy=part["v2"] ** 2, n=1)
    s = part.groupby(["id2", "id4"], sort=False).sum().reset_index()
    xy = s["n"] * s["xy"] - s["v1"] * s["v2"]
    xx, yy = s["n"] * s["xx"] - s["v1"] ** 2, s["n"] * s["yy"] - s["v2"] ** 2
    return s[["id2", "id4"]].assign(r2=xy.astype("float64") ** 2 / (xx.astype("float64") * yy))


JOINS = {"j1": ("small", "id1", "inner"), "j2": ("medium", "id2", "inner"), "j3": ("medium", "id2", "left"),
         "j4": ("medium", "id5", "inner"), "j5": ("big", "id3", "inner")}


def join(t, case):
    other, key, how = JOINS[case]
    return t["x"].merge(t[other], on=key, how=how, suffixes=("", "_right"))


def sort(t, case):
    return t[case].sort_values(["key", "key2"] if case == "few" else "key")


def shuffle(t, case):
    return t[case].shuffle("key")


SUITES = {"merge": merge, "groupby": groupby, "sort": sort, "shuffle": shuffle}


class Bench:
    def __init__(self):
        self.tables, self.result, self.client, self.cluster = {}, None, None, None

    def start(self, threads, workers, dir, **_):
        import dask
        from distributed import Client, LocalCluster

        dask.config.set({"dataframe.shuffle.method": "p2p", "distributed.worker.memory.spill": False})
        self.cluster = LocalCluster(n_workers=workers, threads_per_worker=threads, processes=True, memory_limit=0,
                                    dashboard_address=None, local_directory=dir)
        self.client = Client(self.cluster)
        return {}

    def load(self, table, paths, **_):
        import dask.dataframe as dd
        from distributed import wait

        self.tables[table] = dd.from_map(read, sorted(paths)).persist()
        wait(self.tables[table])
        return {}

    def run(self, suite, case, **_):
        from distributed import wait

        self.drop()
        begin = time.perf_counter()
        self.result = SUITES[suite](self.tables, case).persist()
        wait(self.result)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "rows": len(self.result)}

    def save(self, dir, **_):
        import dask

        parts = self.result.to_delayed()
        return {"paths": list(dask.compute(*[dask.delayed(write)(p, i, dir) for i, p in enumerate(parts)]))}

    def drop(self, **_):
        self.result = None
        return {}

    def close(self):
        if self.client is not None:
            self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for a reply
    bench = Bench()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(bench, command.pop("op"))(**command)
        except Exception as e:  # noqa: BLE001
            import traceback

            traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)
    bench.close()


if __name__ == "__main__":
    main()
