"""The worker.state that code in a sidecar sees: a view of the state machine in the Go process.

It is an object of the distributed class WorkerState, whose collections are copies. A copy is used for 50 ms, but never by
a task or request that began after it was made; changes of it have no effect.
"""

import collections
import itertools
import operator
import threading
import time

from distributed.collections import HeapSet
from distributed.worker_state_machine import TaskState, WorkerState

FRESH = 0.05  # seconds for which a copy is used, so that code that visits each task fetches once


# Attributes of WorkerState that are copies of the state in Go.
COPIED = (
    "tasks", "log", "waiting", "executing", "long_running", "in_flight_tasks", "missing_dep_flight", "ready", "constrained",
    "has_what", "data_needed", "in_flight_workers", "fetch_count", "nbytes", "executed_count", "transition_counter",
    "transfer_incoming_bytes", "transfer_incoming_count_total",
)  # fmt: skip


class View:
    """A copy of the state, with tasks of the distributed class TaskState."""

    def __init__(self, body, number):
        self.at, self.number = time.monotonic(), number
        self.tasks = {row["key"]: make_task(row) for row in body["tasks"]}
        for row in body["tasks"]:
            task = self.tasks[row["key"]]
            task.dependencies = {self.tasks[k] for k in row["dependencies"] if k in self.tasks}
            task.dependents = {self.tasks[k] for k in row["dependents"] if k in self.tasks}
            task.waiting_for_data = {d for d in task.dependencies if d.state != "memory"} if task.state == "waiting" else set()
            task.waiters = {d for d in task.dependents if d.state not in ("memory", "error", "released", "forgotten")}
        self.log = collections.deque(tuple(row) for row in body["log"])
        self.waiting = self.of("waiting")
        self.executing = self.of("executing")
        self.long_running = self.of("long-running")
        self.in_flight_tasks = self.of("flight")
        self.missing_dep_flight = self.of("missing")
        self.ready, self.constrained = heap(self.of("ready")), heap(self.of("constrained"))
        self.has_what, self.data_needed = collections.defaultdict(set), collections.defaultdict(lambda: heap(()))
        self.in_flight_workers = {}
        for task in self.tasks.values():
            for address in task.who_has:
                self.has_what[address].add(task.key)
                if task.state == "fetch":
                    self.data_needed[address].add(task)
            if task.coming_from is not None:
                self.in_flight_workers.setdefault(task.coming_from, set()).add(task.key)
        self.fetch_count = len(self.of("fetch"))
        for name in ("nbytes", "executed_count", "transition_counter", "transfer_incoming_bytes", "transfer_incoming_count_total"):
            setattr(self, name, body[name])

    def of(self, state):
        return {t for t in self.tasks.values() if t.state == state}


def heap(tasks):
    out = HeapSet(key=operator.attrgetter("priority"))
    for task in tasks:
        out.add(task)
    return out


def make_task(row):
    task = TaskState(row["key"])
    task.state, task.previous, task.run_id = row["state"], row["previous"], row["run_id"]
    task.priority = tuple(row["priority"])
    task.nbytes = row["nbytes"]
    task.who_has = set(row["who_has"])
    task.coming_from = row["coming_from"]
    task.exception_text, task.traceback_text = row["exception_text"] or "", row["traceback_text"] or ""
    task.start_time, task.stop_time = row["start"] or None, row["stop"] or None
    task.annotations, task.span_id = row["annotations"] or {}, row["span_id"] or None
    task.done = row["state"] in ("memory", "error")
    return task


def copied(name):
    return property(lambda self: getattr(self._view(), name), lambda self, value: None)


class State(WorkerState):
    """See the module."""

    def __init__(self, peer, first):
        """Show the state of the Go process; other attributes are those of first, the state of a new Worker."""
        self._peer, self._lock, self._copy = peer, threading.Lock(), None
        self._numbers = itertools.count(1)
        self._number = 0  # of the latest task or request
        for name in WorkerState.__slots__:
            if name not in COPIED and hasattr(first, name):
                setattr(self, name, getattr(first, name))

    def refresh(self):
        """Called when a task or request begins: it sees a copy that is made later."""
        self._number = next(self._numbers)

    def _view(self):
        with self._lock:
            number = self._number  # before the call: a task that begins during it needs another copy
            if self._copy is None or self._copy.number != number or time.monotonic() - self._copy.at > FRESH:
                self._copy = View(self._peer.call("state").body, number)
            return self._copy


for _name in COPIED:
    setattr(State, _name, copied(_name))
