"""Converts the graphs of Python clients to tasks, as the Dask scheduler does in its own process.

A graph is a pickle, and unpickling runs arbitrary code, so this is done in an isolated process. One process serves one
client at a time. The reply to

    materialize {"graph": n, "header": {..}, "frames": k, "keys": [..], "internal_priority": {..} or nil,
                 "annotations": pickle, map or nil}, frames: k of the expression, the rest those of the annotations

follows any number of calls

    tasks {"graph": n, "notes": [map as msgpack, ..],
           "tasks": [[key, [dependency, ..], spec, [buffer, ..], order, notes or nil, flags], ..]}, frames

and is {"tasks": number} or {"error": {..}}. "spec" is the pickle of the task, or the number of its frame; buffers are
numbers of frames. The notes of a task are its annotations: an index into those that were sent so far, in all calls of
the graph. Flags: 1 the task adds data to the cluster, 2 it calls a Go function.
"""

import pickle as std_pickle
import traceback

import msgpack

CHUNK_TASKS = 2048
CHUNK_BYTES = 4 << 20
FRAME = 32 << 10  # larger pickles have their own frames

FLAG_PRODUCER, FLAG_GO = 1, 2


def setup(peer):
    # Slow imports are done before the first request.
    import dask._expr
    import dask.order
    import distributed.protocol
    import distributed.scheduler

    from millstream import _upload

    _upload.setup(peer)
    assert dask._expr and dask.order and distributed.protocol and distributed.scheduler
    peer.default = number
    peer.handle("materialize", lambda body, frames: materialize(peer, body, frames))
    peer.handle("shuffle-create", plan_shuffle)


def plan_shuffle(body, frames):
    """Plan a shuffle here: the process that opened its graph has imported what the spec needs."""
    from millstream import shuffle  # not before: most clients have no shuffles

    return shuffle.create(body, frames)


def number(value):
    """Convert a number in a key: keys may contain numpy integers."""
    import numbers

    if isinstance(value, numbers.Integral):
        return int(value)
    raise TypeError(f"{value!r} cannot be part of a key")


def materialize(peer, body, frames):
    try:
        n = Graph(peer, body, frames).run()
    except BaseException as e:
        return {"error": error(e)}
    return {"tasks": n}


def error(e):
    """Return the error for the client, as the Dask scheduler does."""
    from distributed.core import error_message

    m = error_message(e)
    tb = m["traceback"]
    return {
        "exception": bytes(m["exception"].data),
        "traceback": None if tb is None else bytes(tb.data),
        "exception_text": m["exception_text"],
        "traceback_text": "".join(traceback.format_exception(e)),
    }


def open_expression(header, frames):
    from distributed.protocol.compression import decompress
    from distributed.protocol.serialize import merge_and_deserialize

    try:
        if "compression" in header:
            frames = decompress(header, frames)
        return merge_and_deserialize(header, frames)
    except Exception as e:
        raise RuntimeError(
            "Error during deserialization of the task graph. This frequently\n"
            "occurs if the Scheduler and Client have different environments.\n"
            "For more information, see\n"
            "https://docs.dask.org/en/stable/deployment-considerations.html#consistent-software-environments\n"
        ) from e


class Graph:
    def __init__(self, peer, body, frames):
        self.peer = peer
        self.number = body["graph"]
        self.keys = set(body["keys"])
        self.priority = body["internal_priority"]
        k = body["frames"]
        self.header, self.frames = dict(body["header"]), frames[:k]
        self.everywhere = body["annotations"] or {}
        if isinstance(self.everywhere, bytes):
            self.everywhere = std_pickle.loads(self.everywhere, buffers=frames[k:]) or {}
        self.notes = {}  # annotations as msgpack -> index
        self.new_notes = []
        self.tasks, self.out, self.size = [], [], 0
        self.sent = None  # the call that has no reply yet

    def run(self):
        dsk, annotations = self.tasks_of_expression()
        order = self.priority
        if not order:
            import dask.order

            order = dask.order.order(dsk)
        from distributed.protocol import pickle

        from millstream.stubs import go_name

        for key, task in dsk.items():
            notes = self.annotations(key, annotations)
            flags = FLAG_PRODUCER if getattr(task, "data_producer", False) else 0
            if go_name(task, notes) is not None:
                flags |= FLAG_GO
            buffers = []
            spec = pickle.dumps(task, buffer_callback=buffers.append)
            self.add(key, task.dependencies, spec, buffers, order.get(key, 0), self.note(key, notes), flags)
        self.flush()
        if self.sent is not None:
            self.sent.result()
        return len(dsk)

    def tasks_of_expression(self):
        from dask._expr import LLGExpr
        from dask._task_spec import convert_legacy_graph

        expr = open_expression(self.header, self.frames)
        self.frames = None
        dsk = expr.__dask_graph__()
        annotations = {name: dict(values) for name, values in expr.__dask_annotations__().items()}
        dsk = convert_legacy_graph(dsk)
        if isinstance(expr, LLGExpr):  # other expressions cull themselves
            dsk = cull(dsk, self.keys)
        return dsk, annotations

    def annotations(self, key, by_name):
        """Return the annotations of a task: those of the message, overridden by those of its layer."""
        out = {}
        for name, value in self.everywhere.items():
            out[name] = value(key) if callable(value) else value
        for name, values in by_name.items():
            if (value := values.get(key)) is not None:
                out[name] = value
        return out

    def note(self, key, notes):
        if not notes:
            return None
        packed = pack_notes(key, notes)
        n = self.notes.get(packed)
        if n is None:
            n = self.notes[packed] = len(self.notes)
            self.new_notes.append(packed)
            self.size += len(packed)
        return n

    def add(self, key, deps, spec, buffers, order, notes, flags):
        self.size += len(spec) + 64
        if len(spec) >= FRAME:
            self.out.append(spec)
            spec = len(self.out) - 1
        numbers = []
        for b in buffers:
            raw = b.raw()
            numbers.append(len(self.out))
            self.out.append(raw)
            self.size += raw.nbytes
        self.tasks.append((key, list(deps), spec, numbers, order, notes, flags))
        if len(self.tasks) >= CHUNK_TASKS or self.size >= CHUNK_BYTES:
            self.flush()

    def flush(self):
        if self.sent is not None:
            self.sent.result()  # wait for Go if it is slower
            self.sent = None
        if not self.tasks:
            return
        self.sent = self.peer.call_soon("tasks", {"graph": self.number, "notes": self.new_notes, "tasks": self.tasks}, self.out)
        self.tasks, self.out, self.new_notes, self.size = [], [], [], 0


def cull(dsk, keys):
    """Return the part of a graph that keys need."""
    work, out = list(keys), {}
    while work:
        k = work.pop()
        if k in out or k not in dsk:
            continue
        out[k] = dsk[k]
        work.extend(dsk[k].dependencies)
    return out


def pack_notes(key, notes):
    """Return annotations in the form of the scheduler and the worker."""
    out = {}
    for name, value in notes.items():
        if name in ("workers", "restrictions"):
            value = [value] if not isinstance(value, (list, tuple, set, frozenset)) else list(value)
            out["workers"] = sorted(str(w) for w in value)
        elif name in ("allow_other_workers", "loose_restrictions"):
            out["allow_other_workers"] = bool(value)
        elif name == "resources":
            if not isinstance(value, dict):
                raise TypeError(f"annotation resources of {key!r} is {value!r}, want a dict of names and amounts")
            out[name] = {str(k): float(v) for k, v in value.items()}
        elif name == "retries":
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise TypeError(f"annotation retries of {key!r} is {value!r}, want a number")
            out[name] = value
        elif name == "priority":
            out[name] = value if isinstance(value, int) else float(value)
        else:
            try:
                if name == "timeout":  # Go reads a number of seconds
                    value = float(value)
                msgpack.packb(value, use_bin_type=True, default=plain)
            except Exception as e:
                print(f"annotation {name} of {key!r} cannot be sent to the worker: {e}")
                continue
            out[str(name)] = value
    return msgpack.packb(out, use_bin_type=True, default=plain)


def plain(value):
    from distributed.protocol.serialize import msgpack_encode_default

    out = msgpack_encode_default(value)
    if out is value:
        raise TypeError(f"{type(value).__name__} cannot be sent")
    return out
