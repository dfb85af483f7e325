"""Algorithms of libmillstream on the blocks of dask arrays: placement on workers, and the calls of one rank."""

from __future__ import annotations

import ctypes
import uuid
from ctypes import POINTER, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from . import _library
from .comms import Comms, local_handle


class Part(ctypes.Structure):
    """millstream_v1_part."""

    _fields_ = [("data", c_void_p), ("rows", c_uint64), ("stride", c_uint64), ("index", c_uint64), ("labels", c_void_p)]


class Learn(ctypes.Structure):
    """millstream_v1_learn."""

    _fields_ = [
        ("size", c_uint32), ("dtype", c_int32), ("columns", c_int32), ("threads", c_int32), ("parts", c_uint64),
        ("clusters", c_int32), ("max_iter", c_int32), ("tol", c_double), ("seed", c_uint32), ("plusplus", c_int32),
        ("centers", c_void_p), ("inertia", c_double), ("iterations", c_int32), ("converged", c_int32), ("rows", c_uint64),
    ]


def _function(lib: Any, name: str, *arguments: Any) -> Any:
    try:
        f = getattr(lib.dll, "millstream_v1_" + name)
    except AttributeError:
        raise _library.LibraryError(f"{lib.path} has no {name}: it is of an older release than this package") from None
    f.argtypes, f.restype = list(arguments), ctypes.c_int
    return f


class Blocks:
    """The blocks of one rank in the form of the library: column by column, float32 or float64, and labels for each row."""

    def __init__(self, blocks: list, index: list[int], dtype: str, columns: int, total: int, threads: int = 1) -> None:
        self.arrays, self.labels, self.parts = [], [], (Part * max(1, len(blocks)))()
        for i, block in enumerate(blocks):
            xp = _module(block)
            a = xp.asarray(block)
            if a.ndim != 2 or a.shape[1] != columns:
                raise ValueError(f"block {index[i]} has shape {a.shape}, want (rows, {columns})")
            if a.dtype.kind not in "iufb":
                raise TypeError(f"block {index[i]} has dtype {a.dtype}, want numbers")
            # A block that was moved may be a part of a message, at any address.
            a = xp.require(a, dtype, ["F", "A"]) if xp.__name__ == "numpy" else xp.asfortranarray(a, dtype=dtype)
            labels = xp.empty(len(a), "int32")
            if xp.__name__ == "cupy":
                xp.cuda.get_current_stream().synchronize()  # the library uses a stream of its own
            stride = a.strides[1] // a.itemsize if len(a) > 1 and columns > 1 else max(len(a), 1)
            self.arrays.append(a)
            self.labels.append(labels)
            self.parts[i] = Part(_at(a), len(a), stride, index[i], _at(labels))
        self.learn = Learn(size=ctypes.sizeof(Learn), dtype=_library.DTYPES[dtype], columns=columns, threads=threads, parts=total)
        self.n = len(blocks)


def _module(block: Any) -> Any:
    if hasattr(block, "__cuda_array_interface__"):
        import cupy

        return cupy
    import numpy

    return numpy


def _at(a: Any) -> int | None:
    if a.size == 0:
        return None
    return a.data.ptr if hasattr(a.data, "ptr") else a.ctypes.data


def _collective(session: str, make: Any, call: Any) -> Any:
    """Call the library with the blocks that `make` returns. If that fails on one rank, the others raise MismatchError."""
    h = local_handle(session)
    try:
        blocks = make()
    except Exception as e:
        code = h._lib.reject(h._comm, _library.ALLREDUCE, f"{type(e).__name__}: {e}".encode()[:400])
        if code != _library.MISMATCH:
            h._check(code)
        raise
    return call(h, blocks)


def _threads() -> int:
    from distributed import get_worker

    return get_worker().state.nthreads


def kmeans_rank(session: str, blocks: list, index: list[int], options: dict) -> dict:
    """Run k-means on one rank."""
    import numpy as np

    centers = np.zeros((options["clusters"], options["columns"]))
    if options["init"] is not None:
        centers[:] = options["init"]

    def call(h: Any, b: Blocks) -> dict:
        o = b.learn
        o.clusters, o.max_iter, o.tol, o.seed = options["clusters"], options["max_iter"], options["tol"], options["seed"]
        o.plusplus, o.centers = options["init"] is None, centers.ctypes.data
        f = _function(h._lib, "kmeans_fit", c_uint64, POINTER(Learn), POINTER(Part), c_size_t)
        h._check(f(h._comm, ctypes.byref(o), b.parts, b.n))
        return {"labels": b.labels, "centers": centers, "inertia": o.inertia, "iterations": o.iterations,
                "rows": [len(x) for x in b.labels]}

    return _collective(session, lambda: Blocks(blocks, index, options["dtype"], options["columns"], options["total"], _threads()), call)


def kmeans_block(block: Any, centers: Any, type_: str) -> Any:
    """Return the labels of a block."""
    import numpy as np

    if not block.size:
        return _module(block).empty(block.shape[0], "int32")
    centers = np.ascontiguousarray(centers, "float64")
    b = Blocks([block], [0], type_, centers.shape[1], 1)
    b.learn.clusters, b.learn.centers = len(centers), centers.ctypes.data
    lib = _library.load()
    lib.check(_function(lib, "kmeans_predict", POINTER(Learn), POINTER(Part), c_size_t)(ctypes.byref(b.learn), b.parts, b.n))
    return b.labels[0]


def tall_rank(session: str, blocks: list, index: list[int], options: dict) -> dict:
    """Reduce the blocks of one rank, and the targets that follow them if there are any."""
    import numpy as np

    columns = options["columns"]
    half = len(blocks) // 2 if options["targets"] else len(blocks)
    mean, triangle = np.zeros(columns), np.zeros((columns, columns))

    def make() -> Blocks:
        x = blocks[:half]
        for i, y in enumerate(blocks[half:]):
            xp = _module(x[i])
            y = xp.asarray(y)
            if y.ndim != 1 or len(y) != len(x[i]):
                raise ValueError(f"block {index[i]}: y has shape {y.shape}, want ({len(x[i])},)")
            x[i] = xp.column_stack([xp.asarray(x[i], dtype=options["dtype"]), xp.asarray(y, dtype=options["dtype"])])
        return Blocks(x, index, options["dtype"], columns, options["total"], _threads())

    def call(h: Any, b: Blocks) -> dict:
        f = _function(h._lib, "tall_reduce", c_uint64, POINTER(Learn), POINTER(Part), c_size_t, c_void_p, c_void_p)
        h._check(f(h._comm, ctypes.byref(b.learn), b.parts, b.n, mean.ctypes.data, triangle.ctypes.data))
        return {"mean": mean, "triangle": triangle.T, "rows": b.learn.rows}  # the library stores columns

    return _collective(session, make, call)


def _without_labels(result: dict) -> dict:
    return {k: v for k, v in result.items() if k != "labels"}


def _label(result: dict, i: int) -> Any:
    return result["labels"][i]


class Run:
    """Runs an algorithm on the blocks of dask arrays, one rank on each worker that has some, or on those of a Comms."""

    def __init__(self, client: Any, comms: Comms | None) -> None:
        if client is None:
            from distributed import get_client

            client = comms.client if comms is not None else get_client()
        if client.asynchronous:
            raise ValueError("an asynchronous client is not supported; run fit in a thread")
        self.client, self.comms = client, comms

    def __call__(self, function: Any, arrays: list, options: dict, labels: bool = False) -> tuple[dict, Any]:
        """Return the result of rank 0 and, for `labels`, the labels as a dask array."""
        from distributed import wait

        blocks = [self.client.compute(a.to_delayed().reshape(-1).tolist()) for a in arrays]
        wait([f for b in blocks for f in b])
        for f in (f for b in blocks for f in b if f.status != "finished"):
            f.result()
        where = self.client.who_has(blocks[0])
        comms = self.comms
        if comms is None:
            holders = sorted({where[f.key][0] for f in blocks[0]})
            comms = Comms(self.client, holders, timeout=300)
        if not comms.workers:
            comms.init()
        try:
            return self._run(function, comms, blocks, where, options, labels)
        finally:
            if comms is not self.comms:
                comms.destroy()

    def _run(self, function: Any, comms: Comms, blocks: list, where: dict, options: dict, labels: bool) -> tuple[dict, Any]:
        mine: dict[str, list[int]] = {w: [] for w in comms.workers}
        for i, f in enumerate(blocks[0]):
            has = [w for w in where[f.key] if w in mine] or comms.workers
            mine[min(has, key=lambda w: len(mine[w]))].append(i)
        options = {**options, "total": len(blocks[0])}
        results = {w: self.client.submit(function, comms.session, [b[i] for b in blocks for i in index], index, options, workers=[w],
                                         allow_other_workers=False, pure=False) for w, index in mine.items()}
        small = [self.client.submit(_without_labels, r, pure=False) for r in results.values()]
        small = self.client.gather(small)
        if not labels:
            return small[0], None
        parts: list = [None] * len(blocks[0])
        for (w, index), r in zip(mine.items(), small):
            for at, i in enumerate(index):
                parts[i] = self.client.submit(_label, results[w], at, workers=[w], pure=False), r["rows"][at]
        return small[0], _array([f for f, _ in parts], [n for _, n in parts])


def _array(futures: list, rows: list[int]) -> Any:
    import dask.array as da

    name = "millstream-labels-" + uuid.uuid4().hex
    return da.Array({(name, i): f for i, f in enumerate(futures)}, name, (tuple(rows),), dtype="int32")


def checked(x: Any, what: str = "X", ndim: int = 2) -> Any:
    """Return a dask array in blocks of whole rows."""
    import dask.array as da
    import numpy as np

    if not isinstance(x, da.Array):
        if not isinstance(x, np.ndarray) and not hasattr(x, "__cuda_array_interface__"):
            raise TypeError(f"{what}: want a dask array, got {type(x).__name__}")
        x = da.from_array(x, chunks=-1)
    if x.ndim != ndim:
        raise ValueError(f"{what} has {x.ndim} dimensions, want {ndim}")
    if x.dtype.kind not in "iufb":
        raise TypeError(f"{what} has dtype {x.dtype}, want numbers")
    if ndim == 2 and x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    return x


def float_type(x: Any) -> str:
    """Return the type of the computation, as scikit-learn chooses it."""
    return "float32" if x.dtype == "float32" else "float64"
