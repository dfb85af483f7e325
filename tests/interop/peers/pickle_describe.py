"""Describes Python objects in a text that the Go tests also generate from their values.

Two descriptions are equal only if the objects have the same types and the same values. With shape=True sharing and
cycles are described as well; this is for comparing Python objects with each other.
"""

import collections
import datetime
import decimal
import fractions
import functools
import pathlib
import struct
import types
import uuid
import zoneinfo

import numpy as np
import pandas as pd
from dask._task_spec import Alias, GraphNode, TaskRef


def bits(x: float) -> str:
    return "nan" if x != x else struct.pack(">d", x).hex()


def dtype(d: np.dtype) -> str:
    if d.subdtype is not None:
        base, shape = d.subdtype
        return f"{dtype(base)}*{list(shape)}"
    if d.fields is None:
        return d.str
    parts = [f"{name}@{d.fields[name][1]}:{dtype(d.fields[name][0])}" for name in d.names]
    return f"record{d.itemsize}{{{', '.join(parts)}}}"


def zone(z) -> str:
    if z is None:
        return "-"
    if isinstance(z, zoneinfo.ZoneInfo):
        return f"zoneinfo:{z.key}"
    offset = z.utcoffset(None)
    name = z.__getinitargs__()[1] if len(z.__getinitargs__()) == 2 else ""
    return f"timezone:{int(offset.total_seconds())}:{name}"


class Describer:
    def __init__(self, shape: bool):
        self.shape = shape
        self.seen: dict[int, int] = {}
        self.keep: list = []  # ids are valid only while the objects live

    def items(self, xs) -> str:
        return ", ".join(self(x) for x in xs)

    def pairs(self, d) -> str:
        return ", ".join(f"{self(k)}: {self(v)}" for k, v in d.items())

    def __call__(self, x) -> str:
        shared = (list, dict, set, bytearray, collections.deque)
        if self.shape and (isinstance(x, shared) or isinstance(x, tuple) and x or hasattr(x, "__dict__") or hasattr(type(x), "__slots__")):
            if isinstance(x, (type, types.FunctionType, types.BuiltinFunctionType)):
                return self.describe(x)
            if id(x) in self.seen:
                return f"@{self.seen[id(x)]}"
            self.seen[id(x)] = len(self.seen)
            self.keep.append(x)
        return self.describe(x)

    def describe(self, x) -> str:
        t = type(x)
        if x is None or t is bool:
            return str(x)
        if t is int:
            return f"int:{x:x}"
        if t is float:
            return f"float:{bits(x)}"
        if t is str:
            return f"str:{x.encode('utf-8', 'surrogatepass').hex()}"
        if t is bytes or t is bytearray:
            return f"{t.__name__}:{x.hex()}"
        if t is list:
            return f"[{self.items(x)}]"
        if t is tuple:
            return f"({self.items(x)})"
        if t is dict:
            return f"{{{self.pairs(x)}}}"
        if t is set or t is frozenset:
            return f"{t.__name__}{{{', '.join(sorted(self(i) for i in x))}}}"
        if t is complex:
            return f"complex:{bits(x.real)}:{bits(x.imag)}"
        if t is range or t is slice:
            return f"{t.__name__}({self(x.start)}, {self(x.stop)}, {self(x.step)})"
        return self.library(x)

    def library(self, x) -> str:
        t = type(x)
        if t is collections.OrderedDict:
            return f"odict{{{self.pairs(x)}}}"
        if t is collections.defaultdict:
            return f"ddict:{self(x.default_factory)}{{{self.pairs(x)}}}"
        if t is collections.Counter:
            return f"counter{{{self.pairs(x)}}}"
        if t is collections.deque:
            return f"deque:{-1 if x.maxlen is None else x.maxlen}[{self.items(x)}]"
        if t is datetime.timedelta:
            return f"timedelta:{x.days}:{x.seconds}:{x.microseconds}"
        if x is pd.NaT:
            return "object"
        if isinstance(x, datetime.datetime):
            ns = x.microsecond * 1000 + getattr(x, "nanosecond", 0)
            wall = x.strftime("%Y-%m-%dT%H:%M:%S") if x.year >= 1000 else f"{x.year:04d}" + x.strftime("-%m-%dT%H:%M:%S")
            if x.tzinfo is None:
                return f"naive:{wall}.{ns:09d}:{x.fold}"
            return f"datetime:{wall}.{ns:09d}:{int(x.utcoffset().total_seconds())}"
        if t is datetime.date:
            return f"date:{x.isoformat()}"
        if t is datetime.time:
            return f"time:{x.hour}:{x.minute}:{x.second}:{x.microsecond}:{x.fold}:{zone(x.tzinfo)}"
        if isinstance(x, datetime.tzinfo):
            return zone(x)
        if t is decimal.Decimal:
            return f"decimal:{x}"
        if t is fractions.Fraction:
            return f"fraction:{x.numerator:x}:{x.denominator:x}"
        if t is uuid.UUID:
            return f"uuid:{x}"
        if isinstance(x, pathlib.PurePath):
            return f"path:{t.__name__}:{x}"
        if isinstance(x, np.dtype):
            return f"dtype:{dtype(x)}"
        if t is np.ndarray:
            head = f"array:{dtype(x.dtype)}:{list(x.shape)}:"
            if x.dtype.hasobject:
                return head + f"[{self.items(x.ravel(order='C').tolist())}]"
            return head + x.tobytes(order="C").hex()
        if isinstance(x, np.generic):
            return f"scalar:{dtype(x.dtype)}:{x.tobytes().hex()}"
        if isinstance(x, BaseException):
            return f"exception:{t.__module__}.{t.__qualname__}({self.items(x.args)}):{str(x)}"
        if isinstance(x, (TaskRef, Alias)):
            return f"ref:{self(getattr(x, 'target', x.key))}"
        if x is Ellipsis or x is NotImplemented:
            return f"global:builtins.{x!r}"
        if isinstance(x, (type, types.FunctionType, types.BuiltinFunctionType)):
            return f"global:{x.__module__}.{x.__qualname__}"
        if self.shape:
            return self.instance(x)
        return "object"

    def instance(self, x) -> str:
        """Describe objects that are only compared with other Python objects."""
        t = type(x)
        name = f"{t.__module__}.{t.__qualname__}"
        if isinstance(x, (pd.DataFrame, pd.Series)):
            return f"{name}:{x.to_json()}:{[str(d) for d in (x.dtypes if x.ndim == 2 else [x.dtype])]}"
        if isinstance(x, GraphNode):
            return f"{name}({', '.join(self(getattr(x, s, None)) for s in type(x).get_all_slots() if s not in ('_repr', '_token'))})"
        if isinstance(x, tuple):
            return f"{name}({self.items(x)})"
        if isinstance(x, (list, set, frozenset, collections.deque)):
            return f"{name}[{self.items(sorted(x, key=self) if isinstance(x, (set, frozenset)) else x)}]"
        if isinstance(x, dict):
            return f"{name}{{{self.pairs(x)}}}{self(vars(x)) if hasattr(x, '__dict__') else ''}"
        if isinstance(x, functools.partial):
            return f"{name}({self(x.func)}, {self(x.args)}, {self(x.keywords)})"
        if hasattr(x, "__dict__"):
            return f"{name}{self(vars(x))}"
        if hasattr(t, "__slots__"):
            return f"{name}({self.items(getattr(x, s, None) for s in t.__slots__)})"
        return f"{name}:{x!r}"


def describe(x, shape: bool = False) -> str:
    return Describer(shape)(x)
