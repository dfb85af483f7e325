"""Stubs without a cluster."""

import pickle
import subprocess
import sys
import types
import unittest

import cloudpickle
import dask
import millstream
from dask._task_spec import Dict, List, Task, TaskRef
from dask.base import tokenize
from millstream import go, go_name
from millstream.stubs import SOURCE


@go("pkg.hypot")
def hypot(x: float, y: float) -> float:
    """The longest side."""


class Stubs(unittest.TestCase):
    def test_declared(self):
        self.assertEqual(hypot.params, ("x", "y"))
        self.assertEqual(hypot.__doc__, "The longest side.")
        self.assertEqual(repr(hypot), "<Go function pkg.hypot>")
        self.assertIsNone(go("f").params)

    def test_refused(self):
        for bad in ["", None, 5, "x" * 2000]:
            with self.assertRaises(ValueError):
                go(bad)
        for bad in [lambda x=1: x, lambda *a: a, lambda **k: k, lambda *, a: a]:
            with self.assertRaises(TypeError):
                go("f", bad)

    def test_not_called(self):
        with self.assertRaisesRegex(RuntimeError, "client.submit"):
            hypot(3, 4)
        with self.assertRaisesRegex(RuntimeError, "client.submit"):
            go("f")(1)

    def test_pickled_without_the_package(self):
        for dumps in (pickle.dumps, cloudpickle.dumps):
            data = dumps(hypot)
            self.assertNotIn(b"millstream.stubs", data)
            program = (
                "import pickle, sys\n"
                "sys.modules['millstream'] = None\n"  # must not be imported
                "f = pickle.loads(sys.stdin.buffer.read())\n"
                "assert f.__name__ == 'pkg.hypot', f\n"
                "try: f(1, y=2)\n"
                "except RuntimeError as e: assert 'Millstream worker' in str(e), e\n"
                "else: raise SystemExit('no exception')\n"
                "sys.stdout.buffer.write(pickle.dumps(pickle.loads(pickle.dumps(f))))\n"
            )
            out = subprocess.run([sys.executable, "-c", program], input=data, stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(out, pickle.dumps(hypot))

    def test_once_in_a_graph(self):
        one = len(pickle.dumps([Task("a", hypot, 1, 2)]))
        many = len(pickle.dumps([Task(f"a{i}", hypot, 1, 2) for i in range(10)]))
        self.assertLess(many - one, 2 * len(SOURCE))

    def test_tokens(self):
        self.assertEqual(tokenize(hypot), tokenize(pickle.loads(pickle.dumps(hypot))))
        self.assertNotEqual(tokenize(hypot), tokenize(go("f")))
        self.assertEqual({hypot: 1}[go("pkg.hypot")], 1)

    def test_delayed(self):
        d = dask.delayed(hypot)(dask.delayed(hypot)(1, 2), y=3)
        names = [go_name(t) for t in dict(d.__dask_graph__()).values()]
        self.assertEqual(names, ["pkg.hypot"] * 2)


class Names(unittest.TestCase):
    def test_ways(self):
        def go_f(x): ...

        module = types.FunctionType((lambda: None).__code__, {})
        module.__module__, module.__name__ = "gotask", "f"
        spec = b"MS\x01" + b"\xa1f" + b"\x90\x00"
        for task, annotations, want in [
            (Task("k", hypot, 1, 2), None, "pkg.hypot"),
            (Task("k", pickle.loads(pickle.dumps(hypot)), 1, 2), None, "pkg.hypot"),
            (Task("k", dask.utils.apply, hypot, List(1, TaskRef("d")), {}), None, "pkg.hypot"),
            (Task("k", max, 1, 2), {"go": {"fn": "f", "args": []}}, "f"),
            (Task("k", max, 1, 2), {"go": "f"}, "f"),
            (Task("k", max, 1, 2), {"go": 1, "priority": 3}, None),
            (Task("k", types.SimpleNamespace, go="f", args=[1]), None, "f"),
            (Task("k", types.SimpleNamespace, a=1), None, None),
            (Task("k", module), None, "f"),
            (Task("k", exec, "raise RuntimeError()", Dict({"millstream_go": spec, "deps": List()})), None, "f"),
            (Task("k", exec, "x = 1", {}), None, None),
            (Task("k", max, 1, 2), None, None),
            (Task("k", go_f, 1), None, None),
            (TaskRef("k"), None, None),
        ]:
            self.assertEqual(go_name(task, annotations), want, task)
        self.assertEqual(go_name(Task("k", go_f, 1), weak=True), "f")


class Package(unittest.TestCase):
    def test_version(self):
        self.assertRegex(millstream.__version__, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
