"""Plugin that millstream.install adds to a Dask scheduler.

It keeps tasks where they can run: Go functions on Millstream workers that have them, and Python tasks off Millstream
workers without Python. It uses worker restrictions with sets of addresses that are shared by all tasks, so that waiting
tasks see workers that join or leave.

While there is no worker without Python, Python tasks are not changed: a task with restrictions is not queued on the
scheduler (worker-saturation in Dask) and may use more memory.

The Dask scheduler need not have this package: install() pickles the plugin with its code.
"""

from __future__ import annotations

import logging
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from .stubs import go_name

logger = logging.getLogger("distributed.scheduler.millstream")

# Stands for an address if no worker is able: an empty set would allow every worker. Its text is part of the
# error that Dask raises for tasks without a worker.
NO_GO_WORKER = "millstream: a worker that has this Go function"
NO_PYTHON_WORKER = "millstream: a worker that runs Python"


class GoPlugin(SchedulerPlugin):
    """Places Go functions and Python tasks. One per scheduler; only its event loop uses it."""

    name = "millstream"
    idempotent = True

    def __init__(self) -> None:
        self.scheduler: Any = None
        self.go: dict[str, dict[str, set[str] | None]] = {}  # functions of the Go workers, by address
        self.without_python: set[str] = set()
        self.python: set[str] = {NO_PYTHON_WORKER}  # shared by the tasks that need Python
        self.having: dict[str, set[str]] = {}  # shared by the tasks of a Go function, by its name

    async def start(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        for address in scheduler.workers:
            self._update(address)
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
        self._update(worker)
        if first and self.without_python:
            self._place(scheduler.tasks.values())  # tasks submitted before the first such worker

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.go.pop(worker, None)
        self.without_python.discard(worker)
        _discard(self.python, worker, NO_PYTHON_WORKER)
        for addresses in self.having.values():
            _discard(addresses, worker, NO_GO_WORKER)

    def _update(self, address: str) -> None:
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
                again[ts.key] = "released"  # tasks with restrictions must not be queued
        if again:
            self.scheduler.transitions(again, "millstream-place")

    def _weak(self, ts: Any, name: str) -> bool:
        """Report whether only its name marks a Python function as a Go function, and no worker has it."""
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
        """Restrict a task to the able workers among those that the user selected."""
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
        return False  # no selected worker is able, and its error says so


def _add(addresses: set[str], address: str, placeholder: str) -> None:
    addresses.add(address)
    addresses.discard(placeholder)


def _discard(addresses: set[str], address: str, placeholder: str) -> None:
    addresses.discard(address)
    if not addresses:
        addresses.add(placeholder)
