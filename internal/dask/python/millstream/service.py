"""Code that clients send to the scheduler: Client.run_on_scheduler, progress bars and scheduler plugins.

The scheduler is written in Go and runs no Python. Such code runs in this child process, with a facade in place of
the scheduler, which has the most used attributes with recent values.
"""

import asyncio
import inspect
import itertools
import pickle
import threading

from millstream import _plugins, _upload
from millstream._child import Reply
from millstream._facade import Scheduler


def setup(peer):
    peer.loop = asyncio.new_event_loop()  # calls may arrive before it runs
    _upload.setup(peer)
    service = Service(peer)
    _plugins.setup(peer, service.scheduler)
    peer.handle("versions", versions)
    peer.handle("run-function", service.run_function)
    peer.handle("feed-open", service.feed_open)
    peer.handle("feed-groups", service.feed_groups)
    peer.handle("feed-step", service.feed_step)
    peer.handle("feed-close", service.feed_close, inline=True)


def run(peer):
    """Run the event loop for coroutine functions in the main thread."""
    asyncio.set_event_loop(peer.loop)
    peer.loop.run_forever()


def versions(body, frames):
    """Client.get_versions: the packages of this interpreter, and additional ones by name."""
    from distributed.versions import get_versions

    return get_versions(packages=body.get("packages"))


def encode(message):
    """Return a Dask message as frames, which Go forwards unchanged."""
    from distributed.protocol.core import dumps

    return Reply(None, dumps(message))


class Service:
    def __init__(self, peer):
        import distributed  # noqa: F401  slow: not in the first call

        self.peer = peer
        self.scheduler = Scheduler(peer)
        self.feeds = {}  # id -> Feed
        self.ids = itertools.count(1)

    def run_function(self, body, frames):
        """Client.run_on_scheduler. frames: pickled function, args, kwargs. The reply is a Dask message, encoded."""
        from distributed.core import error_message
        from distributed.protocol import to_serialize
        from distributed.utils import has_arg

        wait = body.get("wait", True)
        self.scheduler._refresh()
        try:
            function = pickle.loads(frames[0])
            args = pickle.loads(frames[1]) if len(frames[1]) else ()
            kwargs = pickle.loads(frames[2]) if len(frames[2]) else {}
            for name in ("dask_scheduler", "dask_worker"):
                if has_arg(function, name):
                    kwargs[name] = self.scheduler
            coroutine = inspect.iscoroutinefunction(function)
            if not (wait or coroutine):
                raise ValueError("wait=False needs a coroutine function")
            if not coroutine:
                result = function(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = self.wait_for(result)
            elif wait:
                result = self.wait_for(function(*args, **kwargs))
            else:
                asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self.peer.loop)
                result = None
            return encode({"status": "OK", "result": to_serialize(result)})
        except Exception as e:
            return encode(error_message(e))

    def wait_for(self, awaitable):
        async def wait():
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self.peer.loop).result()

    def feed_open(self, body, frames):
        """Start a feed: frames are the pickled function, setup and teardown, or empty.

        The scheduler itself serves the progress bars of Dask; the reply describes what they need.
        """
        feed = Feed(*(pickle.loads(f) if len(f) else None for f in frames))
        n = next(self.ids)
        reply = {"id": n, **(feed.progress() or {})}
        if "keys" not in reply and feed.setup is not None:
            feed.state = feed.setup(self.scheduler)
            if inspect.isawaitable(feed.state):
                feed.state = self.wait_for(feed.state)
        self.feeds[n] = feed
        return reply

    def feed_groups(self, body, frames):
        """Return the groups of keys of a progress bar with its own grouping function."""
        group = self.feeds[body["id"]].group_by
        return [plain(group(k)) for k in body["keys"]]

    def feed_step(self, body, frames):
        feed = self.feeds[body["id"]]
        with feed.lock:
            self.scheduler._refresh()
            args = (self.scheduler,) if feed.state is None else (self.scheduler, feed.state)
            result = feed.function(*args)
            if inspect.isawaitable(result):
                result = self.wait_for(result)
        return encode(result)

    def feed_close(self, body, frames):
        feed = self.feeds.pop(body["id"], None)
        if feed is not None and feed.teardown is not None and "keys" not in (feed.progress() or {}):
            self.peer.executor.submit(feed.teardown, self.scheduler, feed.state)


class Feed:
    def __init__(self, function, setup=None, teardown=None):
        self.function, self.setup, self.teardown = function, setup, teardown
        self.state = None
        self.group_by = None
        self.lock = threading.Lock()

    def progress(self):
        """Return what a Dask progress bar shows; None for other feeds."""
        setup = self.setup
        if getattr(setup, "__module__", "") != "distributed.diagnostics.progressbar":
            return None
        if getattr(setup, "__qualname__", "").partition(".")[0] not in ("ProgressBar", "MultiProgressBar"):
            return None
        seen = inspect.getclosurevars(setup).nonlocals
        if "keys" not in seen or "complete" not in seen:
            return None
        reply = {"keys": list(seen["keys"]), "complete": bool(seen["complete"]), "multi": "group_by" in seen, "group": "prefix"}
        group = seen.get("group_by")
        if group == "spans":
            reply["group"] = "spans"
        elif callable(group) and (group.__module__, group.__name__) != ("dask.utils", "key_split"):
            self.group_by = group
            reply["group"] = "function"
        return reply


def plain(v):
    return v if isinstance(v, (str, bytes, int, float, bool, type(None))) else str(v)
