"""The dask_scheduler argument of functions that run in a scheduler written in Go."""

import builtins
import collections
import collections.abc
import functools
import pickle
import sys
import tempfile
import threading
import time

from millstream._facade_parts import Client, Computation, LiveTasks, Memory, Neighborhood, Tasks, Worker

FRESH = 0.05  # seconds for which fetched state is reused, so that a function that visits each task fetches once

# Attributes of the Dask scheduler that a function may want and this scheduler does not have.
MISSING = {
    "add_worker": "workers register themselves",
    "transition": "the states of tasks cannot be changed from Python",
    "transitions": "the states of tasks cannot be changed from Python",
    "broadcast": "use Client.run",
    "stream_comms": "connections belong to a process written in Go",
    "client_comms": "connections belong to a process written in Go",
}


# Dask extensions that clients and workers can use, by their names in Dask.
EXTENSIONS = ("amm", "events", "memory_sampler", "multi_locks", "publish", "queues", "replay-tasks", "semaphores", "shuffle", "stealing", "variables")


class Extensions(collections.abc.MutableMapping):
    """Names of the Dask extensions that this scheduler serves, which have no Python objects, and those of plugins."""

    def __init__(self):
        self._own = {}

    def __getitem__(self, name):
        if name in self._own:
            return self._own[name]
        if name not in EXTENSIONS:
            raise KeyError(
                f"no extension {name!r}: this scheduler is Millstream, written in Go, and serves the extensions "
                f"{', '.join(EXTENSIONS)}"
            )
        raise NotImplementedError(
            f"dask_scheduler.extensions[{name!r}]: the extension is served, but has no Python object: this scheduler is "
            "Millstream, written in Go"
        )

    def __setitem__(self, name, extension):
        self._own[name] = extension

    def __delitem__(self, name):
        del self._own[name]

    def __contains__(self, name):
        return name in EXTENSIONS or name in self._own

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self.keys())

    def keys(self):
        return dict.fromkeys((*EXTENSIONS, *self._own)).keys()  # can be unpickled by clients without this package

    def __repr__(self):
        return f"<Extensions: {', '.join(self)}>"


class Monitor:
    """System monitor of the scheduler. It has count only, which distributed.performance_report reads."""

    count = 0

    def __getattr__(self, name):
        raise NotImplementedError(
            f"dask_scheduler.monitor.{name}: this scheduler is Millstream, written in Go; /metrics and the dashboard have the figures"
        )


class Scheduler:
    """Recent state of a scheduler in another process.

    Attributes and methods have the names and forms of distributed.Scheduler. State that is read within one call of a
    function is not older than the call. Attributes that a function sets are kept for later functions, until this process
    is restarted.
    """

    type = "Scheduler"
    status = "running"
    validate = False
    plugins = property(lambda self: self._plugins.plugins)
    handlers = property(lambda self: self._plugins.handlers)
    stream_handlers = property(lambda self: self._plugins.stream_handlers)

    def __init__(self, peer):
        self._peer = peer
        self._plugins = self._gone = None
        self._hook = None  # thread in which a hook of a plugin runs
        self._tasks_cost = 0.0  # seconds to fetch all tasks
        self.extensions = Extensions()
        self.periodic_callbacks = {}
        self._lock = threading.RLock()
        self._info = self._tasks = None
        self._info_at = self._tasks_at = self._log_start = 0.0

    def __repr__(self):
        return f"<Scheduler {self.address!r}, workers: {len(self.workers)}, cores: {self.total_nthreads}, tasks: {len(self.tasks)}>"

    def __getattr__(self, name):
        if name in MISSING:
            raise NotImplementedError(f"dask_scheduler.{name}: {MISSING[name]}. This scheduler is Millstream, written in Go.")
        raise AttributeError(f"dask_scheduler has no {name!r}: this scheduler is Millstream, written in Go; it has {attributes()}")

    def _refresh(self):
        """Discard fetched state, so that a function sees everything that happened before its call."""
        with self._lock:
            self._info = self._tasks = None

    def _refresh_info(self):
        """Discard fetched state of workers and clients."""
        with self._lock:
            self._info = None

    def _fetch(self):
        with self._lock:
            if self._info is None or time.monotonic() - self._info_at > FRESH:
                self._info = self._peer.call("scheduler-info").body
                self._info_at = time.monotonic()
            return self._info

    def _fetch_tasks(self):
        with self._lock:
            # Hooks of plugins that visit all tasks again and again must not occupy the scheduler.
            fresh = max(FRESH, 20 * self._tasks_cost) if self._in_hook() else FRESH
            begin = time.monotonic()
            if self._tasks is None or begin - self._tasks_at > fresh:
                self._tasks = Tasks(self._peer.call("scheduler-tasks").body, self)
                self._tasks_at = time.monotonic()
                self._tasks_cost = self._tasks_at - begin
            return self._tasks

    def _in_hook(self):
        return self._hook == threading.get_ident()

    def _fetch_task(self, key):
        """Fetch one task and its neighbors; None if there is no such task."""
        rows = self._peer.call("scheduler-task", {"key": key}).body
        if not rows:
            gone = self._gone
            return gone and gone[0] == key and Neighborhood([gone], self)[key] or None
        return Neighborhood(rows, self)[key]

    address = property(lambda self: self._fetch()["address"])
    id = property(lambda self: self._fetch()["id"])
    name = id
    services = property(lambda self: self._fetch()["services"])
    n_workers = property(lambda self: self._fetch()["n_workers"])
    total_nthreads = property(lambda self: self._fetch()["total_threads"])
    total_memory = property(lambda self: self._fetch()["total_memory"])
    total_occupancy = property(lambda self: self._fetch()["occupancy"])
    workers = property(lambda self: {a: Worker(self, a, d) for a, d in self._fetch()["workers"].items()})
    loop = property(lambda self: self._peer.loop)
    bandwidth = property(lambda self: self._fetch()["bandwidth"])
    transition_counter = property(lambda self: self._fetch()["transition_counter"])
    idle = property(lambda self: {a: w for a, w in self.workers.items() if w._info["idle"]})
    idle_task_count = property(lambda self: {w for w in self.workers.values() if w._info["idle"]})
    saturated = property(lambda self: {w for w in self.workers.values() if w._info["saturated"]})
    resources = property(lambda self: by_resource(self.workers.values()))
    host_info = property(lambda self: by_host(self.workers.values()))
    memory = property(lambda self: Memory.sum(w.memory for w in self.workers.values()))
    n_tasks = property(lambda self: len(self.tasks))
    queued = property(lambda self: [t for t in sorted(self.tasks.values(), key=lambda t: t.priority) if t.state == "queued"])
    unrunnable = property(lambda self: {t for t in self.tasks.values() if t.state == "no-worker"})
    replicated_tasks = property(lambda self: {t for t in self.tasks.values() if len(t._row[13]) > 1})
    events = property(lambda self: self.get_events())
    task_groups = property(lambda self: self.tasks.groups())
    task_prefixes = property(lambda self: self.tasks.prefixes())
    transition_log = property(lambda self: TransitionLog(self, self._peer.call("scheduler-transitions").body))
    aliases = property(lambda self: {d["name"]: a for a, d in self._fetch()["workers"].items()})
    running = property(lambda self: {w for w in self.workers.values() if w.status == "running"})
    clients = property(lambda self: {c: Client(self, c) for c in self._fetch()["clients"]})
    task_metadata = property(lambda self: self._fetch()["metadata"])
    tasks = property(lambda self: LiveTasks(self) if self._in_hook() else self._fetch_tasks())
    worker_ttl = property(lambda self: self._fetch()["worker_ttl"])
    monitor = Monitor()

    computations = property(lambda self: collections.deque(map(Computation, self._peer.call("scheduler-computations").body)))

    def _call(self, method, args):
        return self._result(self._peer.call("scheduler-call", {"method": method, "args": args}))

    async def _acall(self, method, args):
        return self._result(await self._peer.acall("scheduler-call", {"method": method, "args": args}))

    def _result(self, reply):
        self._refresh()
        if "result" in reply.body:
            return reply.body["result"]
        kind = getattr(builtins, reply.body["type"], None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind = RuntimeError
        raise kind(reply.body["message"])

    def adaptive_target(self, target_duration=None):
        return self._call("adaptive_target", given(target_duration=target_duration))

    def workers_to_close(self, memory_ratio=None, n=None, key=None, minimum=None, target=None, attribute="address"):
        if key is not None:
            raise NotImplementedError("workers_to_close: key is not supported. This scheduler is Millstream, written in Go.")
        args = given(memory_ratio=memory_ratio, n=n, minimum=minimum, target=target, attribute=attribute)
        return self._call("workers_to_close", args)

    async def retire_workers(self, workers=None, *, names=None, close_workers=False, remove=True, stimulus_id=None, **kwargs):
        args = given(workers=addresses(workers), names=names and list(names), close_workers=close_workers, remove=remove, **kwargs)
        return await self._acall("retire_workers", args)

    async def restart(self, *, client=None, timeout=30, wait_for_workers=True, stimulus_id="facade"):
        args = given(client=client, timeout=timeout, wait_for_workers=wait_for_workers, stimulus_id=stimulus_id)
        await self._acall("restart", args)

    async def rebalance(self, keys=None, workers=None, *, stimulus_id=None):
        return await self._acall("rebalance", given(keys=keys and plain_keys(keys), workers=addresses(workers)))

    async def replicate(self, keys=None, n=None, workers=None, branching_factor=2, delete=True, stimulus_id=None):
        return await self._acall("replicate", {"keys": plain_keys(keys), "n": n, "delete": delete, **given(workers=addresses(workers))})

    async def remove_worker(self, address, *, stimulus_id=None, expected=False, close=True):
        return await self._acall("remove_worker", {"address": address, "expected": expected, "close": close})

    async def close(self, fast=None, close_workers=None, reason="unknown"):
        await self._acall("close", {})

    def check_idle(self):
        return self._call("check_idle", {})

    def get_who_has(self, keys=None):
        return self._call("get_who_has", given(keys=keys and plain_keys(keys)))

    def get_has_what(self, workers=None):
        return self._call("get_has_what", given(workers=addresses(workers)))

    def get_ncores(self, workers=None):
        return self._call("get_ncores", given(workers=addresses(workers)))

    def get_ncores_running(self, workers=None):
        return self._call("get_ncores_running", given(workers=addresses(workers)))

    def get_processing(self, workers=None):
        return self._call("get_processing", given(workers=addresses(workers)))

    def get_nbytes(self, keys=None, summary=True):
        return self._call("get_nbytes", {"summary": summary, **given(keys=keys and plain_keys(keys))})

    def get_task_status(self, keys=None):
        return self._call("get_task_status", {"keys": plain_keys(keys)})

    def get_task_prefix_states(self):
        return self._call("get_task_prefix_states", {})

    def get_task_stream(self, start=None, stop=None, count=None):
        return self._call("get_task_stream", given(start=start, stop=stop, count=count))

    def get_logs(self, start=0, n=None, timestamps=False):
        return self._call("get_logs", {"start": start, "n": n, "timestamps": timestamps})

    def story(self, *keys_or_tasks_or_stimuli):
        keys = [getattr(k, "key", k) for k in keys_or_tasks_or_stimuli]
        return [Transition._make(row) for row in self._call("story", {"keys_or_stimuli": keys})]

    def worker_objective(self, ts, ws):
        fetch = sum(d.get_nbytes() for d in ts.dependencies if ws not in d.who_has)
        return ws.occupancy / ws.nthreads + fetch / self.bandwidth, ws.nbytes

    def valid_workers(self, ts):
        """Return the running workers that may run a task; None if all may."""
        if not ts.worker_restrictions and not ts.resource_restrictions:
            return None
        running = self.running
        if ts.worker_restrictions:
            running = {w for w in running if {w.address, str(w.name), w.host} & ts.worker_restrictions}
        for name, amount in (ts.resource_restrictions or {}).items():
            running = {w for w in running if w.resources.get(name, 0) >= amount}
        return running

    def identity(self, n_workers=-1):
        info = dict(self._fetch())
        for name in ("occupancy", "clients", "metadata", "worker_ttl", "bandwidth", "transition_counter"):
            info.pop(name)
        if n_workers >= 0:
            info["workers"] = dict(list(info["workers"].items())[:n_workers])
        return info

    @functools.cached_property
    def local_directory(self):
        """A folder of this process, from which it imports, for the files of UploadDirectory."""
        folder = tempfile.mkdtemp(prefix="dask-scratch-space-")
        sys.path.insert(0, folder)
        return folder

    def log_event(self, topic, msg):
        self._peer.call("scheduler-log-event", {"topic": topic, "msg": msg})

    def get_events(self, topic=None):
        return self._peer.call("scheduler-events", {"topic": topic}).body

    async def upload_file(self, filename, data, load=True):
        data = data.encode() if isinstance(data, str) else data
        return (await self._peer.acall("scheduler-upload-file", {"filename": filename, "load": load}, [data])).body

    async def register_worker_plugin(self, comm, plugin, name, idempotent=False):
        return await self._plugin("scheduler-worker-plugin", plugin, name, idempotent)

    async def register_nanny_plugin(self, comm, plugin, name, idempotent=False):
        return await self._plugin("scheduler-nanny-plugin", plugin, name, idempotent)

    async def unregister_worker_plugin(self, comm, name):
        return await self._acall("unregister_worker_plugin", {"name": name})

    async def unregister_nanny_plugin(self, comm, name):
        return await self._acall("unregister_nanny_plugin", {"name": name})

    async def _plugin(self, op, plugin, name, idempotent):
        from distributed.protocol.core import loads

        reply = await self._peer.acall(op, {"name": name, "idempotent": idempotent}, [plugin])
        return loads([bytes(f) for f in reply.frames], deserialize=False)

    def add_plugin(self, plugin, *, idempotent=False, name=None, **kwargs):
        from distributed.diagnostics.plugin import _get_plugin_name

        self._plugins.add(plugin, name or _get_plugin_name(plugin), idempotent)

    def remove_plugin(self, name=None):
        self._plugins.remove(name)

    async def register_scheduler_plugin(self, plugin, name=None, idempotent=None):
        if isinstance(plugin, (bytes, bytearray)):
            plugin = pickle.loads(plugin)
        await self._plugins.start(plugin, name, bool(getattr(plugin, "idempotent", False) if idempotent is None else idempotent))

    async def unregister_scheduler_plugin(self, name):
        self._plugins.remove(name)

    def get_worker_service_addr(self, worker, service_name, protocol=False):
        port = self.workers[worker].services.get(service_name)
        return None if port is None else (worker.rpartition(":")[0].rpartition("/")[2], port)


class Transition(collections.namedtuple("Transition", "key start finish recommendations stimulus_id timestamp")):
    """A transition of a task. A client receives a tuple, because it may not have this package."""

    __slots__ = ()

    def __reduce__(self):
        return tuple, (tuple(self),)


class TransitionLog(collections.deque):
    """The latest transitions. clear hides those until now from functions on the scheduler."""

    def __init__(self, scheduler, rows):
        super().__init__(t for t in map(Transition._make, rows) if t.timestamp >= scheduler._log_start)
        self._scheduler = scheduler

    def clear(self):
        self._scheduler._log_start = time.time()
        super().clear()

    def __reduce__(self):
        return collections.deque, (list(self),)


def given(**args):
    """Return the arguments that are not None."""
    return {name: value for name, value in args.items() if value is not None}


def addresses(workers):
    """Return the addresses of workers that are given as addresses or objects; None for None."""
    return None if workers is None else [getattr(w, "address", w) for w in workers]


def plain_keys(keys):
    return None if keys is None else [getattr(k, "key", k) for k in keys]


def by_resource(workers):
    """Return the resources of workers: {name: {address: amount}}."""
    out = {}
    for w in workers:
        for name, amount in w.resources.items():
            out.setdefault(name, {})[w.address] = amount
    return out


def by_host(workers):
    """Return the workers of each host: {host: {"addresses": …, "nthreads": …, "last-seen": …}}."""
    out = {}
    for w in workers:
        host = out.setdefault(w.host, {"addresses": set(), "nthreads": 0, "last-seen": 0.0})
        host["addresses"].add(w.address)
        host["nthreads"] += w.nthreads
        host["last-seen"] = max(host["last-seen"], w.last_seen)
    return out


def attributes():
    return ", ".join(n for n in vars(Scheduler) if not n.startswith("_"))
