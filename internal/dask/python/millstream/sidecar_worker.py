"""The Worker that code in a sidecar sees.

It is a distributed.Worker that is created but never started: the Go process has the address, the state machine and the
stream to the scheduler. Requests of tasks and plugins are handled here or forwarded.
"""

import asyncio
import inspect
import logging
from collections.abc import MutableMapping
from types import SimpleNamespace

import distributed
from distributed.comm import get_address_host
from distributed.core import Status
from distributed.protocol import dumps, loads
from distributed.security import Security
from distributed.worker_state_machine import SecedeEvent, UpdateDataEvent

from millstream import sidecar_state
from millstream import sidecar_values as values_

logger = logging.getLogger("distributed.worker")


class Data(MutableMapping):
    """worker.data: the values of this process, and those of the Go process."""

    def __init__(self, peer, values):
        self.peer, self.values = peer, values
        self.ready = False  # a Worker is created without data, and Go may have values of an earlier sidecar

    def __getitem__(self, key):
        entry = self.values.find(key)
        if entry is None:
            reply = self.peer.call("fetch", {"key": key})
            if reply.body is None:
                raise KeyError(key)
            if "value" in reply.body:
                return reply.body["value"]
            return values_.deserialize(reply.frames[0], reply.frames[1:])
        return entry.open()

    def __contains__(self, key):
        return self.values.find(key) is not None or bool(self.peer.call("has", {"key": key}).body)

    def __iter__(self):
        return iter(self.peer.call("keys").body)

    def __len__(self):
        return len(self.peer.call("keys").body) if self.ready else 0

    def __setitem__(self, key, value):
        handle = next(self.values.own)
        self.values.put(handle, values_.Entry(key, value))
        self.peer.call("put", {"key": key, "handle": handle, "nbytes": values_.size_of(value)})

    def __delitem__(self, key):
        raise TypeError("results of a worker are freed by the scheduler")


class Worker(distributed.Worker):
    """See the module."""

    def __init__(self, peer, values, cfg):
        self._peer = peer
        self._values = values
        self._by_key = {}  # key of task -> number of its run; see sidecar.Tasks
        super().__init__(
            cfg["scheduler"],
            nthreads=cfg["nthreads"],
            name=cfg["name"],
            local_directory=cfg["directory"],
            memory_limit=cfg["memory_limit"] or 0,
            data=Data(peer, values),
            resources=dict(cfg["resources"]),
            security=Security(**cfg["security"]) if cfg.get("security") else None,
            contact_address=cfg["address"],
            lifetime=None,
            validate=False,
            preload=list(cfg["preload"] or ()),
            preload_argv=list(cfg["preload_argv"] or ()),
        )
        self.id = cfg["id"]
        self._status = Status.running
        self.state.address = cfg["address"]
        self.state = sidecar_state.State(peer, self.state)
        self.ip = get_address_host(cfg["address"])
        # The HTTP server is that of the Go process; only its port is known.
        self.http_server = SimpleNamespace(port=cfg["http_port"], address=self.ip)

    async def start_facade(self):
        self.data.ready = True
        await self.rpc.start()
        await self.preloads.start()

    listen_address = property(lambda self: self.address)  # Go listens

    def __repr__(self):
        return f"<Worker {self.address!r}, name: {self.name}, status: {self.status.name}, in a Millstream sidecar>"

    # -- methods of the state machine

    def handle_stimulus(self, *stims):
        for event in stims:
            if isinstance(event, SecedeEvent):
                run = self._by_key.get(event.key)
                if run is not None:
                    self._peer.notify("secede", {"run": run})
            elif isinstance(event, UpdateDataEvent):
                for key, value in event.data.items():
                    self.data[key] = value

    def batched_send(self, msg):
        self._peer.notify("stream", None, dumps(msg))

    async def set_resources(self, **resources):
        self.state.total_resources.update(resources)
        self.state.available_resources.update(resources)
        self._peer.call("resources", {k: float(v) for k, v in self.state.total_resources.items()})
        await self.scheduler.set_resources(resources=self.state.total_resources, worker=self.address)

    async def close(self, timeout=30, executor_wait=True, nanny=True, reason="worker-close"):
        self._peer.notify("end", {"reason": str(reason), "graceful": False})
        return "OK"

    async def close_gracefully(self, restart=None, reason="worker-close-gracefully"):
        self._peer.notify("end", {"reason": str(reason), "graceful": True})

    # -- messages that Go forwards

    def handle_order(self, frames):
        """Handle a stream message of the scheduler that Go does not know.

        It runs on the loop and is done when it returns, because later messages depend on it.
        """
        msg = loads(frames)
        op = msg.pop("op", None)
        handler = self.stream_handlers.get(op)
        if handler is None:
            logger.warning("unknown stream message from the scheduler: %s", op)
            return
        result = handler(**msg)
        if inspect.isawaitable(result):
            asyncio.ensure_future(result)

    async def end_facade(self):
        """Tear down plugins and clients when the worker ends."""
        await self.preloads.teardown()
        for name in list(self.plugins):
            await self.plugin_remove(name=name)
        if self._client is not None:
            await self._client._close(fast=True)
        await self.rpc.close()
        if self._workdir is not None:
            self._workdir.release()
