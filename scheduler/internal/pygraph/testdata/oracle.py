"""Computes the tasks of a client's expressions with Dask, to compare them with those of Go.

Messages on stdin and stdout are a u64 length and msgpack. This side sends the cases, [name, header, frames, keys], and
gets [ok, [[key, deps, spec, buffers, order, go], ...]] for each; at the end it sends a list of errors and the number of
cases.

An argument selects the cases with this text in their names. --dump FILE writes the small ones to a file: the seeds of
the fuzz test.
"""

import base64

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import math
import operator
import random
import struct
import sys
import threading
import types

import msgpack
import numpy as np
from dask import delayed
from dask._expr import LLGExpr
from dask._task_spec import Alias, DataNode, GraphNode, List, NestedContainer, Task, TaskRef
from distributed.client import Client, Future
from distributed.protocol import pickle
from distributed.protocol.core import msgpack_encode_default
from distributed.protocol.serialize import deserialize, serialize, to_serialize
from distributed.scheduler import _cull, _materialize_graph

STDIN, STDOUT = sys.stdin.buffer, sys.stdout.buffer
sys.stdout = sys.stderr


def send(obj):
    b = msgpack.packb(obj, use_bin_type=True)
    STDOUT.write(struct.pack("<Q", len(b)) + b)
    STDOUT.flush()


def receive():
    (n,) = struct.unpack("<Q", STDIN.read(8))
    return msgpack.unpackb(STDIN.read(n), use_list=False, strict_map_key=False)


class Capture(Client):
    """A client without a scheduler, which records its messages."""

    def __init__(self):
        self._refcount_lock = threading.RLock()
        self.futures = {}
        self.sent = []

    def _graph_to_futures(self, expr, keys, span_metadata, internal_priority=None, **kwargs):
        self.sent.append((expr, list(keys), internal_priority))
        return {k: None for k in keys}

    def __del__(self):
        pass


CASES = []  # (name, expr, keys, order, expected to be split by Go)


def case(name, make, ok=True):
    client = Capture()
    make(client)
    for i, (expr, keys, order) in enumerate(client.sent):
        CASES.append((f"{name}#{i}" if i else name, expr, keys, order, ok))


def graph(name, dsk, keys, ok=True):
    CASES.append((name, LLGExpr(dsk), keys, None, ok))


# Functions and their arguments.


def plain(*args, **kwargs):
    return [args, sorted(kwargs.items())]


def inc(x, y=1):
    return x + y


def recursive(n):
    return 1 if n <= 0 else n * recursive(n - 1)


CONSTANT = {"a": [1, 2, 3]}


def with_global(x):
    return (x, CONSTANT["a"])


def closure(data):
    def inner(x):
        data.append(x)
        return list(data)

    return inner


def same_object(data):
    return lambda x: x is data


class Adder:
    factor = 3

    def __init__(self, n):
        self.n = n

    def add(self, x):
        return x + self.n * self.factor

    def __call__(self, x):
        return self.add(x)

    @classmethod
    def make(cls, x):
        return cls(x).n

    @staticmethod
    def double(x):
        return 2 * x


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@dataclasses.dataclass
class Point:
    x: int
    y: list


class Color(enum.Enum):
    RED = 1


class Bomb:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


Pair = collections.namedtuple("Pair", "left right")


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


@decorated
def wrapped(x):
    return x + 1


async def coro(x):
    return x


def cyclic():
    a = [1]
    a.append(a)
    return a


class Node:
    def __init__(self):
        self.me = self
        self.list = [self]


shared = [1, 2]
future = Future("future-1")
other = Future(("tuple", 2, "key"))
big = random.Random(1).randbytes(300_000)
array = np.arange(100_000, dtype="f8")
readonly = np.frombuffer(big, dtype="u1")

functions = {
    "global": operator.add,
    "builtin": divmod,
    "class": complex,
    "dask": operator.itemgetter(1).__class__,
    "ufunc": np.add,
    "numpy": np.hypot,
    "lambda": lambda x, y: (x, y),
    "main": plain,
    "global-data": lambda x, y: with_global(x),
    "recursive": lambda x, y: recursive(3),
    "closure": functools.partial(lambda f, x, y: f(x), closure([1])),
    "bound": functools.partial(Adder(2).add),
    "partial": functools.partial(plain, 1, k=[shared, shared]),
    "callable": functools.partial(Adder(4)),
    "classmethod": functools.partial(Adder.make),
    "staticmethod": functools.partial(Adder.double),
    "wrapped": functools.partial(wrapped),
    "math": math.atan2,
    "slice": slice,
    "methodcaller": functools.partial(operator.methodcaller("__repr__")),
}
two = {"global", "builtin", "class", "ufunc", "numpy", "lambda", "main", "global-data", "recursive", "closure", "partial", "math", "slice"}
for name, f in functions.items():
    args = (1, 2) if name in two else (1,)
    # Unpickling an object of a user's class may fail, which only Python can try.
    ok = name not in ("bound", "callable", "classmethod")
    case(f"submit {name}", lambda c: c.submit(f, *args), ok)
    case(f"map {name}", lambda c: c.map(f, *([[1, 2, 3]] * len(args))), ok)

values = {
    "none": None,
    "bools": [True, False],
    "ints": [0, -1, 255, 256, 65535, 65536, 2**31, -(2**31) - 1, 2**63, -(2**63), 2**200, -(2**200)],
    "floats": [0.0, -0.0, 1.5, float("inf"), 1e300],
    "complex": 1 + 2j,
    "text": ["", "a", "ümlaut", "x" * 300, "\U0001f600"],
    "bytes": [b"", b"a", b"x" * 300, bytearray(b"abc")],
    "nested": {"a": [1, (2, {3: {4}})], (1, 2): frozenset([1])},
    "shared": [shared, shared, (shared,)],
    "empty": [[], (), {}, set(), frozenset()],
    "dates": [datetime.datetime(2020, 1, 2), datetime.timedelta(1), datetime.date(2020, 1, 1), datetime.timezone.utc],
    "decimal": decimal.Decimal("1.50"),
    "ordered": collections.OrderedDict(a=1, b=[2]),
    "default": collections.defaultdict(list, a=[1]),
    "deque": collections.deque([1, 2], 5),
    "counter": collections.Counter("abca"),
    "namedtuple": Pair(1, [2]),
    "dataclass": Point(1, [2]),
    "slots": Slotted(1, [2]),
    "enum": Color.RED,
    "object": Adder(3),
    "itself": Node(),
    "class": [Adder, int, Pair],
    "function": [operator.add, inc, lambda x: x],
    "module": types,
    "range": [range(3), slice(1, 2), Ellipsis, NotImplemented],
    "array": np.arange(10),
    "array2": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "object array": np.array([1, "a", None], dtype=object),
    "structured": np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
    "scalar": np.float64(1.5),
    "dtype": np.dtype("M8[ns]"),
    "error": ValueError("bad", 1),
    "big": big,
    "big array": array,
    "readonly array": readonly,
    "two views": [array, array],
}
for name, v in values.items():
    users = {"namedtuple", "dataclass", "slots", "enum", "object", "itself", "class", "error"}
    case(f"submit of {name}", lambda c: c.submit(plain, v, k=v), name not in users)
    large = {"big", "big array", "readonly array", "two views", "class"}
    case(f"map of {name}", lambda c: c.map(plain, [v, v], [1, 2]), name not in users)
    # Above 100,000 bytes a keyword argument is a task; near that size Go leaves it to Python.
    case(f"map with {name}", lambda c: c.map(plain, [1, 2], k=v), ok=name not in large | users)

case("submit future", lambda c: c.submit(inc, future))
case("submit futures at depth", lambda c: c.submit(plain, [future, {"a": (other, {1, 2})}], k=[[future]]))
case("submit set of futures", lambda c: c.submit(plain, {future}))
case("submit namedtuple of future", lambda c: c.submit(plain, Pair(future, 1)), ok=False)
case("submit dict with key future", lambda c: c.submit(plain, {future: 1}))
case("submit object with future", lambda c: c.submit(plain, Adder(future)), ok=False)
case("submit closure over future", lambda c: c.submit(functools.partial(plain, future), 1))
case("map futures", lambda c: c.map(inc, [future, other, 1]))
case("map futures at depth", lambda c: c.map(plain, [[future, [other]], {"a": future}, (1, future), {future}, [1, [2]]], [1, 2, 3, 4, 5]))
case("map shared future lists", lambda c: (lambda x: c.map(plain, [x, x, [x, x]]))([future]))
case("map with future", lambda c: c.map(inc, [1, 2], y=future))
case("map with list of futures", lambda c: c.map(plain, [1, 2], k=[future, other], j=1))
case("map future in frozenset", lambda c: c.map(plain, [frozenset([future])]), ok=False)
case("map future in namedtuple", lambda c: c.map(plain, [Pair(future, 1)]), ok=False)
case("map future as key", lambda c: c.map(plain, [{future: 1}]), ok=False)
case("map future in object", lambda c: c.map(plain, [Adder(future)]), ok=False)
case("map delayed", lambda c: c.map(plain, [delayed(inc)(1)]), ok=False)
case("map closure over future", lambda c: c.map(functools.partial(plain, future), [1]))
case("map aliases", lambda c: c.map(plain, [Alias("a", "b"), TaskRef("c")]))
case("map tasks", lambda c: c.map(plain, [Task("a", inc, 1)]), ok=False)

case("submit same object", lambda c: c.submit(same_object(shared), shared))
case("map same object", lambda c: c.map(same_object(shared), [shared, [1, 2]]))
case("map same object twice", lambda c: c.map(lambda x, y, z=None: (x is y, y is z), [shared], [shared], z=shared))
case("map same array", lambda c: c.map(functools.partial(lambda a, x: a is x, array), [array, array * 2]))
case("submit coroutine", lambda c: c.submit(coro, 1))
case("submit itself", lambda c: c.submit(same_object, same_object))

for name, it in {
    "range": range(5),
    "range down": range(10, -5, -3),
    "no range": range(5, 5),
    "tuple": (1, 2, 3),
    "str": "aü\U0001f600b",
    "bytes": b"abc",
    "dict": {"a": 1, ("b", 1): 2},
    "list": ["a"] * 3,
    "empty": [],
}.items():
    case(f"map over {name}", lambda c: c.map(plain, it))
    case(f"map impure over {name}", lambda c: c.map(plain, it, pure=False))
case("map over set", lambda c: c.map(plain, {1, 2, 3}), ok=False)
case("map over array", lambda c: c.map(plain, np.arange(3)), ok=False)
case("map over ordered dict", lambda c: c.map(plain, collections.OrderedDict(a=1)), ok=False)
case("map over deque", lambda c: c.map(plain, collections.deque([1])), ok=False)
case("map of different lengths", lambda c: c.map(plain, range(5), [1, 2, 3], "abcd"))
case("map over futures twice", lambda c: c.map(plain, [future] * 3, [other] * 3))
case("map with equal keys", lambda c: c.map(plain, [1, 2, 1, 1]))
case("map in batches", lambda c: c.map(plain, range(10), range(10), batch_size=3))
case("map with prefix", lambda c: c.map(plain, range(3), key="prefix-with-dashes"))
case("map with keys", lambda c: c.map(plain, range(3), key=["a", ("b", 1), ("c", ("d", 2.5))]))
case("map with tuple of keys", lambda c: c.map(plain, range(3), key=("k1", "k2", "k3")))
case("map impure", lambda c: c.map(plain, range(3), pure=False))
case("map actors", lambda c: c.map(Adder, range(3), actor=True), ok=False)
case("submit fails to open", lambda c: c.submit(plain, Bomb(operator.truediv, 1, 0), pure=False), ok=False)
case("map fails to open", lambda c: c.map(plain, [Bomb(operator.truediv, 1, 0)], pure=False), ok=False)
case("map with options", lambda c: c.map(plain, range(3), retries=2, priority=5, workers=["a"], allow_other_workers=True, resources={"GPU": 1}))
case("submit with options", lambda c: c.submit(plain, 1, key="x", retries=2, priority=5, workers="a", pure=False, resources={"GPU": 1}))
case("submit with tuple key", lambda c: c.submit(plain, 1, key=("x", 0, b"b", 1.5)))
case("map many", lambda c: c.map(inc, range(1000)))
case("map big payloads", lambda c: c.map(len, [big, big[1:], bytes(3_000_000)]))
case("map arrays", lambda c: c.map(np.sum, [np.ones(50_000) * i for i in range(4)]))
case("map big function", lambda c: c.map(functools.partial(lambda a, x: a[x], array), range(20)))

graph("chain", {"a": Task("a", inc, 1), "b": Task("b", inc, TaskRef("a")), "c": Task("c", inc, Alias("b"))}, ["c"])
graph("diamond", {"a": DataNode("a", [1]), "b": Task("b", len, TaskRef("a")), "c": Task("c", sum, TaskRef("a")), "d": Task("d", plain, List(TaskRef("b"), TaskRef("c")))}, ["d"])
graph("culled", {"a": Task("a", inc, 1), "b": Task("b", inc, 2)}, ["b"])
graph("alias", {"a": Task("a", inc, 1), "b": Alias("b", "a")}, ["b"])
graph("self alias", {"a": Alias("a", "a"), "b": Task("b", inc, TaskRef("a"))}, ["b"])
graph("outside", {"b": Task("b", inc, TaskRef("elsewhere"))}, ["b"])
graph("tuple keys", {("a", 0): Task(("a", 0), inc, 1), ("b", 0): Task(("b", 0), inc, TaskRef(("a", 0)))}, [("b", 0)])
graph("keyword", {"a": Task("a", plain, 1, k=TaskRef("b")), "b": DataNode("b", 2)}, ["a"])
graph("producer", {"a": Task("a", inc, 1, _data_producer=True)}, ["a"])
graph("shared function", {f"k{i}": Task(f"k{i}", functions["partial"], i) for i in range(10)}, [f"k{i}" for i in range(10)])
graph("legacy", {"a": (inc, 1), "b": (inc, "a")}, ["b"], ok=False)
graph("data", {"a": 1, "b": Task("b", inc, TaskRef("a"))}, ["b"], ok=False)
graph("list", {"a": [1, 2]}, ["a"], ok=False)
graph("wrong key", {"a": Task("b", inc, 1)}, ["a"], ok=False)


# Comparison.


class Differ(Exception):
    pass


class Same:
    """Report whether two values are equal and share the same objects."""

    def __init__(self):
        self.pairs = {}
        self.keep = []

    def check(self, a, b, path):
        if type(a) is not type(b):
            raise Differ(f"{path}: {type(a)} is not {type(b)}")
        if a is b or isinstance(a, (type, types.ModuleType, types.BuiltinFunctionType)):
            if a is not b:
                raise Differ(f"{path}: {a!r} is not {b!r}")
            return
        # A shared list of futures may become one container of Dask or several.
        if not isinstance(a, (int, float, complex, str, bytes, tuple, frozenset, GraphNode)):
            known = self.pairs.get(id(a))
            if known is not None:
                if known != id(b):
                    raise Differ(f"{path}: {a!r:.80} is shared in Dask")
                return
            if id(b) in self.pairs.values():
                raise Differ(f"{path}: {b!r:.80} is shared in Go")
            self.pairs[id(a)] = id(b)
            self.keep += [a, b]
        self.compare(a, b, path)

    def all(self, a, b, path):
        a, b = list(a), list(b)
        if len(a) != len(b):
            raise Differ(f"{path}: {len(a)} items, {len(b)} items")
        for i, (x, y) in enumerate(zip(a, b)):
            self.check(x, y, f"{path}[{i}]")

    def compare(self, a, b, path):
        if isinstance(a, GraphNode):
            if isinstance(a, NestedContainer):
                self.all(a.args, b.args, f"{path}.args")
                return
            for slot in type(a).get_all_slots():
                if slot in ("_repr", "_token", "_is_coro"):
                    continue
                if slot == "_dependencies":
                    if a.dependencies != b.dependencies:
                        raise Differ(f"{path}: {a.dependencies} and {b.dependencies}")
                    continue
                self.check(getattr(a, slot), getattr(b, slot), f"{path}.{slot}")
        elif isinstance(a, types.FunctionType):
            for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__dict__", "__annotations__"):
                self.check(getattr(a, name), getattr(b, name), f"{path}.{name}")
            if a.__code__ != b.__code__:
                raise Differ(f"{path}: code differs")
            self.all([c.cell_contents for c in a.__closure__ or ()], [c.cell_contents for c in b.__closure__ or ()], f"{path}.closure")
            names = [n for n in a.__code__.co_names if n in a.__globals__]
            for n in names:
                self.check(a.__globals__[n], b.__globals__[n], f"{path}.globals[{n}]")
        elif isinstance(a, types.MethodType):
            self.check(a.__func__, b.__func__, f"{path}.func")
            self.check(a.__self__, b.__self__, f"{path}.self")
        elif isinstance(a, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape or a.flags.f_contiguous != b.flags.f_contiguous or a.flags.writeable != b.flags.writeable:
                raise Differ(f"{path}: {a.dtype}{a.shape} {a.flags}, {b.dtype}{b.shape} {b.flags}")
            if a.dtype == object or a.dtype.names:
                same = a.tolist() == b.tolist()
            else:
                same = np.array_equal(a, b)
            if not same:
                raise Differ(f"{path}: items differ")
        elif isinstance(a, dict) and type(a).__reduce_ex__ is object.__reduce_ex__:
            self.all(a.keys(), b.keys(), f"{path}.keys")
            self.all(a.values(), b.values(), f"{path}.values")
        elif type(a) in (list, tuple):
            self.all(a, b, path)
        elif isinstance(a, (set, frozenset)):
            self.all(sorted(a, key=repr), sorted(b, key=repr), path)
        elif isinstance(a, TaskRef):
            self.check(a.key, b.key, f"{path}.key")
        elif isinstance(a, (int, float, complex, str, bytes, bytearray, datetime.date, datetime.timedelta, type(None), np.generic, np.dtype, enum.Enum)):
            if repr(a) != repr(b):
                raise Differ(f"{path}: {a!r:.80} is not {b!r:.80}")
        else:
            ra, rb = a.__reduce_ex__(4), b.__reduce_ex__(4)
            if isinstance(ra, str):
                ra, rb = (ra,), (rb,)
            ra = [list(x) if hasattr(x, "__next__") else x for x in ra]
            rb = [list(x) if hasattr(x, "__next__") else x for x in rb]
            # the tuples are new each time
            for i, (x, y) in enumerate(zip(ra, rb)):
                if type(x) is tuple or type(x) is list:
                    self.all(x, y, f"{path}.reduce[{i}]")
                else:
                    self.check(x, y, f"{path}.reduce[{i}]")


def outcome(task):
    """Return the result of a task on a worker, or its error."""
    try:
        value = task({k: 10 for k in task.dependencies})
        if task.is_coro:
            value.close()
            value = "coroutine"
        return ("value", value)
    except Exception as e:
        return ("error", type(e).__name__, str(e))


def repickled(task):
    buffers = []
    data = pickle.dumps(task, buffer_callback=lambda b: buffers.append(bytearray(b.raw())))
    return pickle.loads(data, buffers=buffers)


def packable(key):
    return msgpack.packb(key, default=msgpack_encode_default, use_bin_type=True)


def check(expr, keys, order, expected, answer, header, frames):
    ok, nodes = answer
    if ok != expected:
        return "Go split it" if ok else "Go left it to Python"
    if not ok:
        return None
    expr = deserialize(header, frames)
    dsk = _materialize_graph(expr, False)[0]
    if isinstance(expr, LLGExpr):
        dsk = _cull(dsk, set(keys))
    got = {}
    for key, deps, spec, buffers, place, go in nodes:
        if key in got:
            return f"{key} twice"
        task = pickle.loads(spec, buffers=[bytearray(b) for b in buffers])
        got[key] = task
        if key not in dsk:
            return f"{key} is not in the graph of Dask"
        if set(deps) != set(dsk[key].dependencies) or len(set(deps)) != len(deps):
            return f"{key} needs {deps}, in Dask {dsk[key].dependencies}"
        if order is not None and place != order[key]:
            return f"{key} is number {place}, in Dask {order[key]}"
        if go:
            return f"{key} calls Go"
    if list(dsk) != list(got) and set(dsk) != set(got):
        return f"tasks missing in the graph of Dask: {set(dsk) - set(got)}"
    for key, theirs in dsk.items():
        try:
            Same().check(repickled(theirs), got[key], str(key))
            if not isinstance(theirs, DataNode):
                Same().check(outcome(repickled(theirs)), outcome(got[key]), f"result of {key}")
        except Differ as e:
            return str(e)
    return None


def dump(path):
    seeds = []
    for name, expr, keys, order, expected in CASES:
        header, frames = serialize(to_serialize(expr))
        if sum(map(len, frames)) > 1100:
            continue
        seeds.append({
            "name": name,
            "ok": expected,
            "frames": [base64.b64encode(f).decode() for f in frames],
            "keys": [base64.b64encode(packable(k)).decode() for k in keys],
        })
    with open(path, "w") as f:
        json.dump(seeds, f, indent=1)
        f.write("\n")


def main():
    if sys.argv[1:2] == ["--dump"]:
        return dump(sys.argv[2])
    wrong, split = [], 0
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, expr, keys, order, expected in CASES:
        if only not in name:
            continue
        header, frames = serialize(to_serialize(expr))
        frames = [bytes(f) for f in frames]
        send([name, msgpack.packb({**header, "num-sub-frames": len(frames)}), frames, [packable(k) for k in keys]])
        answer = receive()
        split += answer[0]
        try:
            # A comm delivers writable memory.
            why = check(expr, keys, order, expected, answer, header, [bytearray(f) for f in frames])
        except Exception as e:
            import traceback

            traceback.print_exc()
            why = repr(e)
        if why:
            wrong.append(f"{name}: {why}")
    send([wrong, len(CASES), split])


if __name__ == "__main__":
    main()
