#!/usr/bin/env python3
"""Runs the test suites of dask and distributed on the schedulers of Dask and Millstream, and compares.

    run.py run --mode dask --suite dask -j 8 --out results     # Dask scheduler and workers
    run.py run --mode ours-python --suite dask …               # Millstream scheduler, Dask workers
    run.py run --mode ours-go --suite dask …                   # Millstream scheduler and workers
    run.py compare --suite dask --out results                  # counts and each difference with its reason
    run.py again --suite dask --mode ours-python …             # repeat the differences, in both modes

An interrupted run is continued. Every shard (-j) has its own cluster on the loopback interface.
"""

import argparse
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import suite_results
from suite_cluster import MODES, die_with_parent

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT = 40  # tests that a shard takes at once

SUITES = {
    "dask": [
        "dask/array/tests", "dask/bag/tests", "dask/dataframe/tests", "dask/dataframe/io/tests", "dask/dataframe/tseries/tests",
        "dask/dataframe/dask_expr/tests", "dask/dataframe/dask_expr/io/tests", "dask/tests/test_delayed.py", "dask/tests/test_distributed.py",
    ],
    "distributed": [
        f"distributed/tests/test_{name}.py"
        for name in (
            "client", "client_executor", "variable", "queues", "locks", "multi_locks", "semaphore", "events", "publish", "actor", "as_completed",
            "worker_client", "failed_workers",
        )
    ],
}


def paths(suite):
    """Return (folder, files) of a suite in the installed packages."""
    import importlib

    package = suite  # each suite is named after its package
    root = os.path.dirname(os.path.dirname(importlib.import_module(package).__file__))
    return root, [os.path.join(root, p) for p in SUITES[suite]]


def with_client(id):
    """Report whether a test runs with a client as default scheduler; the others start a cluster with cluster()."""
    return not id.startswith("distributed/") and "test_distributed.py" not in id


def collect(args):
    path = os.path.join(args.out, f"{args.suite}-ids.json")
    if not os.path.exists(path):
        root, files = paths(args.suite)
        code = "import sys, json, suite_plugin; print('\\nIDS ' + json.dumps(suite_plugin.collect(sys.argv[3:], sys.argv[1], sys.argv[2])))"
        out = subprocess.run(
            [sys.executable, "-c", code, os.path.join(HERE, "pytest.ini"), root, *files], capture_output=True, text=True, env=environment(), check=False
        )
        line = next((x for x in out.stdout.splitlines() if x.startswith("IDS ")), None)
        if line is None:
            raise SystemExit(f"the tests could not be collected:\n{out.stdout[-3000:]}\n{out.stderr[-3000:]}")
        ids, broken = json.loads(line[4:])
        for name, text in broken:
            print(f"not collected: {name}: {text.strip().splitlines()[-1]}", file=sys.stderr)
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(ids, f)
        os.replace(path + ".new", path)
    with open(path, encoding="utf-8") as f:
        return list(dict.fromkeys(json.load(f)))


def environment():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DASK_", "PYTEST_"))}
    env["PYTHONPATH"] = HERE
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[name] = "1"
    return env


# Running shards, each the leader of a process group.
running = set()


def end_all(*_):
    """End all processes of the shards when this process ends."""
    for pid in list(running):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(130)


class Run:
    """A run of tests in one mode."""

    def __init__(self, args, mode, ids, fresh=False):
        self.args, self.mode = args, mode
        self.folder = os.path.join(args.out, f"{args.suite}-{mode}")
        os.makedirs(self.folder, exist_ok=True)
        done = {} if fresh else suite_results.load(self.folder)
        self.todo = [i for i in ids if i not in done]
        self.total, self.done = len(ids), len(ids) - len(self.todo)
        self.lock = threading.Lock()  # guards done
        self.root, _ = paths(args.suite)
        self.units = queue.Queue()
        self.stopped = False  # by the time limit
        by_file = {}
        for id in self.todo:
            by_file.setdefault(id.split("::")[0], []).append(id)
        for file, list_ in by_file.items():
            for i in range(0, len(list_), UNIT):
                self.units.put({"file": os.path.join(self.root, file), "ids": list_[i : i + UNIT], "client": with_client(list_[i])})

    def settings(self, number):
        a = self.args
        folder = os.path.join(self.folder, f"shard-{number}")
        os.makedirs(folder, exist_ok=True)
        return {
            "mode": self.mode, "millstream": os.path.abspath(a.millstream), "python": sys.executable, "folder": folder, "workers": a.workers,
            "threads": a.threads, "timeout": a.timeout, "slow": a.slow, "ini": os.path.join(HERE, "pytest.ini"), "root": self.root,
            "results": os.path.join(self.folder, f"{int(time.time() * 1000)}-{number}.jsonl"),
        }

    def start(self):
        threads = [threading.Thread(target=self.shard, args=(i,), daemon=True) for i in range(min(self.args.jobs, max(1, self.units.qsize())))]
        for t in threads:
            t.start()
        begin = time.monotonic()
        while any(t.is_alive() for t in threads):
            threads[0].join(0 if not threads[0].is_alive() else 10)
            time.sleep(0.5)
            if self.args.limit and time.monotonic() - begin > self.args.limit:
                print(f"{self.mode}: stopped after {self.args.limit} s; run again to continue", flush=True)
                self.stop()
                return False
        return True

    def stop(self):
        self.stopped = True
        while not self.units.empty():
            self.units.get_nowait()
        for pid in list(running):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def shard(self, number):
        """Send units to a process; start another one if it ends or hangs."""
        while True:
            try:
                unit = self.units.get_nowait()
            except queue.Empty:
                return
            while unit is not None:
                unit = self.process(number, unit)

    def process(self, number, unit):
        """Run units in one process until none is left; return the rest of a unit whose process failed."""
        s = self.settings(number)
        with open(os.path.join(s["folder"], "shard.log"), "ab") as log:
            p = subprocess.Popen(
                [sys.executable, "-u", "-m", "suite_shard", json.dumps(s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=environment(), cwd=s["folder"], preexec_fn=die_with_parent, start_new_session=True,
            )
        running.add(p.pid)
        answers = queue.Queue()
        threading.Thread(target=lambda: [answers.put(x) for x in p.stdout] + [answers.put(None)], daemon=True).start()
        try:
            while True:
                p.stdin.write(json.dumps(unit) + "\n")
                p.stdin.flush()
                if not self.wait(answers, s):
                    return self.rest(unit, s, number, p.pid)
                with self.lock:
                    self.done += len(unit["ids"])
                    print(f"{self.mode}: {self.done}/{self.total}", flush=True)
                try:
                    unit = self.units.get_nowait()
                except queue.Empty:
                    p.stdin.close()
                    return None
        except BrokenPipeError:
            return self.rest(unit, s, number, p.pid)
        finally:
            if p.poll() is None:
                try:
                    p.wait(20)
                except subprocess.TimeoutExpired:
                    pass
            try:
                os.killpg(p.pid, 9)
            except ProcessLookupError:
                pass
            p.wait()
            running.discard(p.pid)

    def wait(self, answers, s):
        """Wait for the end of a unit as long as results arrive."""
        size, last = -1, time.monotonic()
        while True:
            try:
                return answers.get(timeout=2) is not None
            except queue.Empty:
                pass
            now = os.path.getsize(s["results"]) if os.path.exists(s["results"]) else 0
            if now != size:
                size, last = now, time.monotonic()
            elif time.monotonic() - last > self.args.timeout + 150:
                return False

    def rest(self, unit, s, number, pid):
        """Return the remaining tests of a unit whose process ended, without the one that was running."""
        if self.stopped:
            return None
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        suite_results.crashed(s["results"])
        done = suite_results.load(self.folder)
        left = [i for i in unit["ids"] if i not in done]
        if len(left) == len(unit["ids"]) and not any(i in done for i in unit["ids"]):
            # It ended before the first test: the shard cannot start.
            unit["failures"] = unit.get("failures", 0) + 1
            if unit["failures"] > 2:
                print(f"{self.mode}: shard {number} does not start; see {s['folder']}/shard.log", file=sys.stderr, flush=True)
                return None
        print(f"{self.mode}: restarting shard {number}, {len(left)} tests of {os.path.basename(unit['file'])} left", flush=True)
        return {**unit, "ids": left} if left else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("run", "again", "compare", "list"))
    p.add_argument("--suite", choices=tuple(SUITES), default="dask")
    p.add_argument("--mode", action="append", choices=MODES, help="may be repeated (default: all modes of the suite)")
    p.add_argument("--out", default="results", help="folder for results")
    p.add_argument("--millstream", default="bin/millstream", help="path of the binary")
    p.add_argument("-j", "--jobs", type=int, default=2, help="number of parallel shards")
    p.add_argument("--workers", type=int, default=2, help="per cluster")
    p.add_argument("--threads", type=int, default=2, help="per worker")
    p.add_argument("--timeout", type=int, default=120, help="per test, in seconds")
    p.add_argument("--limit", type=int, default=0, help="stop after this many seconds; a later run continues")
    p.add_argument("--match", default="", help="only tests whose id matches this regular expression")
    p.add_argument("--every", type=int, default=1, help="run every n-th test only")
    p.add_argument("--slow", action="store_true", help="also run tests that are marked as slow")
    p.add_argument("--reasons", default=os.path.join(HERE, "reasons.toml"))
    args = p.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_all)
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    modes = args.mode or (MODES if args.suite == "dask" else MODES[:2])
    if args.command in ("run", "list"):
        ids = [i for i in collect(args) if re.search(args.match, i)][:: args.every]
        if args.command == "list":
            print("\n".join(ids))
            return 0
        complete = all([Run(args, mode, ids).start() for mode in modes])
        return 0 if complete else 3
    bad = 0
    dask = suite_results.load(os.path.join(args.out, f"{args.suite}-dask"))
    for mode in modes:
        if mode == "dask":
            continue
        ours = suite_results.load(os.path.join(args.out, f"{args.suite}-{mode}"))
        if not ours:
            print(f"{args.suite}, {mode}: no results in {args.out}")
            continue
        c = suite_results.compare(dask, ours, suite_results.reasons(args.reasons, mode), args.suite)
        if args.command == "again":
            ids = [d[0] for d in c["differences"]]
            for again in ("dask", mode):
                Run(args, again, ids, fresh=True).start()
            dask = suite_results.load(os.path.join(args.out, f"{args.suite}-dask"))
            ours = suite_results.load(os.path.join(args.out, f"{args.suite}-{mode}"))
            c = suite_results.compare(dask, ours, suite_results.reasons(args.reasons, mode), args.suite)
        bad += suite_results.show(mode, c)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
