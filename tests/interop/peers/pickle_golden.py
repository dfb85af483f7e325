"""Writes internal/wire/pickle/testdata/golden.json and tasks.json: pickles of the real packages, and their contents.

Run it from anywhere, with the interpreter that has the peers:

    .local/venv/bin/python tests/interop/peers/pickle_golden.py
"""

import base64
import collections
import datetime
import decimal
import fractions
import functools
import io
import json
import operator
import pathlib
import pickle
import sys
import uuid
import zoneinfo

import cloudpickle
import dask
import distributed
import numpy as np
import pandas as pd
from dask._expr import LLGExpr
from dask._task_spec import Alias, DataNode, Dict, List, Set, Task, TaskRef, Tuple
from distributed.core import error_message
from pickle_describe import describe

TESTDATA = pathlib.Path(__file__).resolve().parents[3] / "wire" / "pickle" / "testdata"
UTC = datetime.timezone.utc


def b64(b) -> str:
    return base64.b64encode(b).decode()


class Point:
    """A class of the main program, which cloudpickle pickles by value."""

    def __init__(self, x, y):
        self.x, self.y = x, y


def plain() -> dict:
    shared = ["shared"]
    loop: list = [1]
    loop_dict = {"list": loop}
    return {
        "none": None, "true": True, "false": False,
        "ints": [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64],
        "big int": [10**40, -(10**40), 1 << 2047, -(1 << 2047), (1 << 2048) - 1, 1 << 20000],
        "floats": [0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan")],
        "str": ["", "a", "é€😀", "x" * 255, "y" * 256, "nul\0nul", "line\nline", "\\u0041", "\ud83d lone", "\udc80"],
        "bytes": [b"", b"a", bytes(range(256)), b"z" * 300],
        "bytearray": [bytearray(), bytearray(b"abc"), bytearray(300)],
        "list": [[], [1], [1, [2, [3]]], list(range(1100))],
        "tuple": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((), ((),))],
        "dict": [{}, {"a": 1}, {1: 2, (1, "t"): None, b"k": [], 1.5: {}, None: 0, True and "x": 1}, {i: str(i) for i in range(1100)}],
        "set": [set(), {1}, {1, 2, "a"}, set(range(1100))],
        "frozenset": [frozenset(), frozenset({1, "a", (1, 2)})],
        "shared": [shared, shared, (shared, shared)],
        "cycle in dict": {"a": (loop_dict, 1)},
        "complex": [1j, complex(1.5, -2)],
        "range": [range(5), range(2, -9, -3), range(10**20)],
        "slice": [slice(None), slice(1, None, 2), slice("a", (1,), None)],
        "builtins": [int, len, ValueError, Exception, print, type(None), Ellipsis, NotImplemented],
    }


def library() -> dict:
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    return {
        "datetime": [datetime.datetime(2024, 2, 29, 23, 59, 58, 999999), datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), datetime.datetime(2020, 10, 25, 2, 30, fold=1)],
        "datetime aware": [
            datetime.datetime(2024, 2, 29, 23, 59, 58, 1, UTC),
            datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30))),
            datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(-datetime.timedelta(hours=3), "ART")),
            datetime.datetime(2024, 7, 1, 12, tzinfo=berlin),
            datetime.datetime(2020, 10, 25, 2, 30, tzinfo=berlin),
            datetime.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=berlin),
        ],
        "date": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
        "time": [datetime.time(23, 59, 58, 999999), datetime.time(1, tzinfo=UTC), datetime.time(2, 30, fold=1, tzinfo=berlin)],
        "timedelta": [datetime.timedelta(0), datetime.timedelta(1, 2, 3), datetime.timedelta(microseconds=-1), datetime.timedelta.max, datetime.timedelta.min],
        "timezone": [UTC, datetime.timezone(datetime.timedelta(seconds=-3601)), datetime.timezone(datetime.timedelta(hours=1), "X")],
        "decimal": [decimal.Decimal("1.50"), decimal.Decimal("-1E+30"), decimal.Decimal("NaN")],
        "fraction": [fractions.Fraction(1, 3), fractions.Fraction(-(10**30), 7)],
        "uuid": [uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-9abc-def012345678"), uuid.UUID(int=2**128 - 1)],
        "path": [pathlib.PurePosixPath("/a/b.txt"), pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath("/"), pathlib.PurePosixPath("."), pathlib.PosixPath("/tmp/x"), pathlib.PureWindowsPath("C:\\a\\b")],
        "ordered dict": [collections.OrderedDict(), collections.OrderedDict(b=1, a=[2])],
        "default dict": [collections.defaultdict(list, a=[1]), collections.defaultdict(None, b=2), collections.defaultdict()],
        "counter": collections.Counter("abracadabra"),
        "deque": [collections.deque([1, 2, [3]]), collections.deque([1, 2, 3], 2), collections.deque()],
        "partial": functools.partial(operator.add, 1),
        "exceptions": [ValueError("bad"), KeyError("k"), Exception(), RuntimeError("a", 2), ZeroDivisionError("division by zero"), KeyboardInterrupt()],
    }


def arrays() -> dict:
    kinds = "?bhilqBHILQefdFD"
    out = {f"array {np.dtype(k).str[1:]} {k}": np.arange(6).astype(k).reshape(2, 3) for k in kinds}
    base = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    frozen = np.arange(5)
    frozen.flags.writeable = False
    out |= {
        "array big endian": np.arange(3, dtype=">f8"),
        "array 0-d": np.array(1.5),
        "array empty": np.empty((0, 3)),
        "array fortran": np.asfortranarray(base[0]),
        "array permuted": base.transpose(1, 2, 0),
        "array strided": base[:, ::2, 1:3],
        "array read-only": frozen,
        "array str": np.array(["a", "é€", ""]),
        "array bytes": np.array([b"a", b"bcd"]),
        "array datetime64": np.array(["2024-01-01", "NaT"], dtype="M8[ns]"),
        "array timedelta64": np.array([1, 2], dtype="m8[25s]"),
        "array object": np.array([1, "x", None, [1.5]], dtype=object),
        "array object fortran": np.asfortranarray(np.array([[1, "a"], [2, "b"]], dtype=object)),
        "array record": np.array([(1, 2.5, b"x")], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "S3")]),
        "array record aligned": np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8", (2, 2))], align=True)),
        "array void": np.zeros(2, dtype="V5"),
        "dtype": [np.dtype("f8"), np.dtype(">u2"), np.dtype("M8[us]"), np.dtype("M8"), np.dtype("U7"), np.dtype("O"), np.dtype([("a", "i4"), ("n", [("x", "f4")])])],
        "scalars": [np.float64(1.5), np.float32(-2), np.float16(0.1), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1 + 2j), np.str_("é"), np.bytes_(b"ab"), np.datetime64("2024-01-01", "D")],
    }
    return out


def pandas_objects() -> dict:
    return {
        "timestamp": [pd.Timestamp("2024-01-01T12:00:00.123456"), pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-07-01", tz="Europe/Berlin"), pd.NaT],
        "series": pd.Series([1.5, 2.5], name="s"),
        "frame": pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": ["x", "y"]}),
    }


def case(name: str, obj, protocol: int, data: bytes, buffers=()) -> dict:
    want = describe(obj)
    if protocol < 4 and "time" in name:
        want = describe(pickle.loads(data))  # without fold, which they do not have
    out = {"name": name, "protocol": protocol, "pickle": b64(data), "want": want}
    if buffers:
        out["buffers"] = [b64(b.raw()) for b in buffers]
    return out


def plain_dumps(obj, protocol: int) -> bytes:
    """Pickle as plain Python does: Dask has exceptions pickled by tblib."""
    f = io.BytesIO()
    p = pickle.Pickler(f, protocol)
    p.dispatch_table = {}
    p.dump(obj)
    return f.getvalue()


def golden() -> list:
    out = []
    for group in (plain(), library(), arrays(), pandas_objects()):
        for name, obj in group.items():
            for protocol in range(2, 6):
                out.append(case(name, obj, protocol, pickle.dumps(obj, protocol)))
            buffers: list = []
            data = pickle.dumps(obj, 5, buffer_callback=buffers.append)
            if buffers:
                out.append(case(name + " out of band", obj, 5, data, buffers))
    errors = library()["exceptions"]
    missing = FileNotFoundError(2, "No such file or directory", "/nowhere")
    for protocol in range(2, 6):
        out.append(case("exceptions of Python alone", errors, protocol, plain_dumps(errors, protocol)))
        if protocol > 2:  # which has only OSError
            out.append(case("OSError", missing, protocol, pickle.dumps(missing, protocol)))
            out.append(case("OSError of Python alone", missing, protocol, plain_dumps(missing, protocol)))
    for name in ("none", "ints", "floats", "str", "list", "tuple", "dict", "shared"):
        for protocol in (0, 1):
            obj = plain()[name]
            out.append(case(name, obj, protocol, pickle.dumps(obj, protocol)))
    return out


def relocate(f):
    """Remove the file name from a function: the golden files are the same on all machines."""
    f.__code__ = f.__code__.replace(co_filename="program.py")
    return f


def failure() -> dict:
    try:
        try:
            raise KeyError("inner")
        except KeyError as e:
            raise ValueError("outer", 3) from e
    except ValueError as e:
        return error_message(e)


def tasks() -> list:
    offset = 5
    relocate(Point.__init__)

    def closure(x):
        return x + offset

    nodes = {
        "task": Task("k", operator.add, 40, TaskRef("j")),
        "task kwargs": Task(("t", 1), sorted, [3, 1], reverse=True, key=TaskRef("f")),
        "task nested": Task("n", sum, List(TaskRef("a"), Tuple(TaskRef("b"), 1), Dict({"x": TaskRef("c")}))),
        "task lambda": Task("l", relocate(lambda x: x + 1), TaskRef("a")),
        "task closure": Task("c", relocate(closure), 1),
        "task partial": Task("p", functools.partial(operator.mul, 3), 4),
        "task method": Task("m", str.upper, "a"),
        "task array": Task("arr", np.sum, np.arange(4)),
        "task point": Task("pt", Point, 1, 2),
        "alias": Alias("a", "b"),
        "alias of itself": Alias("a"),
        "data": DataNode("d", [1, 2, {"x": 3}]),
        "list": List(1, TaskRef("a")),
        "tuple": Tuple(TaskRef("a"), TaskRef("a")),
        "set": Set(TaskRef("a"), 2),
        "dict": Dict({"x": TaskRef("a"), "y": 1}),
        "ref": TaskRef(("x", 0)),
    }
    out = []
    for name, node in nodes.items():
        data = distributed.protocol.pickle.dumps(node, protocol=5)
        want = {"class": type(node).__name__, "key": describe(node.key)}
        if isinstance(node, Task):
            func = node.func
            while isinstance(func, functools.partial):
                func = func.func
            want["func"] = f"{func.__module__}.{func.__qualname__}" if hasattr(func, "__module__") else f"builtins.{func.__qualname__}"
            want["args"] = describe(tuple(node.args)) if name not in ("task nested",) else ""
            want["kwargs"] = describe({k: v for k, v in node.kwargs.items() if k != "constructor"})
        want["deps"] = sorted(describe(d) for d in (node.dependencies if hasattr(node, "dependencies") else [node.key]))
        out.append({"name": name, "pickle": b64(data), "want": want})
    return out


def main() -> None:
    TESTDATA.mkdir(parents=True, exist_ok=True)
    sys.setrecursionlimit(5000)
    made_with = {"python": sys.version.split()[0], "dask": dask.__version__, "distributed": distributed.__version__, "numpy": np.__version__, "pandas": pd.__version__, "cloudpickle": cloudpickle.__version__}
    (TESTDATA / "golden.json").write_text(json.dumps({"made_with": made_with, "cases": golden()}, indent=0) + "\n")
    globals()["__file__"] = "program.py"
    message = relocate(failure)()
    graph = {"k": Task("k", operator.add, 40, TaskRef("j")), "j": DataNode("j", 2)}
    extra = {
        "made_with": made_with,
        "tasks": tasks(),
        "exception": b64(message["exception"].data),
        "traceback": b64(message["traceback"].data),
        "graph": b64(pickle.dumps(LLGExpr(graph), 5)),
    }
    (TESTDATA / "tasks.json").write_text(json.dumps(extra, indent=0) + "\n")


if __name__ == "__main__":
    main()
