"""Python process of a Go nanny: runs its preloads, nanny plugins, and functions of Client.run(nanny=True).

It is started when one of them needs it. Calls from Go (see _child for the form of messages):

    start   {config}, plugins      create the Nanny that user code sees, run preloads, set up plugins
    plugin  {"name"}, plugin       set up a plugin before the worker is started
    rpc     {"peer"}, message      handle a request to the nanny in Python
    worker                         return the changes of user code to the next worker process
    close                          tear down preloads and plugins
"""

import asyncio
import copy
import os
import sys

import dask
import distributed
from distributed.core import Status, error_message
from distributed.security import Security

from millstream import _server
from millstream._child import Reply


class Process:
    """nanny.process: the process of the worker, as the nanny sees it at the time of the access."""

    def __init__(self, info):
        self.worker_address, self.pid = info["address"] or None, info["pid"] or None
        self.worker_dir = info["directory"] or None
        self.status = Status.running if info["state"] == "running" else Status.starting

    def is_alive(self):
        return self.pid is not None


class Nanny(distributed.Nanny):
    """A distributed.Nanny that is created but never started: the Go process listens and starts the worker."""

    def __init__(self, peer, cfg):
        self._peer = peer
        self._setting_up = False
        self._first_environ, self._first_path = dict(os.environ), list(sys.path)
        super().__init__(
            cfg["scheduler"],
            nthreads=cfg["nthreads"],
            name=cfg["name"] or None,
            local_directory=cfg["directory"] or None,
            memory_limit=cfg["memory_limit"] or 0,
            resources=dict(cfg["resources"]),
            security=Security(**cfg["security"]) if cfg.get("security") else None,
            death_timeout=cfg["death_timeout"] or None,
            host=cfg["host"],
            preload=list(cfg["preload"] or ()),
            preload_argv=list(cfg["preload_argv"] or ()),
            preload_nanny=list(cfg["preload_nanny"] or ()),
            preload_nanny_argv=list(cfg["preload_nanny_argv"] or ()),
        )
        self._address, self.ip = cfg["address"], cfg["host"]
        self._status = Status.running
        self._first = copy.deepcopy(self._settings())

    async def start_facade(self, plugins):
        """Run preloads and set up plugins; return those that failed. None restarts the worker."""
        await self.rpc.start()
        self._setting_up = True
        try:
            await self.preloads.start()
            failed = []
            for name, pickled in plugins:
                result = await self.plugin_add(plugin=bytes(pickled), name=name)
                if result["status"] != "OK":
                    failed.append((name, result.get("exception_text", "")))
            return failed
        finally:
            self._setting_up = False

    def __repr__(self):
        return f"<Nanny: {self.worker_address}, threads: {self.nthreads}, of Millstream>"

    # -- the process of the worker, which Go owns

    @property
    def process(self):
        info = self._peer.call("info").body
        return Process(info) if info["pid"] else None

    @process.setter
    def process(self, value):
        pass  # of __init__

    async def kill(self, timeout=5, reason="nanny-kill"):
        await self._peer.acall("kill", {"reason": str(reason)})

    async def instantiate(self):
        await self._peer.acall("ready")
        return Status.running

    async def restart(self, timeout=30, reason="nanny-restart"):
        if self._setting_up:
            return "OK"
        try:
            await asyncio.wait_for(asyncio.shield(self._peer.acall("restart", {"reason": str(reason)})), timeout)
        except asyncio.TimeoutError:
            return "timed out"
        except Exception as e:
            return error_message(e)
        return "OK"

    async def close(self, timeout=5, reason="nanny-close"):
        self._peer.notify("end", {"reason": str(reason), "graceful": False})
        return "OK"

    def close_gracefully(self, reason="nanny-close-gracefully"):
        self._peer.notify("end", {"reason": str(reason), "graceful": True})

    # -- settings of the next worker process

    def _settings(self):
        return {
            "env": {**self.pre_spawn_env, **self.env},
            "config": self.config,
            "nthreads": self.nthreads,
            "name": self.name,
            "resources": self.resources,
            "memory_limit": self.memory_manager.memory_limit,
            "preload": self.preload,
            "preload_argv": self.preload_argv,
        }

    def worker_settings(self):
        """The changes of user code: what it has set in the nanny, in os.environ and in sys.path."""
        first, out = self._first, {}
        settings = self._settings()
        env = {k: v for k, v in os.environ.items() if self._first_environ.get(k) != v}
        env.update((k, str(v)) for k, v in settings.pop("env").items() if first["env"].get(k) != str(v))
        path = [p for p in sys.path if p not in self._first_path]
        if path:
            own = env.get("PYTHONPATH", self._first_environ.get("PYTHONPATH"))
            env["PYTHONPATH"] = os.pathsep.join([*path, own] if own else path)
        for name, value in settings.items():
            if value != first[name]:
                out[name] = value
        if "config" in out:
            env["DASK_INTERNAL_INHERIT_CONFIG"] = dask.config.serialize(out.pop("config"))
        if "name" in out:
            out["name"] = str(out["name"])
        if "resources" in out:
            out["resources"] = {k: float(v) for k, v in (out["resources"] or {}).items()}
        if "memory_limit" in out:
            out["memory_limit"] = int(out["memory_limit"] or 0)
        out["env"] = env
        return out

    async def end_facade(self):
        await self.preloads.teardown()
        for name in list(self.plugins):
            await self.plugin_remove(name=name)
        await self.rpc.close()


class Handlers:
    def __init__(self, peer):
        self.peer = peer
        self.nanny = None

    async def start(self, body, frames):
        nanny = Nanny(self.peer, body)
        failed = await nanny.start_facade(zip(body["plugins"], frames))
        self.nanny = nanny
        return {"failed": failed}

    async def plugin(self, body, frames):
        self.nanny._setting_up = True
        try:
            result = await self.nanny.plugin_add(plugin=bytes(frames[0]), name=body["name"])
        finally:
            self.nanny._setting_up = False
        return {"failed": [] if result["status"] == "OK" else [(body["name"], result.get("exception_text", ""))]}

    async def rpc(self, body, frames):
        return Reply(None, await _server.handle(self.nanny, body["peer"], frames))

    async def worker(self, body, frames):
        return self.nanny.worker_settings()

    async def close(self, body, frames):
        if self.nanny is not None:
            await self.nanny.end_facade()


def setup(peer):
    _server.prepare(peer)
    h = Handlers(peer)
    for op in ("start", "plugin", "rpc", "worker", "close"):
        peer.handle(op, getattr(h, op))


def run(peer):
    peer.loop.run_forever()
