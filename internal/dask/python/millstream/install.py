"""millstream.install(client): prepare a cluster for Go functions."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

_pickling = threading.Lock()  # owns cloudpickle's registry while it has our modules in it


@dataclasses.dataclass(frozen=True)
class Installed:
    """What install did, and what it found. `str` says it in words."""

    scheduler: str  #: "dask" or "millstream"
    changed: bool  #: whether something was put into the scheduler
    go_workers: tuple[str, ...]  #: addresses of Millstream workers
    without_python: tuple[str, ...]  #: those among them that run no Python
    python_workers: tuple[str, ...]  #: addresses of Dask's own workers
    functions: tuple[str, ...]  #: names of all Go functions that workers have

    def __str__(self) -> str:
        if self.scheduler == "millstream":
            did = "The scheduler is Millstream's and places Go functions by itself; nothing was installed."
        elif self.changed:
            did = (
                "Installed a plugin in Dask's scheduler: Go functions go to workers that have them, and Python tasks "
                "stay off Millstream workers without Python."
            )
        else:
            did = "The plugin was in Dask's scheduler already."
        found = (
            f"Now there are {len(self.go_workers)} Millstream workers ({len(self.without_python)} without Python), "
            f"{len(self.python_workers)} of Dask's own, and {len(self.functions)} Go functions."
        )
        return f"{did} {found}"


def install(client: Any = None) -> Installed:
    """Prepare the cluster of a client (default: the current one) for Go functions, once per scheduler.

    On Dask's scheduler it installs a plugin that keeps Go functions on Millstream workers and Python tasks off those
    without Python. On Millstream's scheduler there is nothing to do. It may be called again. It says what it did.
    """
    if client is None:
        from distributed import get_client

        client = get_client()
    if getattr(client, "asynchronous", False):
        raise TypeError("millstream.install wants a client that blocks: with an asynchronous one, await install_async(client)")
    return client.sync(install_async, client)


async def install_async(client: Any) -> Installed:
    """install for an asynchronous client."""
    identity = await client.scheduler.identity(n_workers=-1)
    ours = "millstream" in identity
    changed = False
    if not ours:
        changed = await _register(client)
    return _report(identity, ours, changed)


async def _register(client: Any) -> bool:
    from distributed.protocol.pickle import dumps

    from .plugin import GoPlugin

    # Like client.register_plugin, but with the code: the scheduler need not have this package.
    data = _by_value(dumps, GoPlugin())
    before = await client.scheduler.events(topic="millstream-install")
    await client.scheduler.register_scheduler_plugin(plugin=data, name=GoPlugin.name, idempotent=True)
    await client.scheduler.log_event(topic="millstream-install", msg={"action": "install", "client": client.id})
    return not before


def _by_value(dumps: Any, plugin: Any) -> bytes:
    import cloudpickle

    from . import plugin as plugin_module
    from . import stubs as stubs_module

    with _pickling:
        known = cloudpickle.list_registry_pickle_by_value()
        added = [m for m in (plugin_module, stubs_module) if m.__name__ not in known]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            return dumps(plugin)
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def _report(identity: dict, ours: bool, changed: bool) -> Installed:
    go, bare, python, functions = [], [], [], set()
    for address, worker in identity.get("workers", {}).items():
        own = worker.get("millstream")
        if not isinstance(own, dict):
            python.append(address)
            continue
        go.append(address)
        functions.update(own.get("functions") or ())
        if not own.get("python"):
            bare.append(address)
    return Installed("millstream" if ours else "dask", changed, tuple(go), tuple(bare), tuple(python), tuple(sorted(functions)))
