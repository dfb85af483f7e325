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

import ctypes
import gc

from millstream import _server, sidecar_profile, sidecar_tasks, sidecar_values
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
        self.worker.state.refresh()
        return Reply(None, await _server.handle(self.worker, body["peer"], frames))

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


def setup(peer):
    _server.prepare(peer)
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
