"""Golden messages of the Dask wire format: every kind of value, and messages as schedulers, workers
and clients send them, encoded by the real packages.

    python wire_golden.py > ../../../wire/testdata/golden.json

writes all of them. Each case has a text that describes the value; Go generates the same text from
the decoded value (package internal/testkit/wiretest). wire_peer.py serves the same cases to the tests.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import fractions
import hashlib
import json
import pathlib
import struct
import sys
import types
import uuid
import warnings
from collections import OrderedDict

import numpy as np
import pandas as pd
import pyarrow as pa

from distributed.core import Status
from distributed.protocol import Serialize, ToPickle, dumps, loads, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize
from distributed.protocol.serialize import Serialized, dask_deserialize, dask_serialize


def hexed(b):
    b = bytes(b)
    if len(b) <= 64:
        return b.hex()
    return f"{len(b)}:{hashlib.sha256(b).hexdigest()}"


def bits(x):
    return "nan" if x != x else struct.pack(">d", x).hex()


def describe(x, loose=False):
    """Return a text that is equal for equal values. With loose, lists and tuples are not distinguished,
    as in message bodies."""

    def d(v):
        return describe(v, loose)

    def row(it):
        return ",".join(map(d, it))

    t = type(x)
    if x is None:
        return "None"
    if t is bool:
        return "true" if x else "false"
    if t is int:
        return f"i{x}"
    if t is float:
        return "f" + bits(x)
    if t is complex:
        return f"c{bits(x.real)}{bits(x.imag)}"
    if t is str:
        return "s" + x.encode("utf8").hex()
    if t is bytes:
        return "b" + hexed(x)
    if t is bytearray:
        return "B" + hexed(x)
    if t is list:
        return f"({row(x)})" if loose else f"[{row(x)}]"
    if t is tuple:
        return f"({row(x)})"
    if t is dict:
        return "{" + ",".join(f"{d(k)}={d(v)}" for k, v in x.items()) + "}"
    if t is set:
        return "set<" + ",".join(sorted(map(d, x))) + ">"
    if t is frozenset:
        return "frozen<" + ",".join(sorted(map(d, x))) + ">"
    if t is dt.datetime:
        f = f"{x.year:04}-{x.month:02}-{x.day:02}T{x.hour:02}:{x.minute:02}:{x.second:02}.{x.microsecond:06}"
        off = x.utcoffset()
        return f"naive{f}" if off is None else f"time{f}{int(off.total_seconds()):+d}"
    if t is dt.date:
        return f"date{x.year}-{x.month}-{x.day}"
    if t is dt.time and x.tzinfo is None:
        return f"clock{x.hour}:{x.minute}:{x.second}.{x.microsecond}"
    if t is dt.timedelta:
        return f"delta{x // dt.timedelta(microseconds=1)}"
    if t is decimal.Decimal:
        return f"decimal{x}"
    if t is uuid.UUID:
        return f"uuid{x}"
    if t is fractions.Fraction:
        return f"fraction{x}"
    if t is pathlib.PurePosixPath:
        return f"path{x}"
    if t is dt.timezone:
        return f"zone{int(x.utcoffset(None).total_seconds())}"
    if t is range:
        return f"range{x.start}:{x.stop}:{x.step}"
    if isinstance(x, np.generic) and x.dtype.kind in "biufcmMSU":
        return f"scalar{x.dtype.str}:{hexed(x.tobytes())}"
    if t is np.ndarray and x.dtype.kind in "biufcmMSU":
        order = "CF" if x.flags.c_contiguous and x.flags.f_contiguous else "C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous else "-"
        shape = "x".join(map(str, x.shape))
        return f"array{x.dtype.str},{shape},{order},{'w' if x.flags.writeable else 'r'}:{hexed(x.tobytes())}"
    if t is pa.Table or t is pa.RecordBatch:
        name = "table" if t is pa.Table else "batch"
        cols = ",".join(f"{n}=[{','.join(map(describe, c.to_pylist()))}]" for n, c in zip(x.schema.names, x.columns))
        return f"{name}{{{cols}}}"
    if t is DeviceArray:
        return f"device{x.x.dtype.str},{'x'.join(map(str, x.x.shape))},{'x'.join(map(str, x.x.strides))}:{hexed(x.x.tobytes(order='A'))}"
    if isinstance(x, enum.Enum):
        return f"enum{t.__module__}.{t.__name__}.{x.name}"
    if isinstance(x, BaseException):
        return f"exception{t.__module__}.{t.__qualname__}({row(x.args)})"
    return "opaque"


class Opaque:
    """A class that Go does not know."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Opaque) and self.n == other.n


Opaque.__module__ = "wire_golden"


class DeviceArray:
    """Replaces cupy.ndarray where there is no GPU: the real cuda family serializes it,
    in host memory, with functions like those of Dask for cupy."""

    def __init__(self, x):
        self.x = x

    @property
    def __cuda_array_interface__(self):
        i = self.x.__array_interface__
        return {"shape": i["shape"], "typestr": i["typestr"], "descr": i["descr"], "stream": 1, "version": 3, "data": (0, False), "strides": None}


DeviceArray.__module__, DeviceArray.__name__, DeviceArray.__qualname__ = "cupy", "ndarray", "ndarray"
sys.modules["cupy"] = types.ModuleType("cupy")
sys.modules["cupy"].ndarray = DeviceArray
for dispatch in (cuda_serialize, cuda_deserialize, dask_serialize, dask_deserialize):
    dispatch._lazy.pop("cupy", None)


@cuda_serialize.register(DeviceArray)
@dask_serialize.register(DeviceArray)
def serialize_device(x):
    header = x.__cuda_array_interface__.copy()
    header["strides"] = tuple(x.x.strides)
    return header, [memoryview(x.x.ravel(order="K").view("u1"))]


@cuda_deserialize.register(DeviceArray)
@dask_deserialize.register(DeviceArray)
def deserialize_device(header, frames):
    (frame,) = frames
    return DeviceArray(np.ndarray(header["shape"], dtype=header["typestr"], buffer=frame, strides=header["strides"]))


def same(a, b):
    """Report whether a value came back unchanged, as Python compares it."""
    if isinstance(a, (pd.DataFrame, pd.Series, pd.Index)):
        return type(a) is type(b) and a.equals(b)
    if isinstance(a, np.ma.MaskedArray):
        return type(a) is type(b) and a.dtype == b.dtype and (a.mask == b.mask).all() and (a.filled() == b.filled()).all()
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() if not a.dtype.hasobject else list(a) == list(b)
    if type(a) in (list, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (pa.Table, pa.RecordBatch)):
        return type(a) is type(b) and a.schema.equals(b.schema) and a.equals(b)
    if describe(a) != "opaque":
        return describe(a) == describe(b)
    return a == b


def scalars():
    yield "none", None
    yield "true", True
    yield "false", False
    for n in (0, 1, -1, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 3**200, -(3**700)):
        yield f"int-{n if abs(n) < 2**70 else 'huge' + ('-negative' if n < 0 else '')}", n
    for name, f in (("zero", 0.0), ("minus-zero", -0.0), ("pi", 3.141592653589793), ("inf", float("inf")), ("minus-inf", float("-inf")), ("nan", float("nan")), ("tiny", 5e-324)):
        yield f"float-{name}", f
    yield "complex", 1.5 - 2j
    for name, s in (("empty", ""), ("ascii", "hello"), ("unicode", "grüße, 世界 🎉"), ("long", "x" * 300), ("nul", "a\0b")):
        yield f"str-{name}", s
    for name, b in (("empty", b""), ("short", b"\x00\xff"), ("long", bytes(range(256)) * 5)):
        yield f"bytes-{name}", b
        yield f"bytearray-{name}", bytearray(b)


def times():
    yield "datetime-naive", dt.datetime(2024, 2, 29, 23, 59, 59, 999999)
    yield "datetime-utc", dt.datetime(2000, 1, 1, tzinfo=dt.timezone.utc)
    yield "datetime-east", dt.datetime(1999, 12, 31, 1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    yield "datetime-west", dt.datetime(1970, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-8), "PST"))
    yield "datetime-first", dt.datetime(1, 1, 1)
    yield "datetime-last", dt.datetime(9999, 12, 31, 23, 59, 59)
    yield "date", dt.date(2024, 2, 29)
    yield "time", dt.time(12, 34, 56, 789)
    yield "timedelta", dt.timedelta(days=1, seconds=2, microseconds=3)
    yield "timedelta-negative", dt.timedelta(microseconds=-1)
    yield "decimal", decimal.Decimal("1.50")
    yield "uuid", uuid.UUID(int=0x12345678123456781234567812345678)
    yield "range", range(0, 10, 3)
    yield "fraction", fractions.Fraction(-1, 3)
    yield "path", pathlib.PurePosixPath("/a/b.c")
    yield "timezone", dt.timezone(dt.timedelta(hours=2))
    yield "timedelta-longest", dt.timedelta.max


def collections():
    yield "list-empty", []
    yield "list", [1, "a", None, 2.5, b"x"]
    yield "list-nested", [[1, [2, [3, []]]], (4, (5,))]
    yield "list-of-bytes-nested", [[b"ab", b"cd"], [b"", 1]]
    yield "tuple-empty", ()
    yield "tuple", (1, ("a",), [2])
    yield "dict-empty", {}
    yield "dict", {"a": 1, "b": [1, 2], "c": {"d": None}}
    yield "dict-keys", {1: "int", 2.5: "float", ("t", 0): "tuple", b"b": "bytes", None: "none", "s": "str", ("n", ("m", 1)): "nested"}
    yield "dict-odd-keys", {frozenset({1}): 1, dt.date(2020, 1, 1): 2}
    yield "set-empty", set()
    yield "set", {1, "a", (2, 3)}
    yield "frozenset", frozenset({1, 2})
    yield "set-in-list", [{1, 2}, frozenset()]
    yield "shared", [[1, 2]] * 3
    yield "dict-of-arrays", {"x": np.arange(5), "y": {"z": np.ones(2)}}
    yield "list-of-arrays", [np.arange(3), np.zeros((2, 2))]
    yield "array-second", [1, [2, np.arange(3)]]
    yield "deep", [[[[[[[[[[1]]]]]]]]]]


def arrays():
    for s in "?bhilqBHILQefdFD":
        yield f"array-dtype-{np.dtype(s).str.strip('|<')}{'l' if s in 'lL' else ''}", np.arange(6).astype(s)
    yield "array-longdouble", np.zeros(3, dtype="g")  # others have undefined padding
    yield "array-big-endian", np.arange(5, dtype=">i4")
    yield "array-big-endian-float", np.linspace(0, 1, 5).astype(">f8")
    yield "array-bytes", np.array([b"ab", b"c", b""])
    yield "array-str", np.array(["ab", "grün", ""])
    yield "array-datetime", np.array(["2020-01-01", "NaT"], dtype="M8[ns]")
    yield "array-datetime-days", np.array(["2020-01-01"], dtype="M8[D]")
    yield "array-timedelta", np.array([1, 2], dtype="m8[25s]")
    yield "array-0d", np.array(7.5)
    yield "array-0d-str", np.array("hello")
    yield "array-empty", np.empty(0)
    yield "array-empty-2d", np.empty((3, 0, 2), dtype="i2")
    yield "array-3d", np.arange(24).reshape(2, 3, 4)
    yield "array-fortran", np.asfortranarray(np.arange(12).reshape(3, 4))
    yield "array-transposed", np.arange(24).reshape(2, 3, 4).T
    yield "array-view-step", np.arange(20)[::3]
    yield "array-view-negative", np.arange(10)[::-1]
    yield "array-view-2d", np.arange(30).reshape(5, 6)[1:4, ::2]
    yield "array-view-contiguous", np.arange(30).reshape(5, 6)[2:4]
    yield "array-permuted", np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2)
    yield "array-broadcast", np.broadcast_to(np.arange(3), (4, 3))
    yield "array-broadcast-0d", np.broadcast_to(np.float64(2.5), (2, 3))
    yield "array-broadcast-view", np.broadcast_to(np.arange(10)[::2][:, None], (5, 3))
    ro = np.arange(4)
    ro.flags.writeable = False
    yield "array-readonly", ro
    yield "array-one-element-dims", np.arange(3).reshape(1, 3, 1)
    yield "scalar-float64", np.float64(1.5)
    yield "scalar-int32", np.int32(-5)
    yield "scalar-datetime", np.datetime64("2020-01-01", "us")
    yield "array-large", np.arange(2000)
    yield "array-structured", np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
    yield "array-object", np.array([1, "a", None], dtype=object)
    yield "array-matrix", np.matrix([[1, 2], [3, 4]])
    yield "array-masked", np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])


def tables():
    cols = {
        "i": pa.array([1, None, 3], pa.int64()),
        "f": pa.array([0.5, float("inf"), None]),
        "s": pa.array(["a", None, "grün"]),
        "b": pa.array([True, False, None]),
        "raw": pa.array([b"\x00", b"", None]),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "small": pa.array([1, 2, 3], pa.int8()),
    }
    yield "table", pa.table(cols)
    yield "table-chunks", pa.concat_tables([pa.table(cols), pa.table(cols).slice(1)])
    yield "table-empty", pa.table({"x": pa.array([], pa.int64())})
    yield "table-no-columns", pa.table({})
    yield "table-dictionary", pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()})
    yield "table-metadata", pa.table({"x": [1]}).replace_schema_metadata({"k": "v"})
    yield "batch", pa.record_batch(cols)
    yield "batch-sliced", pa.record_batch(cols).slice(1, 2)


def errors():
    yield "exception", ValueError("no such key", 5)
    yield "exception-key", KeyError("k")
    yield "exception-os", OSError(2, "No such file")
    yield "exception-none", RuntimeError()


def others():
    yield "opaque", Opaque(5)
    yield "opaque-in-list", [1, Opaque(6), 2]
    yield "opaque-in-dict", {"a": Opaque(7), "b": 1}
    yield "dataframe", pd.DataFrame({"a": np.arange(10), "b": np.linspace(0, 1, 10)})
    yield "timestamp", pd.Timestamp("2020-01-01 00:00:00.123456789")
    yield "ordered-dict", [OrderedDict(a=1)]
    yield "series", pd.Series(["a", "b"])
    yield "dataframes", {"x": pd.DataFrame({"a": [1]}), "y": [pd.DataFrame({"b": [2.5]})]}
    yield "global", len
    yield "class", int


def values():
    for group in (scalars, times, collections, arrays, tables, errors, others):
        yield from group()


def messages():
    """Return messages as they are sent, without values of the families, which are above."""
    yield "handshake", {"compression": None, "python": (3, 11, 7), "pickle-protocol": 5}
    yield "identity", {"op": "identity", "n_workers": 0, "reply": True}
    yield "register-client", {"op": "register-client", "client": "Client-1", "reply": False, "versions": {}}
    yield "stream-start", [{"op": "stream-start", "warning": [], "error": []}]
    yield "ok", "OK"
    yield "nil", None
    yield "tuple-keys", {"op": "x", "who_has": {("a", 0): ["tcp://1"], 5: [], 2.5: None, b"k": 1}}
    yield "set", {"op": "x", "keys": {"a-1", ("b", 2)}}
    yield "enum", {"op": "worker-status-change", "status": Status.running, "list": [Status.paused]}
    yield "big-int-bounds", [2**64 - 1, -(2**63), 2**63]
    yield "get-data", {"op": "get_data", "keys": ["arr-b"], "who": None, "reply": True}
    yield "get-data-reply", {"status": "OK", "data": {"arr-b": Serialize(np.arange(5)), ("t", 1): Serialize([1, b"x"])}}
    yield "nested-serialize", [{"a": Serialize(1)}, {"b": [Serialize(b"raw"), Serialize(None)]}]
    yield "to-pickle", {"op": "x", "annotations": ToPickle({"priority": 5, "t": (1, 2)}), "code": ToPickle(())}
    yield "to-pickle-array", {"x": ToPickle(np.arange(100))}
    yield "task-finished", [task_finished(i) for i in range(3)]
    yield "compute-task", [
        {
            "op": "compute-task", "key": ("arr-b", 0, 1), "run_id": 21, "priority": (-2, 1, 0.5), "stimulus_id": "s-1",
            "who_has": {"arr-a": ["tcp://127.0.0.1:1"], ("t", 1): []}, "nbytes": {"arr-a": 40}, "run_spec": ToPickle((1, "spec")),
            "resource_restrictions": {"gpu": 1}, "actor": False, "annotations": {"retries": 2}, "span_id": "u-1",
        }
    ]
    yield "update-graph", [
        {
            "op": "update-graph", "expr_ser": Serialized(*serialize({"x": 1})), "keys": {"add-1"}, "internal_priority": {"add-1": 0},
            "submitting_task": None, "fifo_timeout": "100 ms", "actors": False, "code": ToPickle(()), "annotations": ToPickle({}),
            "span_metadata": ToPickle({"collections": [{"type": "Future"}]}),
        }
    ]
    yield "task-erred", [
        {
            "op": "task-erred", "key": "k", "run_id": 1, "status": "error", "exception": Serialize(ValueError("bad")),
            "traceback": None, "exception_text": "ValueError('bad')", "traceback_text": "  File ...", "thread": 1, "startstops": [],
        }
    ]
    yield "heartbeat", {
        "op": "heartbeat_worker", "address": "tcp://127.0.0.1:1", "now": 1700000000.25,
        "metrics": {"digests_total_since_heartbeat": {("execute", "span", "inc", "thread-cpu", "seconds"): 0.5}, "cpu": 2.0}, "executing": {("x", 1): 0.1},
    }


def task_finished(i):
    return {
        "op": "task-finished", "key": ("inc-0123456789abcdef", i), "run_id": 100 + i, "nbytes": 28, "type": b"\x80\x04\x95\x14\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94\x8c\x03int\x94\x93\x94.",
        "typename": "int", "metadata": {}, "thread": 140245678901234, "startstops": ({"action": "compute", "start": 1700000000.25, "stop": 1700000000.5},),
        "status": "OK", "stimulus_id": f"task-finished-{1700000000.5 + i}",
    }


COMPRESSIBLE = b"abcdefgh" * 4000


def special():
    """Return values with other options: (name, value, arguments of dumps)."""
    noise = np.random.default_rng(1).integers(0, 256, 10000, dtype="u1").tobytes()
    for c in ("lz4", "zstd", "snappy", "zlib"):
        ctx = {"compression": c}
        yield f"compressed-{c}", COMPRESSIBLE, {"context": ctx}
        yield f"compressed-{c}-shards", COMPRESSIBLE, {"context": ctx, "frame_split_size": 12000}
        yield f"compressed-{c}-array", np.zeros(4000), {"context": ctx}
        yield f"compressed-{c}-noise", noise, {"context": ctx}
    yield "sharded", bytes(range(256)) * 4, {"frame_split_size": 100}
    yield "sharded-array", np.arange(100), {"frame_split_size": 64}
    yield "sharded-collection", [bytes(300), np.arange(50), "x" * 500, b""], {"frame_split_size": 100}
    yield "family-msgpack", {"a": [1, "b"], "c": (2.5, b"x")}, {"serializers": ("msgpack",)}
    yield "family-msgpack-list", [1, 2, [3]], {"serializers": ("msgpack",)}
    yield "family-pickle-only", np.arange(10), {"serializers": ("pickle",)}
    yield "family-pickle-bytes", b"x" * 100, {"serializers": ("pickle",)}
    cuda = {"serializers": ("cuda", "dask", "pickle", "error"), "context": {"compression": "lz4"}}
    yield "cuda", DeviceArray(np.arange(6, dtype="f4").reshape(2, 3)), dict(cuda)
    yield "cuda-fortran", DeviceArray(np.asfortranarray(np.arange(6).reshape(2, 3))), dict(cuda)
    yield "cuda-large", DeviceArray(np.zeros(5000)), {**cuda, "frame_split_size": 1000}
    yield "cuda-collection", {"gpu": DeviceArray(np.arange(3)), "cpu": np.zeros(4000), "both": [DeviceArray(np.zeros(2, "u1")), 1]}, dict(cuda)
    yield "cuda-by-host", DeviceArray(np.arange(4)), {"serializers": ("dask", "pickle")}
    yield "protocol-4", {"a": np.arange(3), "b": "x"}, {"context": {"pickle-protocol": 4}}


# A list in a pickle with an unknown item is unknown as a whole.
ALSO_OPAQUE = {"dataframes": "{s78=opaque,s79=opaque}"}
NO_COMPRESSION = {"compression": None}


def cases():
    """Return (name, kind, original value, frames, text)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, v in values():
            frames = dumps(Serialize(v), context=NO_COMPRESSION)
            yield name, "value", v, frames, ALSO_OPAQUE.get(name) or describe(loads([bytearray(f) for f in frames]))
        for name, v, kw in special():
            ctx = {**NO_COMPRESSION, **kw.pop("context", {})}
            frames = dumps(Serialize(v), context=ctx, **kw)
            back = loads([bytearray(f) for f in frames])
            yield name, "value", back, frames, describe(back)
        for name, v in messages():
            frames = dumps(v, context=NO_COMPRESSION)
            back = loads([bytearray(f) for f in frames])
            yield "message-" + name, "message", back, frames, describe(back, loose=True)


def main():
    out = []
    for name, kind, _, frames, text in cases():
        out.append({"name": name, "kind": kind, "text": text, "frames": [base64.b64encode(bytes(f)).decode() for f in frames]})
    doc = {"comment": "made by tests/interop/peers/wire_golden.py", "distributed": __import__("distributed").__version__, "cases": out}
    json.dump(doc, sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    sys.modules["wire_golden"] = sys.modules["__main__"]
    main()
