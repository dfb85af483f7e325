"""Scheduler plugins: they run in the event loop of this process and receive events of the scheduler, in order.

The scheduler queues events and never waits for a plugin. It sends only events that some plugin has a hook for.
"""

import asyncio
import inspect
import operator
import pickle
import threading
import traceback

from millstream._child import GoError, Reply
from millstream._facade_parts import forgotten

# Methods of plugins that the scheduler calls. start is called by register.
HOOKS = (
    "transition", "update_graph", "add_worker", "remove_worker", "add_client", "remove_client", "restart", "log_event",
    "valid_workers_downscaling", "before_close", "close",
)  # fmt: skip
MAX_REPORTS = 3  # tracebacks of one hook of one plugin; after that every thousandth
YIELD = 100  # events after which other coroutines run


def setup(peer, scheduler):
    """Register the handlers of a service and return its plugins."""
    plugins = Plugins(peer, scheduler)
    peer.handle("register-plugin", plugins.register)
    peer.handle("unregister-plugin", plugins.unregister)
    peer.handle("plugin-events", plugins.deliver)
    peer.handle("plugin-request", plugins.request)
    peer.handle("valid-workers", plugins.valid_workers)
    peer.handle("close-plugins", plugins.close)
    peer.handle("preload", plugins.preload)
    return plugins


class Installer:
    """Installs packages for this process and, unpickled in workers and nannies, there.

    The sandbox of this process may have neither network nor writable folders, and workers need the packages most: a failure
    here is printed, one of a worker raised.
    """

    def __init__(self, install):
        self.install = install

    def __call__(self):
        try:
            self.install()
        except Exception as e:
            print(f"packages not installed for the scheduler, whose Python is in a sandbox: {e}", flush=True)

    def __reduce__(self):
        return operator.getitem, ((self.install,), 0)


class Table(dict):
    """A dict that reports its changes: the handlers of the scheduler that plugins add."""

    def __init__(self, changed):
        super().__init__()
        self._changed = changed

    def __setitem__(self, name, value):
        self.update({name: value})

    def update(self, *args, **kwargs):
        before = dict(self)
        super().update(*args, **kwargs)
        try:
            self._changed()
        except GoError as e:
            super().clear()
            super().update(before)
            raise ValueError(str(e)) from None

    def setdefault(self, name, value=None):
        if name not in self:
            self[name] = value
        return self[name]

    def __delitem__(self, name):
        super().__delitem__(name)
        self._changed()

    def pop(self, name, *default):
        value = super().pop(name, *default)
        self._changed()
        return value

    def clear(self):
        super().clear()
        self._changed()


class Plugins:
    """The plugins of a scheduler by name, and the handlers that they have added."""

    def __init__(self, peer, scheduler):
        self.peer, self.scheduler = peer, scheduler
        self.plugins = {}
        self.handlers, self.stream_handlers = Table(self.changed), Table(self.changed)
        self.failures = {}  # (plugin, hook) -> number
        self.dropped = 0
        self.preloads = None
        scheduler._plugins = self

    def changed(self):
        """Report hooks and handlers to the scheduler."""
        hooks = [h for h in HOOKS if any(overrides(p, h) for p in self.plugins.values())]
        self.peer.call("scheduler-hooks", {"hooks": hooks, "streams": list(self.stream_handlers), "requests": list(self.handlers)})

    # -- plugins

    async def register(self, body, frames):
        """Client.register_plugin of a SchedulerPlugin. Reports whether a new process needs the plugin again."""
        from distributed.diagnostics import plugin as dask

        plugin = pickle.loads(frames[0])
        install, upload, directory = (getattr(dask, n, ()) for n in ("InstallPlugin", "SchedulerUploadFile", "UploadDirectory"))
        if isinstance(plugin, install):
            plugin._install_fn = Installer(plugin._install_fn)
        added = await self.start(plugin, body["name"] or None, body["idempotent"])
        # The scheduler keeps files and the plugins of workers; packages stay installed.
        keeps = isinstance(plugin, (install, upload)) or isinstance(plugin, directory) and plugin.mode == "workers"
        return added and not keeps

    async def start(self, plugin, name=None, idempotent=False):
        """Start and add a plugin. Report whether it was added: an idempotent one is ignored if the name is known."""
        from distributed.diagnostics.plugin import SchedulerPlugin, _get_plugin_name

        if not isinstance(plugin, SchedulerPlugin):
            raise TypeError(f"scheduler plugin {type(plugin).__name__}: want a subclass of distributed.SchedulerPlugin")
        name = name or _get_plugin_name(plugin)
        if name in self.plugins and idempotent:
            return False
        self.scheduler._refresh()
        result = plugin.start(self.scheduler)
        if inspect.isawaitable(result):
            await result
        self.add(plugin, name, idempotent)
        return True

    def add(self, plugin, name, idempotent=False):
        if name in self.plugins:
            if idempotent:
                return
            print(f"Scheduler already contains a plugin with name {name}; overwriting.")
        self.plugins[name] = plugin
        self.changed()

    def remove(self, name):
        if name not in self.plugins:
            raise ValueError(f"Could not find plugin {name!r} among the current scheduler plugins")
        del self.plugins[name]
        self.changed()

    async def unregister(self, body, frames):
        self.remove(body["name"])

    # -- events

    async def deliver(self, events, frames):
        """Call the hooks for a batch of events. A failed hook is reported and does not affect others."""
        for n, (kind, *args) in enumerate(events):
            if n % YIELD == YIELD - 1:
                await asyncio.sleep(0)
            await getattr(self, "on_" + kind)(*args)

    async def each(self, hook, *args, **kwargs):
        waiting = []
        for name, plugin in list(self.plugins.items()):
            if not overrides(plugin, hook):
                continue
            self.scheduler._hook = threading.get_ident()
            try:
                result = getattr(plugin, hook)(*args, **kwargs)
            except (Exception, SystemExit, KeyboardInterrupt) as e:
                self.failed(name, hook, e)
                continue
            finally:
                self.scheduler._hook = None
            if inspect.isawaitable(result):
                waiting.append((name, result))
        for name, result in waiting:
            try:
                await result
            except (Exception, SystemExit, KeyboardInterrupt) as e:
                self.failed(name, hook, e)

    def failed(self, name, hook, e):
        """Print the exception of a hook, for the log of the scheduler."""
        n = self.failures[name, hook] = self.failures.get((name, hook), 0) + 1
        if n <= MAX_REPORTS or n % 1000 == 0:
            print(f"Plugin {name} failed in {hook} ({n} times)\n{''.join(traceback.format_exception(e))}", flush=True)

    async def on_transition(self, key, start, finish, stimulus_id, kwargs):
        self.scheduler._gone = forgotten(key) if finish == "forgotten" else None
        await self.each("transition", key, start, finish, stimulus_id=stimulus_id, **kwargs)

    async def on_update_graph(self, client, keys, rows, stimulus_id):
        self.scheduler._refresh_info()
        annotations = {}
        for key, _, notes in rows:
            for name, value in (notes or {}).items():
                annotations.setdefault(name, {})[key] = value
        await self.each(
            "update_graph", self.scheduler, client=client, keys=set(keys), tasks=[r[0] for r in rows], annotations=annotations,
            priority={key: priority for key, priority, _ in rows if priority is not None}, stimulus_id=stimulus_id,
        )  # fmt: skip

    async def on_add_worker(self, address, stimulus_id):
        self.scheduler._refresh()
        await self.each("add_worker", scheduler=self.scheduler, worker=address)

    async def on_remove_worker(self, address, stimulus_id):
        self.scheduler._refresh()
        await self.each("remove_worker", scheduler=self.scheduler, worker=address, stimulus_id=stimulus_id)

    async def on_add_client(self, client, stimulus_id):
        self.scheduler._refresh_info()
        await self.each("add_client", scheduler=self.scheduler, client=client)

    async def on_remove_client(self, client, stimulus_id):
        self.scheduler._refresh_info()
        await self.each("remove_client", scheduler=self.scheduler, client=client)

    async def on_restart(self, _, stimulus_id):
        self.scheduler._refresh()
        await self.each("restart", self.scheduler)

    async def on_log_event(self, topic, msg):
        await self.each("log_event", topic, msg)

    async def on_dropped(self, n):
        self.dropped += n
        print(f"{n} events dropped: scheduler plugins are too slow", flush=True)

    async def on_stream(self, kind, name, frames):
        """A message of a client's or worker's stream."""
        from distributed.protocol.core import loads

        op = "?"
        try:
            message = loads(list(frames))
            op = message.pop("op")
            result = self.stream_handlers[op](**{kind: name, **message})
            if inspect.isawaitable(result):
                await result
        except (Exception, SystemExit, KeyboardInterrupt) as e:
            self.failed("stream handler", op, e)

    async def request(self, body, frames):
        """A request that a handler of a plugin serves. The reply is a Dask message, encoded."""
        from distributed.core import _expects_comm, error_message
        from distributed.protocol.core import dumps, loads

        try:
            self.scheduler._refresh()
            handler, message = self.handlers[body["op"]], loads([bytes(f) for f in frames])
            result = handler(None, **message) if _expects_comm(handler) else handler(**message)
            if inspect.isawaitable(result):
                result = await result
            return Reply(None, dumps(result))
        except (Exception, SystemExit, KeyboardInterrupt) as e:
            return Reply(None, dumps(error_message(e, status="uncaught-error")))

    def valid_workers(self, addresses, frames):
        """The workers that all plugins allow to be closed."""
        self.scheduler._refresh()
        known = self.scheduler.workers
        workers = [known[a] for a in addresses if a in known]
        for plugin in list(self.plugins.values()):
            workers = plugin.valid_workers_downscaling(self.scheduler, workers)
        return [w.address for w in workers]

    async def preload(self, body, frames):
        """Import the modules of --preload and call their dask_setup. Files are sent with their content."""
        import os
        import tempfile

        from distributed.preloading import process_preloads

        names, folder = [], None
        for name, frame in body["names"]:
            if frame is not None:
                folder = folder or tempfile.mkdtemp(prefix="preload-")
                path = os.path.join(folder, name)
                with open(path, "wb") as f:
                    f.write(frames[frame])
                name = path
            names.append(name)
        self.scheduler._refresh()
        self.preloads = process_preloads(self.scheduler, names, list(body["argv"] or ()))
        await self.preloads.start()

    async def close(self, body, frames):
        await self.each("before_close")
        if self.preloads is not None:
            await self.preloads.teardown()
        await self.each("close")


def overrides(plugin, hook):
    """Report whether a plugin has a hook of its own."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    own = getattr(type(plugin), hook, None)
    return hook in getattr(plugin, "__dict__", ()) or (own is not None and own is not getattr(SchedulerPlugin, hook, None))
