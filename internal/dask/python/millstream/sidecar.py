"""Python process of a Go worker: runs the Python tasks and stores their results.

Calls from Go (see _child for the form of messages):

    start   {config}                         create the Worker that tasks see, with the plugins of the scheduler
    run     (number, key, …)                 run a task; its number is the handle of its result
    get     [handle, …]                      return results as header and frames
    free    [handle, …]                      release values; no reply
    rpc     {"peer"}, message                handle a request to the worker in Python
    order   message                          handle a stream message of the scheduler in Python; no reply
    profile {"start", "stop", "key"}         return the call tree of tasks, see sidecar_profile
    counts  {"start", "stop"}                return the numbers of samples by cycle and prefix
    stacks  [key, …] or None                 return the call stacks of running tasks
    trim                                     return memory to the system
    close                                    tear down plugins; the process exits when the socket is closed
"""

import asyncio
import ctypes
import gc
import logging
import signal
import warnings

from millstream import sidecar_profile, sidecar_tasks, sidecar_values
from millstream._child import Reply
from millstream.sidecar_worker import Worker


class Sidecar:
    def __init__(self, peer):
        self.peer = peer
        self.values = sidecar_values.Values()
        self.tasks = sidecar_tasks.Tasks(peer, self.values)
        self.worker = self.profiler = None

    async def start(self, body, frames):
        self.worker = Worker(self.peer, self.values, body)
        await self.worker.start_facade()
        self.tasks.worker = self.worker
        self.profiler = sidecar_profile.Profiler(self.worker, body["profile_interval"], body["profile_cycle"])
        failed = []
        for (name, *_), pickled in zip(body["plugins"], frames):
            result = await self.worker.plugin_add(plugin=bytes(pickled), name=name)
            if result["status"] != "OK":
                failed.append((name, result.get("exception_text", "")))
        return {"failed": failed}

    def get(self, body, frames):
        lengths, out = [], []
        for handle in body:
            entry = self.values.get(handle)
            value = entry.open()
            if entry.actor:
                value = self.tasks.proxy(entry)
            header, more = sidecar_values.serialize(value)
            lengths.append(1 + len(more))
            out += [header, *more]
        return Reply(lengths, out)

    def free(self, body, frames):
        for entry in self.values.drop(body):
            if entry.actor and self.worker.state.actors.get(entry.key) is entry.value:
                del self.worker.state.actors[entry.key]

    async def rpc(self, body, frames):
        return Reply(None, await self.worker.handle_request(body["peer"], frames))

    def order(self, body, frames):
        self.peer.loop.call_soon_threadsafe(self.worker.handle_order, frames)

    def trim(self, body, frames):
        gc.collect()
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):
            pass  # not glibc

    async def close(self, body, frames):
        await self.worker.end_facade()


class Forward(logging.Handler):
    """Sends log records to the Go worker, which adds them to its log."""

    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    def emit(self, record):
        try:
            self.peer.notify("log", {"level": record.levelno, "name": record.name, "text": self.format(record)[:10_000]})
        except Exception:
            pass  # the Go process has ended


def setup(peer):
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="tornado")
    handler = Forward(peer)
    root, distributed = logging.getLogger(), logging.getLogger("distributed")
    for logger in (root, distributed):
        logger.handlers[:] = [handler]
    distributed.propagate = False
    # The Go worker decides when this process ends, even if a signal is sent to both. A function, because SIG_IGN is
    # inherited by programs that tasks start.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    peer.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(peer.loop)
    s = Sidecar(peer)
    peer.handle("start", s.start)
    peer.handle("run", s.tasks.start, inline=True)
    peer.handle("get", s.get)
    peer.handle("free", s.free, inline=True)
    peer.handle("rpc", s.rpc)
    peer.handle("order", s.order, inline=True)
    peer.handle("profile", lambda body, frames: s.profiler.tree(body, frames))
    peer.handle("counts", lambda body, frames: s.profiler.counts(body, frames))
    peer.handle("stacks", lambda body, frames: s.profiler.stacks(body, frames))
    peer.handle("trim", s.trim)
    peer.handle("close", s.close)


def run(peer):
    peer.loop.run_forever()
