"""The profiler of sidecars without a Go process."""

import sys
import threading
import time
import types
import unittest

from distributed import profile
from millstream import sidecar_profile
from millstream.sidecar_profile import Profiler


def worker(**threads):
    return types.SimpleNamespace(active_threads=threads, active_threads_lock=threading.Lock(), get_call_stack=lambda keys: {"k": ["line"]})


def here():
    return sys._getframe()


def deep(n):
    return deep(n - 1) if n else sys._getframe()


def names(state):
    out = {state["description"]["name"]}
    for child in state["children"].values():
        out |= names(child)
    return out


def depth(state):
    return 1 + max(map(depth, state["children"].values()), default=0)


def everything(start=None, stop=None, key=None):
    return {"start": start, "stop": stop, "key": key}


class Profiles(unittest.TestCase):
    def test_selection(self):
        p = Profiler(worker(), -1, 1.0)  # no thread
        self.assertEqual(p.tree(everything(), ()), profile.create())
        begin = time.time() - 100
        for i in range(4):
            with p.lock:
                p.turn(begin + i)
                p.add(begin + i, "inc", here(), 10**i)
                p.add(begin + i, "dec", here(), 5 * 10**i)
        for query, want in (
            (everything(), 6666),
            (everything(key="inc"), 1111),
            (everything(key="none"), 0),
            (everything(start=begin + 2), 6660),
            (everything(stop=begin + 1.5), 66),
            (everything(start=begin + 2, stop=begin + 2.5), 660),
            (everything(start=begin + 200), 0),
        ):
            self.assertEqual(p.tree(query, ())["count"], want, query)
        self.assertIn("here", names(p.tree(everything(), ())))
        counts = p.counts({"start": begin + 1.5, "stop": None}, ())
        self.assertEqual([c for _, c in counts], [{"inc": 10**i, "dec": 5 * 10**i} for i in (1, 2, 3)])
        self.assertEqual(len(p.counts({"start": 0, "stop": begin + 2.5}, ())), 2)
        self.assertEqual(p.stacks(None, ()), [("k", ["line"])])

    def test_bounds(self):
        p = Profiler(worker(), -1, 1.0, length=5)
        for i in range(20):
            with p.lock:
                p.turn(i)
                p.add(i, "deep", deep(300), 1)
        self.assertEqual(len(p.past), 5)
        self.assertLessEqual(depth(p.tree(everything(), ())), sidecar_profile.DEPTH + 1)
        many = Profiler(worker(), -1, 3600.0)
        for i in range(2 * sidecar_profile.PREFIXES):
            many.add(1.0, f"p{i}", here(), 1)
        self.assertEqual(len(many.recent), sidecar_profile.PREFIXES + 1)
        self.assertLessEqual(many.nodes, sidecar_profile.NODES)

    def test_nodes(self):
        old, sidecar_profile.NODES = sidecar_profile.NODES, 50
        try:
            p = Profiler(worker(), -1, 1.0)
            for i in range(20):
                with p.lock:
                    p.turn(i)
                    p.add(i, "deep", deep(80), 1)
            self.assertLessEqual(p.past_nodes, 50)
            self.assertLessEqual(p.nodes, 50)
        finally:
            sidecar_profile.NODES = old

    def test_thread(self):
        end = threading.Event()
        t = threading.Thread(target=end.wait)
        t.start()
        w = worker()
        w.active_threads[t.ident] = "wait-123"
        p = Profiler(w, 0.001, 0.05)
        limit = time.monotonic() + 60
        while p.tree(everything(key="wait"), ())["count"] == 0:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)
        self.assertIn("wait", names(p.tree(everything(), ())))
        del w.active_threads[t.ident]
        end.set()
        t.join()


if __name__ == "__main__":
    unittest.main()
