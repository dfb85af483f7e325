"""millstream.install(client): prepare a cluster for Go functions."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

_pickling = threading.Lock()  # guards the registry of cloudpickle while it contains our modules


@dataclasses.dataclass(frozen=True)
class Installed:
    """Result of install and a description of the cluster. `str` returns it as text."""

    scheduler: str  #: "dask" or "millstream"
    changed: bool  #: whether the plugin was installed in the scheduler
    go_workers: tuple[str, ...]  #: addresses of Millstream workers
    without_python: tuple[str, ...]  #: those of them that run no Python
    python_workers: tuple[str, ...]  #: addresses of Dask workers
    functions: tuple[str, ...]  #: names of all Go functions of the workers

    def __str__(self) -> str:
        if self.scheduler == "millstream":
            did = "The scheduler is Millstream and places Go functions itself; nothing was installed."
        elif self.changed:
            did = (
                "Installed a plugin in the Dask scheduler: Go functions go to workers that have them, and Python tasks "
                "stay off Millstream workers without Python."
            )
        else:
            did = "The plugin was already installed in the Dask scheduler."
        found = (
            f"The cluster has {len(self.go_workers)} Millstream workers ({len(self.without_python)} without Python), "
            f"{len(self.python_workers)} Dask workers and {len(self.functions)} Go functions."
        )
        return f"{did} {found}"


def install(client: Any = None) -> Installed:
    """Prepare the cluster of a client (default: the current one) for Go functions, once per scheduler.

    On a Dask scheduler it installs a plugin that places Go functions on Millstream workers and keeps Python tasks off those
    without Python. A Millstream scheduler needs nothing. It may be called again. The result describes what was done.
    """
    if client is None:
        from distributed import get_client

        client = get_client()
    if getattr(client, "asynchronous", False):
        raise TypeError("millstream.install needs a blocking client; with an asynchronous one, await install_async(client)")
    return client.sync(install_async, client)


async def install_async(client: Any) -> Installed:
    """Variant of install for an asynchronous client."""
    identity = await client.scheduler.identity(n_workers=-1)
    ours = "millstream" in identity
    changed = False
    if not ours:
        changed = await _register(client)
    return _report(identity, ours, changed)


async def _register(client: Any) -> bool:
    from distributed.protocol.pickle import dumps

    from .plugin import GoPlugin

    # As client.register_plugin, but with the code: the scheduler need not have this package.
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
