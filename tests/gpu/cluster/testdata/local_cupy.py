"""Operations of the dask-cuda benchmark local_cupy, and checks of their results: the client of dask_cuda_test.go.

    python local_cupy.py SCHEDULER gpu|cpu      prints a line of JSON for each check

The operations are those of dask_cuda.benchmarks.local_cupy, on arrays of CuPy (gpu) or NumPy (cpu).
"""

import json
import os
import sys
import types
from argparse import Namespace

try:
    import nvtx  # noqa: F401
except ImportError:  # annotations for a profiler, which is not used here
    nvtx = sys.modules["nvtx"] = types.ModuleType("nvtx")
    nvtx.start_range = lambda **kwargs: None
    nvtx.end_range = lambda mark: None

import dask.array as da
import numpy as np
from dask_cuda.benchmarks.local_cupy import bench_once
from distributed import Client, wait

OPERATIONS = ("transpose_sum", "dot", "sum", "mean", "slice", "fft", "svd", "col_sum", "col_mask", "col_gather")


def report(name, function):
    try:
        got = function()
        ok, text = (got, "") if isinstance(got, bool) else (True, str(got))
    except Exception as e:
        ok, text = False, f"{type(e).__name__}: {e}"
    print(json.dumps({"check": name, "ok": bool(ok), "got": text[:2000]}), flush=True)


def main():
    address, kind = sys.argv[1:]
    xp = __import__({"gpu": "cupy", "cpu": "numpy"}[kind])
    client = Client(address, timeout="60s")
    client.wait_for_workers(2, timeout=120)
    operations(client, kind, xp)
    values(client, xp)
    report("restart", lambda: client.restart(timeout="90s", wait_for_workers=True) and None)
    client.wait_for_workers(2, timeout=90)
    values(client, xp)
    print(json.dumps({"check": "end", "ok": True, "got": ""}), flush=True)
    sys.stdout.flush()
    os._exit(0)  # UCXX's destructors wait for endpoints whose peers are gone


# Libraries that CuPy loads for an operation at its first use, and that may be missing.
LIBRARIES = {
    "dot": lambda xp: xp.ones((2, 2)).dot(xp.ones((2, 2))),
    "fft": lambda xp: xp.fft.fft(xp.ones(4)),
    "svd": lambda xp: (xp.linalg.svd(xp.ones((2, 2))), xp.linalg.qr(xp.ones((2, 2)))),
}


def operations(client, kind, xp):
    for operation in OPERATIONS:
        try:
            LIBRARIES.get(operation, lambda xp: None)(xp)
        except Exception as e:
            report(f"local_cupy {operation}", lambda e=e: f"CuPy cannot do this here: {e}")
            continue
        columns = operation.startswith("col_")
        args = Namespace(
            type=kind, operation=operation, backend="dask", size=2_000_000 if columns else 2000, second_size=1000,
            chunk_size=500_000 if columns else 500,
        )  # fmt: skip
        report(f"local_cupy {operation}", lambda args=args: bench_once(client, args)["shape"])


def values(client, xp):
    """Check that results are correct, and remain arrays of their class on the workers."""
    host = np.arange(1_000_000, dtype="f8").reshape(1000, 1000)
    x = da.from_array(host, chunks=250).map_blocks(xp.asarray).persist()
    wait(x)
    module = xp.__name__
    report("class of blocks", lambda: blocks(client, x) == {module})
    report("x + x.T", lambda: bool(np.array_equal(plain((x + x.T).compute()), host + host.T)))
    report("(x + x.T).sum()", lambda: float(plain((x + x.T).sum().compute())) == float(2 * host.sum()))
    report("mean of rows", lambda: bool(np.allclose(plain(x.mean(axis=1).compute()), host.mean(axis=1))))
    report("product", lambda: bool(np.allclose(plain((x * x.T).compute()), host * host.T)))
    report("rechunk", lambda: bool(np.array_equal(plain(x.rechunk((1000, 100)).compute()), host)))


def blocks(client, x):
    from distributed import futures_of

    return set(client.gather(client.map(lambda b: type(b).__module__.split(".")[0], futures_of(x), pure=False)))


def plain(a):
    return a.get() if hasattr(a, "get") else np.asarray(a)


if __name__ == "__main__":
    main()
