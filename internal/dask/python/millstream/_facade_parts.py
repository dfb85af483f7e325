"""Workers, tasks, groups and clients of the dask_scheduler argument of functions, see _facade."""

import collections
import collections.abc
import pickle
import uuid


class Part:
    """Part of a scheduler. The error for a missing attribute lists the existing ones."""

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        names = {n for c in type(self).__mro__ for n in (*vars(c), *getattr(c, "__slots__", ()))} | set(getattr(self, "__dict__", ()))
        kind = {"Worker": "worker", "Task": "task", "Client": "client", "Computation": "computation", "Group": "task group", "Prefix": "task prefix"}
        raise AttributeError(
            f"a {kind[type(self).__name__]} of dask_scheduler has no {name!r}: this scheduler is Millstream, written in Go; "
            f"it has {', '.join(sorted(n for n in names if not n.startswith('_')))}"
        )


class Status(str):
    """Status of a worker, which equals a text and a distributed.core.Status."""

    name = value = property(str)

    def __eq__(self, other):
        return str.__eq__(self, other if isinstance(other, str) else getattr(other, "name", None))

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__  # that of distributed.core.Status too

    def __repr__(self):
        return f"<Status.{self}: '{self}'>"

    def __reduce__(self):
        return str, (str(self),)  # clients may not have this package


class Memory(collections.namedtuple("Memory", "process managed spilled unmanaged_old")):
    """Memory of a worker or of the cluster in bytes: distributed.scheduler.MemoryState."""

    __slots__ = ()
    managed_total = property(lambda self: self.managed + self.spilled)
    unmanaged = property(lambda self: self.process - self.managed)
    unmanaged_recent = property(lambda self: self.unmanaged - self.unmanaged_old)
    optimistic = property(lambda self: self.managed + self.unmanaged_old)

    @classmethod
    def sum(cls, parts):
        return cls(*map(sum, zip(*parts, (0, 0, 0, 0))))


class Worker(Part):
    """A worker, as described by its registration and heartbeats. Its tasks are looked up on demand."""

    def __init__(self, scheduler, address, info):
        hidden = ("idle", "saturated", "usage", "status")
        self.__dict__.update((name, value) for name, value in info.items() if name not in hidden)
        self._scheduler, self._info = scheduler, info
        self.address = address
        self.status = Status(info["status"])
        self.memory = Memory(**info["usage"])

    def __repr__(self):
        return f"<WorkerState {self.address!r}, name: {self.name}, status: {self.status}, memory: {len(self.has_what)}, processing: {self.nprocessing}>"

    def __hash__(self):
        return hash(self.address)

    def __eq__(self, other):
        return isinstance(other, Worker) and other.address == self.address

    @property
    def _tasks(self):
        return self._scheduler.tasks

    processing = property(lambda self: set(self._tasks.processing_on(self.address)))
    long_running = property(lambda self: {t for t in self.processing if t._row[19]})
    has_what = property(lambda self: dict.fromkeys(self._tasks.held_by(self.address)).keys())
    actors = property(lambda self: {t for t in self.has_what if t.actor})
    needs_what = property(lambda self: dict(collections.Counter(d for t in self.processing for d in t.dependencies if self not in d.who_has)))
    task_prefix_count = property(lambda self: dict(collections.Counter(t.prefix.name for t in self.processing)))
    bandwidth = property(lambda self: self.metrics.get("bandwidth", {}).get("total") or self._scheduler.bandwidth)
    ip = property(lambda self: self.host)

    @property
    def executing(self):
        """The tasks that the last heartbeat reported as running, with the seconds that they had run."""
        found = ((self._tasks.get(k), seconds) for k, seconds in self.metrics.get("executing", {}).items())
        return {t: seconds for t, seconds in found if t is not None}

    def identity(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_") and name != "memory"}


class Computation(Part):
    """Graphs that were received while tasks were running: the time of the first, and the source code of the clients."""

    def __init__(self, row):
        self.id, self.start = uuid.UUID(row["id"]), row["start"]
        self.code = sorted(set(map(pickle.loads, row["code"])))

    def __repr__(self):
        return f"<Computation {self.id}>"


class Group(Part):
    """Tasks of one name. Their number is by state."""

    def __init__(self, name, prefix, tasks):
        self.name, self.prefix, self._tasks = name, prefix, tasks
        self.states = count_states(tasks)

    def __repr__(self):
        return f"<{self.name or 'no-group'}: {' '.join(f'{k}: {v}' for k, v in self.states.items() if v)}>"

    def __len__(self):
        return len(self._tasks)

    nbytes_total = property(lambda self: sum(t.get_nbytes() for t in self._tasks if t.state == "memory"))
    types = property(lambda self: set(t.type for t in self._tasks if t.type))
    done = property(lambda self: all(t.state in ("memory", "erred", "released") for t in self._tasks))

    @property
    def dependencies(self):
        return {d.group for t in self._tasks for d in t.dependencies} - {self}

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return type(other) is type(self) and other.name == self.name


class Prefix(Group):
    """Groups whose names have the same beginning."""

    def __init__(self, name, groups):
        super().__init__(name, self, [t for g in groups for t in g._tasks])
        self.groups = groups

    active = property(lambda self: [g for g in self.groups if not g.done])
    active_states = property(lambda self: count_states([t for g in self.active for t in g._tasks]))


STATES = ("released", "waiting", "no-worker", "queued", "processing", "memory", "erred", "forgotten")


def count_states(tasks):
    return {**dict.fromkeys(STATES, 0), **collections.Counter(t.state for t in tasks)}


class Client(Part):
    """A client and the tasks that it holds."""

    def __init__(self, scheduler, key):
        self.client_key, self._scheduler = key, scheduler

    def __repr__(self):
        return f"<Client {self.client_key!r}>"

    def __hash__(self):
        return hash(self.client_key)

    def __eq__(self, other):
        return isinstance(other, Client) and other.client_key == self.client_key

    wants_what = property(lambda self: {t for t in self._scheduler.tasks.values() if self.client_key in t._row[15]})


class Task(Part):
    """One task. Its neighbors are looked up on demand."""

    __slots__ = ("_all", "_row", "key", "state", "nbytes", "run_id", "retries", "suspicious", "actor", "exception_text", "traceback_text")

    def __init__(self, all, row):
        self._all, self._row = all, row
        (self.key, self.state, self.nbytes, self.run_id, self.retries, self.suspicious, self.actor, self.exception_text, self.traceback_text) = row[:9]

    def __repr__(self):
        return f"<TaskState {self.key!r} {self.state}>"

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return isinstance(other, Task) and other.key == self.key

    prefix = property(lambda self: self._all.prefixes()[self._row[9]])
    prefix_key = property(lambda self: self._row[9])
    group = property(lambda self: self._all.groups()[self._row[10]])
    group_key = property(lambda self: self._row[10])
    priority = property(lambda self: tuple(self._row[11]))
    processing_on = property(lambda self: self._all.workers.get(self._row[12]))
    who_has = property(lambda self: {w for w in map(self._all.workers.get, self._row[13]) if w is not None})
    dependencies = property(lambda self: {self._all.at(i) for i in self._row[14]})
    dependents = property(lambda self: {self._all.at(i) for i in self._all.dependents().get(self.key, ())})
    waiting_on = property(lambda self: {d for d in self.dependencies if d.state != "memory"} if self.state == "waiting" else set())
    waiters = property(lambda self: {d for d in self.dependents if d.state in ("waiting", "queued", "no-worker", "processing")})
    who_wants = property(lambda self: {Client(self._all.scheduler, c) for c in self._row[15]})
    exception = property(lambda self: self.exception_text or None)
    traceback = property(lambda self: self.traceback_text or None)
    exception_blame = property(lambda self: self if self.state == "erred" else None)
    type = property(lambda self: self._row[17])
    erred_on = property(lambda self: set(self._row[18]))
    metadata = property(lambda self: {})
    has_lost_dependencies = False

    @property
    def annotations(self):
        import msgpack

        raw = self._row[16] and self._row[16][0]
        return msgpack.loads(raw, use_list=False) if raw else {}

    worker_restrictions = property(lambda self: set(self._row[16][1] or ()) if self._row[16] else set())
    host_restrictions = property(lambda self: set())
    loose_restrictions = property(lambda self: bool(self._row[16] and self._row[16][2]))
    resource_restrictions = property(lambda self: dict(self._row[16][3]) if self._row[16] else {})

    def get_nbytes(self):
        return self.nbytes if self.nbytes >= 0 else 1024


class Tasks(collections.abc.Mapping):
    """The tasks by key."""

    def __init__(self, rows, scheduler):
        self.scheduler, self.workers = scheduler, scheduler.workers
        self._rows = rows
        self._index = {row[0]: i for i, row in enumerate(rows)}
        self._made = {}
        self._dependents = self._groups = self._prefixes = self._processing = self._held = None

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

    def groups(self):
        """The groups by name."""
        if self._groups is None:
            lists = {}
            for t in self.values():
                lists.setdefault((t._row[10], t._row[9]), []).append(t)
            prefixes = {}
            groups = {name: Group(name, None, tasks) for (name, _), tasks in lists.items()}
            for name, prefix in lists:
                prefixes.setdefault(prefix, []).append(groups[name])
            self._prefixes = {name: Prefix(name, members) for name, members in prefixes.items()}
            for name, prefix in lists:
                groups[name].prefix = self._prefixes[prefix]
            self._groups = groups
        return self._groups

    def prefixes(self):
        """The prefixes by name."""
        self.groups()
        return self._prefixes

    def processing_on(self, address):
        """The tasks that a worker processes."""
        if self._processing is None:
            self._processing = {}
            for i, row in enumerate(self._rows):
                if row[12] is not None:
                    self._processing.setdefault(row[12], []).append(i)
        return [self.at(i) for i in self._processing.get(address, ())]

    def held_by(self, address):
        """The tasks whose results a worker holds."""
        if self._held is None:
            self._held = {}
            for i, row in enumerate(self._rows):
                for holder in row[13]:
                    self._held.setdefault(holder, []).append(i)
        return [self.at(i) for i in self._held.get(address, ())]


class Neighborhood(Tasks):
    """A task and its neighbors. Groups and prefixes have all tasks."""

    def groups(self):
        return self.scheduler._fetch_tasks().groups()

    def prefixes(self):
        return self.scheduler._fetch_tasks().prefixes()


class LiveTasks(collections.abc.Mapping):
    """The tasks by key for hooks of plugins. A single task is fetched when it is looked up; others are up to a second old."""

    def __init__(self, scheduler):
        self._scheduler = scheduler

    def __getitem__(self, key):
        task = self._scheduler._fetch_task(key)
        if task is None:
            raise KeyError(key)
        return task

    def __contains__(self, key):
        return self._scheduler._fetch_task(key) is not None

    def __iter__(self):
        return iter(self._scheduler._fetch_tasks())

    def __len__(self):
        return len(self._scheduler._fetch_tasks())

    def values(self):
        return self._scheduler._fetch_tasks().values()

    def items(self):
        return self._scheduler._fetch_tasks().items()

    def __getattr__(self, name):  # groups, prefixes and others
        return getattr(self._scheduler._fetch_tasks(), name)


def forgotten(key):
    """Return the row of a task that the scheduler has forgotten, for hooks that look it up."""
    from dask.utils import key_split

    group = str(key[0] if isinstance(key, tuple) and key else key)
    return [key, "forgotten", -1, 0, 0, 0, False, "", "", key_split(key), group, (0, 0, 0), None, [], [], [], None, None, [], False]
