#!/usr/bin/env python3
"""Runs tests of packages that use Dask on the schedulers of Dask and Millstream, and compares.

    run.py --millstream bin/millstream --out results [--short] [--mode ours-go] [-k EXPRESSION]

Prints counts for each package, and fails if a test passes on the Dask scheduler and not on that of Millstream without
a reason in reasons.toml. In each mode (dask, ours-python, ours-go) each package has a new cluster on the loopback
interface.
"""

import argparse
import collections
import concurrent.futures
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(os.path.dirname(HERE), "dask", "suite")
sys.path.insert(0, SUITE)

from suite_cluster import MODES, Cluster, die_with_parent  # noqa: E402

# Package -> file of its tests. Tests in this folder are named after the package that they use.
FILES = {
    "xarray": "xarray/tests/test_distributed.py", "joblib": "joblib/test/test_dask.py",
    "ml": "test_ml.py",
}
# Threads of each worker. One, as in distributed.utils_test.cluster, which the tests of packages are written for. With
# two, xarray 2026.9.0 deadlocks on any scheduler when it writes netCDF4: CombinedLock takes its locks in the order of
# their id(), and each task unpickles a distributed.Lock of its own, so two threads take the same pair in either order.
THREADS = {"ml": 2}
# Selection of the short form, by package.
SHORT = {
    "xarray": "lock or (netcdf_roundtrip and True) or dimensionless or read_netcdf",
    "joblib": "test_simple or test_manual_scatter or test_nested_backend_context_manager or test_dask_backend_keywords "
    "or test_errors or test_dont_assume or test_dask_funcname or test_auto_scatter",
}


def environment(mode, address, results):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DASK_", "PYTEST_"))}
    env.update(
        PYTHONPATH=f"{HERE}:{SUITE}", PYTHONDONTWRITEBYTECODE="1", DOWNSTREAM_MODE=mode, DOWNSTREAM_ADDRESS=address,
        DOWNSTREAM_RESULTS=results,
    )
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = "1"
    return env


def run(args, mode):
    """Run all tests in a mode; return {package: {id: (outcome, text)}}."""
    out = {}
    for package, path in FILES.items():
        if args.short and package not in SHORT or args.package and package not in args.package:
            continue
        folder = os.path.join(args.out, mode, package)
        os.makedirs(folder, exist_ok=True)
        cluster = Cluster(mode, os.path.abspath(args.millstream), folder, sys.executable, threads=THREADS.get(package, 1))
        try:
            out[package] = test(args, mode, package, path, folder, cluster.address)
        finally:
            cluster.close()
    return out


def test(args, mode, package, path, folder, address):
    """Run the tests of one package on a cluster; return {id: (outcome, text)}."""
    root = HERE if os.path.exists(os.path.join(HERE, path)) else os.path.dirname(os.path.dirname(importlib.import_module(package).__file__))
    results = os.path.join(folder, "results.jsonl")
    if os.path.exists(results):
        os.remove(results)
    select = args.k or (SHORT[package] if args.short else "")
    command = [
        sys.executable, "-m", "pytest", os.path.join(root, path), "-p", "downstream_plugin", "-p", "distributed.utils_test", "-c",
        os.path.join(SUITE, "pytest.ini"), "--rootdir", root, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=short",
        "--durations=5", f"--timeout={args.timeout}", "--basetemp", os.path.join(folder, "t"), *(["-k", select] if select else []),
    ]
    with open(os.path.join(folder, "pytest.log"), "wb") as log:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(mode, address, results), cwd=folder,
            preexec_fn=die_with_parent, check=False,
        ).returncode
    out = read(results)
    if code not in (0, 1) or not out:
        raise RuntimeError(f"{mode}: pytest of {package} ended with {code}; see {log.name}:\n{tail(log.name)}")
    return out


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()[-2000:]


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return {e["id"]: (e["outcome"], e["text"]) for e in map(json.loads, f)}


def reasons(path, mode):
    with open(path, "rb") as f:
        entries = tomllib.load(f).get("difference", [])
    return [(re.compile(e["test"]), e["reason"]) for e in entries if mode in e.get("modes", [mode])]


def compare(dask, ours, mode, known):
    """Print counts and differences; return the number of those without a reason."""
    bad = 0
    for package in dask:
        count = {name: collections.Counter(o for o, _ in x[package].values()) for name, x in (("dask", dask), ("ours", ours))}
        print(f"{package}, {mode}: {len(ours[package])} tests, passed {count['ours']['passed']} (with the Dask scheduler {count['dask']['passed']})")
        for id, (outcome, _) in sorted(dask[package].items()):
            got, text = ours[package].get(id, ("not run", ""))
            if outcome != "passed" or got == "passed":
                continue
            reason = next((r for p, r in known if p.search(id)), None)
            print(f"  {got:8} {id}\n           reason: {reason or 'UNEXPLAINED'}")
            if reason is None:
                bad += 1
                for line in [x for x in text.strip().splitlines() if x.strip()][-4:]:
                    print(f"           | {line.strip()[:180]}")
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--millstream", default="bin/millstream", help="path of the binary")
    p.add_argument("--out", default="results", help="folder for logs and results")
    p.add_argument("--short", action="store_true", help="run a selection of fast tests")
    p.add_argument("--mode", action="append", choices=MODES[1:], help="may be repeated (default: all)")
    p.add_argument("--package", action="append", choices=tuple(FILES), help="may be repeated (default: all)")
    p.add_argument("--timeout", type=int, default=180, help="per test, in seconds")
    p.add_argument("-j", "--jobs", type=int, default=1, help="number of modes to run in parallel")
    p.add_argument("-k", default="", help="pytest expression of test names")
    args = p.parse_args()
    args.out = os.path.abspath(args.out)
    modes = ["dask", *(args.mode or MODES[1:])]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = dict(zip(modes, pool.map(lambda mode: run(args, mode), modes)))
    bad = 0
    for mode in modes[1:]:
        bad += compare(runs["dask"], runs[mode], mode, reasons(os.path.join(HERE, "reasons.toml"), mode))
    print(f"unexplained differences: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
