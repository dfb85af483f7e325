"""Reference of the pickle tests: generates random objects, reads pickles written by Go, and reports what CPython accepts.

One JSON object per line is read, and one is written; the program ends with its standard input.
"""

import base64
import collections
import datetime
import decimal
import enum
import functools
import io
import json
import operator
import pickle
import pickletools
import random
import resource
import sys
import uuid

import cloudpickle
import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask._expr import LLGExpr
from dask._task_spec import DataNode, List, Task, TaskRef, convert_legacy_graph
from distributed.protocol.pickle import dumps as dask_dumps
from pickle_describe import describe

# A broken pickle may request any amount of memory, and CPython would try: it gets 256 MiB more than it uses now.
with open("/proc/self/statm") as statm:
    LIMIT = int(statm.read().split()[0]) * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
sys.setrecursionlimit(20000)


class Plain:
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __reduce_ex__(self, protocol):
        return object.__reduce_ex__(self, 2)


class Stateful:
    """Gets its state from a function of six-part reduces, as cloudpickle does for functions."""

    def __init__(self, x):
        self.x = x

    def __reduce__(self):
        return Stateful, (self.x,), {k: v for k, v in vars(self).items() if k != "x"}, None, None, set_state


def set_state(obj, state):
    vars(obj).update(state)


class Keyword:
    def __new__(cls, *, word=None):
        self = super().__new__(cls)
        self.word = word
        return self

    def __getnewargs_ex__(self):
        return (), {"word": self.word}


class MyList(list):
    pass


class MyDict(dict):
    pass


class MySet(set):
    pass


class Color(enum.Enum):
    RED = 1
    GREEN = "g"


Named = collections.namedtuple("Named", "a b")


class Maker:
    """Makes one random graph of objects: bounded, with shared parts and cycles."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.left = 60
        self.made: list = []  # containers, to be shared

    def leaf(self):
        r = self.r
        return r.choice([
            lambda: None, lambda: r.random() < 0.5, lambda: r.randint(-300, 70000), lambda: r.randint(-(2**80), 2**80), lambda: r.gauss(0, 1e5),
            lambda: r.choice([0.0, -0.0, float("inf"), float("nan")]), lambda: "".join(r.choices("abé€😀\ud800\n\\'\"", k=r.randint(0, 20))), lambda: "s" * r.choice([7, 8, 255, 256, 300]),
            lambda: r.randbytes(r.choice([0, 1, 8, 255, 256])), lambda: bytearray(r.randbytes(r.randint(0, 20))), lambda: complex(r.random(), -1),
            lambda: range(r.randint(0, 5), r.randint(5, 10**12)), lambda: r.choice([int, len, operator.add, Plain, collections.OrderedDict.fromkeys, np.sum, Ellipsis]),
            lambda: datetime.datetime(r.randint(1, 9999), 2, 3, 4, 5, 6, r.randint(0, 999999), r.choice([None, datetime.timezone.utc, datetime.timezone(datetime.timedelta(minutes=r.randint(-900, 900)))])),
            lambda: datetime.date(r.randint(1, 9999), 1, 31), lambda: datetime.timedelta(r.randint(-1000, 1000), r.randint(0, 80000), r.randint(0, 999999)), lambda: decimal.Decimal(r.randint(-99, 99)) / 8,
            lambda: uuid.UUID(int=r.getrandbits(128)), lambda: r.choice(list(Color)), lambda: np.arange(r.randint(0, 6)).astype(r.choice(["i4", ">u2", "f8", "M8[ns]", "c8"])),
            lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)), lambda: np.float32(r.random()), lambda: np.array([1, "x", None], dtype=object), lambda: ValueError("v", r.randint(0, 9)),
        ])()

    def key(self):
        r = self.r
        return r.choice([lambda: r.randint(-5, 5), lambda: "k" * r.randint(0, 12), lambda: (r.randint(0, 3), "t"), lambda: r.random(), lambda: b"k", lambda: None, lambda: True, lambda: frozenset({r.randint(0, 3)})])()

    def value(self, depth: int = 0):
        self.left -= 1
        if self.made and self.r.random() < 0.15:
            return self.r.choice(self.made)
        if depth > 6 or self.left < 0 or self.r.random() < 0.3:
            return self.leaf()
        return self.r.choice([self.list_, self.tuple_, self.dict_, self.set_, self.instance, self.library, self.task])(depth + 1)

    def keep(self, x):
        self.made.append(x)
        return x

    def list_(self, depth):
        x = self.keep(self.r.choice([list, MyList])())
        x.extend(self.value(depth) for _ in range(self.r.randint(0, 5)))
        if type(x) is MyList:
            x.extra = self.value(depth)
        return x

    def tuple_(self, depth):
        if self.r.random() < 0.2:
            return self.keep(Named(self.value(depth), self.value(depth)))
        return self.keep(tuple(self.value(depth) for _ in range(self.r.randint(0, 5))))

    def dict_(self, depth):
        x = self.keep(self.r.choice([dict, MyDict])())
        for _ in range(self.r.randint(0, 12)):
            x[self.key()] = self.value(depth)
        return x

    def set_(self, depth):
        return self.r.choice([set, frozenset, MySet])(self.key() for _ in range(self.r.randint(0, 5)))

    def instance(self, depth):
        kind = self.r.randint(0, 3)
        if kind == 0:
            x = self.keep(Plain())
            for name in "abc"[: self.r.randint(0, 3)]:
                setattr(x, name, self.value(depth))
        elif kind == 1:
            x = self.keep(Slotted())
            x.a, x.b = self.value(depth), self.value(depth)
        elif kind == 2:
            x = self.keep(Stateful(self.r.randint(0, 9)))
            x.y = self.value(depth)
        else:
            x = Keyword(word=self.leaf())
        return x

    def library(self, depth):
        r = self.r
        kind = r.randint(0, 5)
        if kind == 0:
            x = self.keep(collections.OrderedDict())
            x["a"] = self.value(depth)
            return x
        if kind == 1:
            x = self.keep(collections.deque(maxlen=r.choice([None, 3])))
            x.extend(self.value(depth) for _ in range(r.randint(0, 5)))
            return x
        if kind == 2:
            x = self.keep(collections.defaultdict(r.choice([list, None])))
            x[self.key()] = self.value(depth)
            return x
        if kind == 3:
            return functools.partial(operator.add, self.leaf())
        if kind == 4:
            return slice(self.leaf(), None, r.randint(0, 9))
        return collections.Counter("abca")

    def task(self, depth):
        r = self.r
        return r.choice([
            lambda: Task(("t", r.randint(0, 9)), operator.add, self.leaf(), TaskRef("x")),
            lambda: TaskRef("k"), lambda: List(TaskRef("a"), self.leaf()), lambda: DataNode("d", self.value(depth)),
        ])()



def encode(obj, protocol: int, out_of_band: bool) -> dict:
    buffers: list = []
    data = pickle.dumps(obj, protocol, buffer_callback=buffers.append if out_of_band else None)
    return {"pickle": b64(data), "buffers": [b64(b.raw()) for b in buffers]}


def b64(b) -> str:
    return base64.b64encode(b).decode()


def unb64(message: dict) -> tuple:
    return base64.b64decode(message["pickle"]), [base64.b64decode(b) for b in message.get("buffers") or []]


def op_random(m: dict) -> dict:
    cases = []
    for i in range(m["n"]):
        obj = Maker(m["seed"] + i).value()
        protocol = 2 + i % 4
        cases.append(encode(obj, protocol, protocol == 5 and i % 8 < 4) | {"protocol": protocol})
    return {"cases": cases}


def op_compare(m: dict) -> dict:
    """Compare the results of Go with the originals."""
    out = []
    for c in m["cases"]:
        try:
            data, buffers = unb64(c)
            want = describe(pickle.loads(data, buffers=buffers), shape=True)
            data, buffers = unb64(c["again"])
            got = describe(pickle.loads(data, buffers=buffers), shape=True)
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            at = max(at - 60, 0)
            out.append("" if got == want else f"got …{got[at:][:200]}\nwant …{want[at:][:200]}")
        except Exception as e:
            out.append(f"{type(e).__name__}: {e}")
    return {"answers": out}


def op_describe(m: dict) -> dict:
    out = []
    for c in m["cases"]:
        try:
            data, buffers = unb64(c)
            out.append(describe(pickle.loads(data, buffers=buffers)))
        except Exception as e:
            out.append(f"{type(e).__name__}: {e}")
    return {"answers": out}


def op_graph(m: dict) -> dict:
    """Run a graph that Go wrote."""
    data, _ = unb64(m)
    expr = pickle.loads(data)
    assert isinstance(expr, LLGExpr), expr
    values: dict = {}
    graph = expr.__dask_graph__()
    while len(values) < len(graph):
        before = len(values)
        for key, node in graph.items():
            if key not in values and all(d in values for d in node.dependencies):
                values[key] = node({d: values[d] for d in node.dependencies})
        assert len(values) > before, "graph cannot be run"
    return {"answers": [describe(values[k]) for k in m["keys"]], "token": expr.deterministic_token}


SAFE = {
    ("builtins", n) for n in "complex range slice set frozenset bytes bytearray list dict tuple int float str object".split()
} | {("_codecs", "encode"), ("collections", "OrderedDict"), ("collections", "deque"), ("collections", "Counter"), ("collections", "defaultdict"),
     ("datetime", "datetime"), ("datetime", "date"), ("datetime", "time"), ("datetime", "timedelta"), ("datetime", "timezone"),
     ("decimal", "Decimal"), ("uuid", "UUID"), ("copyreg", "_reconstructor"), ("__main__", "Plain"), ("__main__", "Stateful"), ("__main__", "set_state")}


class Safe(pickle.Unpickler):
    def find_class(self, module, name):
        found = super().find_class(module, name) if (module, name) in SAFE | {("__builtin__", n) for _, n in SAFE} else None
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not on the list")
        return found


def op_judge(m: dict) -> dict:
    """Report the results of CPython and pickletools for pickles that may be broken."""
    out = []
    for text in m["pickles"]:
        data = base64.b64decode(text)
        ops, rest, want = [], None, ""
        try:
            for opcode, _, pos in pickletools.genops(data):
                ops.append([opcode.name, pos])
        except Exception as e:
            rest = f"{type(e).__name__}: {e}"
        try:
            obj = Safe(io.BytesIO(data), buffers=[]).load()
            error = ""
        except BaseException as e:
            error = f"{type(e).__name__}: {e}"[:200]
        if not error:
            try:
                want = describe(obj)
            except Exception:  # a cycle has no plain description, nor has a 25th hour
                pass
        out.append({"ops": ops, "broken": rest, "error": error, "want": want})
    return {"judged": out}


def op_function(m: dict) -> dict:
    """Return a function of this program, pickled by value; or the result of one that Go has re-encoded."""
    if "pickle" not in m:
        factor = 3
        return {"cases": [{"pickle": b64(cloudpickle.dumps(lambda x: x * factor + len(str(Plain))))}]}
    data, _ = unb64(m)
    return {"answers": [describe(pickle.loads(data)(14) - len(str(Plain)))]}


@functools.cache
def graphs() -> list:
    """Return graphs of Dask collections, as a scheduler has them."""
    x = da.arange(12, chunks=4).reshape(3, 4)
    frame = dd.from_pandas(pd.DataFrame({"a": range(8), "b": list("abababab")}), npartitions=2)
    squares = db.from_sequence(range(10), npartitions=3).map(lambda n: n * n).filter(lambda n: n % 2)
    late = dask.delayed(sorted)([3, dask.delayed(operator.add)(1, 1)], reverse=True)
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        collections = [(x + x.T.dot(x).sum()).mean(axis=0), frame.groupby("b").a.sum(), frame.merge(frame, on="b"), squares.fold(operator.add), late]
        return [dict(convert_legacy_graph(dask.base.collections_to_expr([c]).optimize().__dask_graph__())) for c in collections]


def op_collections(m: dict) -> dict:
    """Return the graphs, task by task; or compare the results of tasks that Go has re-encoded."""
    if "graphs" not in m:
        return {"graphs": [[{"pickle": b64(dask_dumps((key, node)))} for key, node in graph.items()] for graph in graphs()]}
    out = []
    for original, tasks in zip(graphs(), m["graphs"]):
        again = dict(pickle.loads(unb64(t)[0]) for t in tasks)
        want, got = (dask.get(g, list(g)) for g in (original, again))
        same = list(original) == list(again) and all(describe(a, shape=True) == describe(b, shape=True) for a, b in zip(want, got))
        out.append("" if same else f"{want} became {got}"[:1000])
    return {"answers": out}


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        message = json.loads(line)
        try:
            answer = globals()["op_" + message["op"]](message)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
