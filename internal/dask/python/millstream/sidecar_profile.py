"""Statistical profile of the Python tasks of a Go worker, in the form of distributed.profile."""

import sys
import threading
import time
from collections import deque

from dask.utils import key_split
from distributed import profile

from millstream import sidecar_tasks

DEPTH = 100  # frames of a stack that are kept, as in distributed.profile
NODES = 20_000  # nodes that are kept, in all cycles together; the oldest cycles are dropped first
DESCRIPTIONS = 10_000
PREFIXES = 1000  # in one cycle
COST = 200  # a sample is followed by a pause of this many times its own time
STOP = sidecar_tasks.Tasks.execute.__code__.co_filename


class Profiler:
    """Samples the stacks of the threads that run tasks, in a thread of its own."""

    def __init__(self, worker, interval, cycle, length=1000):
        self.worker, self.interval, self.cycle, self.length = worker, interval, cycle, length
        self.lock = threading.Lock()  # guards the fields below
        self.past = deque()  # (begin, end, {prefix: tree}, nodes), oldest first
        self.begin, self.recent, self.nodes = 0.0, {}, 0
        self.past_nodes = 0
        self.descriptions = {}  # identifier -> description, which all nodes of a function share
        if interval > 0:
            threading.Thread(target=self.run, name="millstream-profile", daemon=True).start()

    def run(self):
        wait, last = self.interval, None
        while True:
            time.sleep(wait)
            if not self.worker.active_threads:
                wait, last = min(2 * wait, max(self.interval, self.cycle / 10)), None
                continue
            now, begin = time.time(), time.thread_time()
            weight = 1 if last is None else max(1, round((now - last) / self.interval))
            try:
                self.sample(now, weight)
            except Exception:  # a stack that changes while it is read
                sidecar_tasks.values_.logger.debug("sample of the profile failed", exc_info=True)
            last = now
            wait = max(self.interval, COST * (time.thread_time() - begin))

    def sample(self, now, weight):
        with self.worker.active_threads_lock:
            active = self.worker.active_threads.copy()
        stacks = sys._current_frames()
        with self.lock:
            self.turn(now)
            for ident, key in active.items():
                frame = stacks.get(ident)
                if frame is not None:
                    self.add(now, key_split(key), frame, weight)
        del stacks

    def turn(self, now):
        """End the recent cycle when its time is over."""
        if not self.recent or 0 <= now - self.begin < self.cycle:
            return
        self.past.append((self.begin, self.begin + self.cycle, self.recent, self.nodes))
        self.past_nodes += self.nodes
        self.recent, self.nodes = {}, 0
        while len(self.past) > self.length or self.past_nodes > NODES:
            self.past_nodes -= self.past.popleft()[3]

    def add(self, now, prefix, frame, weight):
        if not self.recent:
            self.begin = now
        if prefix not in self.recent and len(self.recent) >= PREFIXES:
            prefix = "Other"
        state = self.recent.get(prefix)
        if state is None:
            state = self.recent[prefix] = profile.create()
        stack = []
        while frame is not None and (not stack or frame.f_code.co_filename != STOP):
            stack.append(frame)
            frame = frame.f_back
        state["count"] += weight
        for frame in stack[: -DEPTH - 1 : -1]:
            ident = profile.identifier(frame)
            child = state["children"].get(ident)
            if child is None:
                if self.nodes >= NODES:
                    return
                self.nodes += 1
                child = {"count": 0, "description": self.describe(ident, frame), "children": {}, "identifier": ident}
                state["children"][ident] = child
            child["count"] += weight
            state = child

    def describe(self, ident, frame):
        known = self.descriptions.get(ident)
        if known is None:
            if len(self.descriptions) >= DESCRIPTIONS:
                self.descriptions.clear()
            known = self.descriptions[ident] = profile.info_frame(frame)
        return known

    def periods(self):
        yield from self.past
        if self.recent:
            yield self.begin, None, self.recent, self.nodes

    # -- requests

    def tree(self, body, frames):
        """Return the tree of {"start", "stop", "key"}; see Query in internal/proc/profile."""
        start, stop, key = body["start"], body["stop"], body["key"]
        now = time.time()
        with self.lock:
            self.turn(now)
            trees = [
                tree
                for begin, end, by_prefix, _ in self.periods()
                if (start is None or (end or now) >= start) and (stop is None or begin <= stop)
                for prefix, tree in by_prefix.items()
                if key is None or key == prefix
            ]
            return profile.merge(*trees)

    def counts(self, body, frames):
        """Return [(time, {prefix: count}), …] of {"start", "stop"}, oldest first."""
        start, stop = body["start"], body["stop"]
        now = time.time()
        with self.lock:
            self.turn(now)
            return [
                (end or now, {prefix: tree["count"] for prefix, tree in by_prefix.items()})
                for begin, end, by_prefix, _ in self.periods()
                if start < (end or now) and (stop is None or end is not None and end < stop)
            ]

    def stacks(self, body, frames):
        """Return the call stacks of running tasks: [(key, [line, …]), …] of the keys in body, or of all."""
        return list(self.worker.get_call_stack(None if body is None else set(body)).items())
