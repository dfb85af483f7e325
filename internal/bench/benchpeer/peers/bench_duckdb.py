"""DuckDB peer of the benchmarks of frames, driven by JSON lines as described in bench/internal/framebench: start, load, run,
save, drop. Tables are Arrow tables in memory or Parquet files; a result is a table of DuckDB in memory.

    python bench_duckdb.py
"""

import json
import os
import sys
import time

import duckdb
import pyarrow


class Bench:
    def start(self, threads, workers, **_):
        self.db = duckdb.connect(config={"threads": threads * workers})
        self.db.execute("SET TimeZone = 'UTC'")
        self.db.execute("SET preserve_insertion_order = false")
        return {}

    def load(self, table, paths, parquet=False, **_):
        if parquet:
            self.db.execute(f"create view {table} as select * from read_parquet({paths!r})")
            return {}
        parts = []
        for path in paths:
            with pyarrow.OSFile(path) as source:
                parts.append(pyarrow.ipc.open_file(source).read_all())
        self.db.register(table, pyarrow.concat_tables(parts))
        return {}

    def run(self, sql, **_):
        self.drop()
        begin = time.perf_counter()
        self.db.execute("create temp table result as " + sql)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "rows": self.db.execute("select count(*) from result").fetchall()[0][0]}

    def save(self, dir, **_):
        path = os.path.join(dir, "result.arrow")
        reader = self.db.sql("select * from result").to_arrow_reader(1 << 20)
        with pyarrow.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return {"paths": [path]}

    def drop(self, **_):
        self.db.execute("drop table if exists result")
        return {}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for a reply
    bench = Bench()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(bench, command.pop("op"))(**command)
        except Exception as e:  # noqa: BLE001
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
