"""The scheduler plugin that millstream.install puts into Dask's scheduler.

It keeps tasks where they can run: Go functions on Millstream workers that have them, and Python tasks off Millstream
workers without Python. It does so with worker restrictions, by sets of addresses that all tasks share, so that a worker
that comes or goes is known to tasks that wait already.

As long as there is no worker without Python, Python tasks are left alone: a task with restrictions is not queued on
the scheduler (Dask's worker-saturation), and may so lose a little of Dask's thrift with memory.

Dask's scheduler need not have this package: install() pickles the plugin with its code.
"""

from __future__ import annotations

import logging
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from .stubs import go_name

logger = logging.getLogger("distributed.scheduler.millstream")

# In place of an address where no worker will do: an empty set would mean that every worker will. Its text shows
# in the error that Dask raises for tasks that find no worker.
NO_GO_WORKER = "millstream: a worker that has this Go function"
NO_PYTHON_WORKER = "millstream: a worker that runs Python"


class GoPlugin(SchedulerPlugin):
    """Places Go functions and Python tasks. One per scheduler; used by the scheduler's event loop only."""

    name = "millstream"
    idempotent = True

    def __init__(self) -> None:
        self.scheduler: Any = None
        self.go: dict[str, dict[str, set[str] | None]] = {}  # Go workers by address: their functions
        self.without_python: set[str] = set()
        self.python: set[str] = {NO_PYTHON_WORKER}  # shared by the tasks that need Python
        self.having: dict[str, set[str]] = {}  # shared by the tasks of a Go function, by its name

    async def start(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        for address in scheduler.workers:
            self._know(address)
        self._place(scheduler.tasks.values())
        logger.info("millstream: %s", self.describe())

    def describe(self) -> str:
        return (
            f"Go functions go to {len(self.go)} Millstream workers; "
            f"{len(self.without_python)} of them have no Python and get no Python tasks"
        )

    # Workers

    def add_worker(self, scheduler: Any, worker: str) -> None:
        first = not self.without_python
        self._know(worker)
        if first and self.without_python:
            self._place(scheduler.tasks.values())  # those that came before it matters

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.go.pop(worker, None)
        self.without_python.discard(worker)
        _discard(self.python, worker, NO_PYTHON_WORKER)
        for addresses in self.having.values():
            _discard(addresses, worker, NO_GO_WORKER)

    def _know(self, address: str) -> None:
        state = self.scheduler.workers.get(address)
        if state is None:
            return
        own = (state.extra or {}).get("millstream")
        if not isinstance(own, dict):
            _add(self.python, address, NO_PYTHON_WORKER)
            return
        functions = own.get("functions")
        self.go[address] = set(functions) if isinstance(functions, (list, tuple)) else None
        if own.get("python"):
            _add(self.python, address, NO_PYTHON_WORKER)
        else:
            self.without_python.add(address)
        for name, addresses in self.having.items():
            if self._has(address, name):
                _add(addresses, address, NO_GO_WORKER)

    def _has(self, address: str, name: str) -> bool:
        functions = self.go[address]
        return functions is None or name in functions

    # Tasks

    def update_graph(self, scheduler: Any, *, tasks: Any, **kwargs: Any) -> None:
        known = scheduler.tasks
        self._place([known[key] for key in tasks if key in known])

    def _place(self, tasks: Any) -> None:
        again = {}
        for ts in tasks:
            if ts.run_spec is None or ts.state in ("memory", "processing", "erred", "forgotten"):
                continue
            name = go_name(ts.run_spec, ts.annotations, weak=True)
            if name is not None and self._weak(ts, name):
                name = None
            if name is not None:
                changed = self._restrict(ts, self._workers_with(name))
            elif self.without_python:
                changed = self._restrict(ts, self.python)
            else:
                changed = False
            if changed and ts.state == "queued":
                again[ts.key] = "released"  # a task with restrictions must not be there
        if again:
            self.scheduler.transitions(again, "millstream-place")

    def _weak(self, ts: Any, name: str) -> bool:
        """Whether only the name of a Python function says that it is Go's, and no worker has such a one."""
        if go_name(ts.run_spec, ts.annotations) is not None:
            return False
        return not any(functions and name in functions for functions in self.go.values())

    def _workers_with(self, name: str) -> set[str]:
        addresses = self.having.get(name)
        if addresses is None:
            addresses = {a for a in self.go if self._has(a, name)} or {NO_GO_WORKER}
            self.having[name] = addresses
        return addresses

    def _restrict(self, ts: Any, able: set[str]) -> bool:
        """Restrict a task to those that are able, within what the user asked for."""
        if ts.worker_restrictions is able:
            return False
        asked = set(ts.worker_restrictions or ())
        for host in ts.host_restrictions or ():
            info = self.scheduler.host_info.get(self.scheduler.coerce_hostname(host))
            if info is not None:
                asked |= info["addresses"]
        if not ts.worker_restrictions and not ts.host_restrictions:
            ts.worker_restrictions = able
            return True
        both = asked & able
        if both and both != asked:
            ts.worker_restrictions, ts.host_restrictions = both, None
            return True
        return False  # the user asked for workers that cannot: these say so


def _add(addresses: set[str], address: str, nobody: str) -> None:
    addresses.add(address)
    addresses.discard(nobody)


def _discard(addresses: set[str], address: str, nobody: str) -> None:
    addresses.discard(address)
    if not addresses:
        addresses.add(nobody)
