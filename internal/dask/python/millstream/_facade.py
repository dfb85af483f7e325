"""The dask_scheduler argument of functions that run in a scheduler written in Go."""

import collections.abc
import pickle
import threading
import time
import uuid

FRESH = 0.05  # seconds for which fetched state is reused, so that a function that visits each task fetches once

# Attributes of the Dask scheduler that a function may want and this scheduler does not have.
MISSING = {
    "plugins": "scheduler plugins are not supported; worker and nanny plugins are",
    "add_plugin": "scheduler plugins are not supported; worker and nanny plugins are",
    "remove_plugin": "scheduler plugins are not supported; worker and nanny plugins are",
    "handlers": "handlers cannot be changed from Python",
    "stream_handlers": "handlers cannot be changed from Python",
    "periodic_callbacks": "there are no Python periodic callbacks",
    "loop": "the scheduler has no Python event loop",
    "transition_log": "use Client.story",
    "get_task_stream": "use Client.get_task_stream",
    "restart": "use Client.restart",
    "retire_workers": "use Client.retire_workers",
    "close": "use Client.shutdown",
}


# Dask extensions that clients and workers can use, by their names in Dask.
EXTENSIONS = ("events", "multi_locks", "publish", "queues", "replay-tasks", "semaphores", "shuffle", "stealing", "variables")


class Extensions(collections.abc.Mapping):
    """Names of the Dask extensions that this scheduler serves. There are no Python objects for them."""

    def __getitem__(self, name):
        if name not in EXTENSIONS:
            raise KeyError(
                f"no extension {name!r}: this scheduler is Millstream, written in Go, and serves the extensions "
                f"{', '.join(EXTENSIONS)}"
            )
        raise NotImplementedError(
            f"dask_scheduler.extensions[{name!r}]: the extension is served, but has no Python object: this scheduler is "
            "Millstream, written in Go"
        )

    def __contains__(self, name):
        return name in EXTENSIONS

    def __iter__(self):
        return iter(EXTENSIONS)

    def __len__(self):
        return len(EXTENSIONS)

    def keys(self):
        return dict.fromkeys(EXTENSIONS).keys()  # can be unpickled by clients without this package

    def __repr__(self):
        return f"<Extensions: {', '.join(EXTENSIONS)}>"


class Monitor:
    """System monitor of the scheduler. It has count only, which distributed.performance_report reads."""

    count = 0

    def __getattr__(self, name):
        raise NotImplementedError(
            f"dask_scheduler.monitor.{name}: this scheduler is Millstream, written in Go; /metrics and the dashboard have the figures"
        )


class Scheduler:
    """Recent state of a scheduler in another process.

    It has address, id, name, type, status, workers, aliases, clients, tasks, task_prefixes, computations,
    total_nthreads, n_workers, worker_ttl, the names of extensions, monitor.count, identity(), log_event(topic, msg), get_events(topic) and
    get_worker_service_addr. Attributes that a function sets are kept for later functions, until this process is restarted.
    """

    type = "Scheduler"
    status = "running"

    def __init__(self, peer):
        self._peer = peer
        self._lock = threading.RLock()
        self._info = self._tasks = None
        self._info_at = self._tasks_at = 0.0

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

    def _fetch(self):
        with self._lock:
            if self._info is None or time.monotonic() - self._info_at > FRESH:
                self._info = self._peer.call("scheduler-info").body
                self._info_at = time.monotonic()
            return self._info

    def _fetch_tasks(self):
        with self._lock:
            if self._tasks is None or time.monotonic() - self._tasks_at > FRESH:
                self._tasks = Tasks(self._peer.call("scheduler-tasks").body, self.workers)
                self._tasks_at = time.monotonic()
            return self._tasks

    address = property(lambda self: self._fetch()["address"])
    id = property(lambda self: self._fetch()["id"])
    name = id
    services = property(lambda self: self._fetch()["services"])
    n_workers = property(lambda self: self._fetch()["n_workers"])
    total_nthreads = property(lambda self: self._fetch()["total_threads"])
    total_memory = property(lambda self: self._fetch()["total_memory"])
    total_occupancy = property(lambda self: self._fetch()["occupancy"])
    workers = property(lambda self: {a: Worker(a, d) for a, d in self._fetch()["workers"].items()})
    aliases = property(lambda self: {d["name"]: a for a, d in self._fetch()["workers"].items()})
    running = property(lambda self: {w for w in self.workers.values() if w.status == "running"})
    clients = property(lambda self: {c: Client(c) for c in self._fetch()["clients"]})
    task_metadata = property(lambda self: self._fetch()["metadata"])
    tasks = property(lambda self: self._fetch_tasks())
    worker_ttl = property(lambda self: self._fetch()["worker_ttl"])
    extensions = Extensions()
    monitor = Monitor()

    computations = property(lambda self: collections.deque(map(Computation, self._peer.call("scheduler-computations").body)))

    @property
    def task_prefixes(self):
        out = {}
        for t in self.tasks.values():
            p = out.setdefault(t.prefix.name, t.prefix)
            p.states[t.state] = p.states.get(t.state, 0) + 1
        return out

    def identity(self, n_workers=-1):
        info = dict(self._fetch())
        for name in ("occupancy", "clients", "metadata", "worker_ttl"):
            info.pop(name)
        if n_workers >= 0:
            info["workers"] = dict(list(info["workers"].items())[:n_workers])
        return info

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

    async def _plugin(self, op, plugin, name, idempotent):
        from distributed.protocol.core import loads

        reply = await self._peer.acall(op, {"name": name, "idempotent": idempotent}, [plugin])
        return loads([bytes(f) for f in reply.frames], deserialize=False)

    def get_worker_service_addr(self, worker, service_name, protocol=False):
        port = self.workers[worker].services.get(service_name)
        return None if port is None else (worker.rpartition(":")[0].rpartition("/")[2], port)


def attributes():
    return ", ".join(n for n in vars(Scheduler) if not n.startswith("_"))


class Part:
    """Part of a scheduler. The error for a missing attribute lists the existing ones."""

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        names = {n for c in type(self).__mro__ for n in (*vars(c), *getattr(c, "__slots__", ()))} | set(getattr(self, "__dict__", ()))
        kind = {"Worker": "worker", "Task": "task", "Client": "client", "Computation": "computation", "Named": "task prefix or group"}
        raise AttributeError(
            f"a {kind[type(self).__name__]} of dask_scheduler has no {name!r}: this scheduler is Millstream, written in Go; "
            f"it has {', '.join(sorted(n for n in names if not n.startswith('_')))}"
        )


class Worker(Part):
    """A worker, as described by its registration and heartbeats."""

    def __init__(self, address, info):
        self.__dict__.update(info)
        self.address = address

    def __repr__(self):
        return f"<WorkerState {self.address!r}, name: {self.name}, status: {self.status}, memory: {self.nbytes}, processing: {self.nprocessing}>"

    def __hash__(self):
        return hash(self.address)

    def __eq__(self, other):
        return isinstance(other, Worker) and other.address == self.address

    def identity(self):
        return dict(self.__dict__)


class Client(Part):
    def __init__(self, key):
        self.client_key = key

    def __repr__(self):
        return f"<Client {self.client_key!r}>"


class Computation(Part):
    """Graphs that were received while tasks were running: the time of the first, and the source code of the clients."""

    def __init__(self, row):
        self.id, self.start = uuid.UUID(row["id"]), row["start"]
        self.code = sorted(set(map(pickle.loads, row["code"])))

    def __repr__(self):
        return f"<Computation {self.id}>"


class Named(Part):
    def __init__(self, name):
        self.name = name
        self.states = {}


class Task(Part):
    """One task. Its neighbors are looked up on demand."""

    __slots__ = ("_all", "_row", "_deps", "key", "state", "nbytes", "run_id", "retries", "suspicious", "actor", "exception_text", "traceback_text")

    def __init__(self, all, row):
        self._all, self._row = all, row
        (self.key, self.state, self.nbytes, self.run_id, self.retries, self.suspicious, self.actor, self.exception_text, self.traceback_text) = row[:9]

    def __repr__(self):
        return f"<TaskState {self.key!r} {self.state}>"

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return isinstance(other, Task) and other.key == self.key

    prefix = property(lambda self: Named(self._row[9]))
    group = property(lambda self: Named(self._row[10]))
    group_key = property(lambda self: self._row[10])
    priority = property(lambda self: self._row[11])
    processing_on = property(lambda self: self._all.workers.get(self._row[12]))
    who_has = property(lambda self: {w for w in map(self._all.workers.get, self._row[13]) if w is not None})
    dependencies = property(lambda self: {self._all.at(i) for i in self._row[14]})
    dependents = property(lambda self: {self._all.at(i) for i in self._all.dependents().get(self.key, ())})
    who_wants = property(lambda self: {Client(c) for c in self._row[15]})
    exception = property(lambda self: self.exception_text or None)


class Tasks(collections.abc.Mapping):
    """The tasks by key."""

    def __init__(self, rows, workers):
        self.workers = workers
        self._rows = rows
        self._index = {row[0]: i for i, row in enumerate(rows)}
        self._made = {}
        self._dependents = None

    def __getitem__(self, key):
        return self.at(self._index[key])

    def __iter__(self):
        return iter(self._index)

    def __len__(self):
        return len(self._index)

    def at(self, i):
        if i not in self._made:
            self._made[i] = Task(self, self._rows[i])
        return self._made[i]

    def dependents(self):
        if self._dependents is None:
            self._dependents = {}
            for i, row in enumerate(self._rows):
                for d in row[14]:
                    self._dependents.setdefault(self._rows[d][0], []).append(i)
        return self._dependents
