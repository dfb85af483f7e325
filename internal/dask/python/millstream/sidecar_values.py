"""The values that live in a sidecar: results of its tasks, and what they were given.

Go names each by a number, its handle, and says when nobody needs it any more. A value that came in frames is
opened by the first task that needs it.
"""

import contextlib
import itertools
import logging
import os
import sys
import threading

import msgpack
from dask.sizeof import sizeof
from distributed.protocol.compression import decompress
from distributed.protocol.core import msgpack_opts
from distributed.protocol.serialize import (
    merge_and_deserialize,
    msgpack_decode_default,
    msgpack_encode_default,
    serialize_and_split,
    to_serialize,
)


logger = logging.getLogger("distributed.worker")

# What ends a process, in a task as anywhere else.
FATAL = (SystemExit, KeyboardInterrupt)

# Held while tasks and values are unpickled: Dask's workers do that in one thread, and classes rely on it.
# dask.utils.SerializableLock, for one, looks its token up and then adds it: in two threads one token would have two locks.
unpickling = threading.RLock()


def die(what, e):
    """End this process, because what has raised one of FATAL: Dask's worker ends then, and Go counts a death of the
    worker. Such an exception never travels: raised in the event loop of a client it would end that client."""
    logger.error("%s raised %s: the worker's Python process ends", what, type(e).__name__)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(1)


class Entry:
    """One value. lock is there as long as it is closed: whoever opens it holds it."""

    __slots__ = ("key", "value", "header", "frames", "lock", "actor")

    def __init__(self, key, value=None, header=None, frames=None, actor=False):
        self.key, self.value, self.header, self.frames, self.actor = key, value, header, frames, actor
        self.lock = None if header is None else threading.Lock()

    def open(self):
        lock = self.lock
        if lock is not None:
            with lock:
                if self.lock is not None:
                    self.value = deserialize(self.header, self.frames)
                    self.header = self.frames = self.lock = None
        return self.value


class Values:
    """All of them. Any thread may use it; changed owns both dictionaries."""

    def __init__(self):
        self.entries = {}
        self.keys = {}  # of task -> handle
        self.changed = threading.Condition(threading.Lock())
        self.own = itertools.count(1, 2)  # handles of values that are made here; Go's are even

    def put(self, handle, entry):
        with self.changed:
            self.entries[handle] = entry
            self.keys[entry.key] = handle
            self.changed.notify_all()

    def add(self, handle, entry):
        """put for a result: nobody can wait for it yet."""
        with self.changed:
            self.entries[handle] = entry
            self.keys[entry.key] = handle

    def get(self, handle):
        """The entry of a handle. It may be on its way still, in the message of another task."""
        entry = self.entries.get(handle)
        if entry is None:
            with self.changed:
                if not self.changed.wait_for(lambda: handle in self.entries, timeout=60):
                    raise KeyError(f"value {handle} has not arrived")
                entry = self.entries[handle]
        return entry

    def find(self, key):
        """The entry of a key, or None."""
        with self.changed:
            return self.entries.get(self.keys.get(key))

    def drop(self, handles):
        """Forget values; returns what was forgotten."""
        gone = []
        with self.changed:
            for handle in handles:
                entry = self.entries.pop(handle, None)
                if entry is None:
                    continue
                if self.keys.get(entry.key) == handle:
                    del self.keys[entry.key]
                gone.append(entry)
        return gone


def deserialize(header, frames):
    """A value of its header (msgpack) and frames."""
    header = msgpack.loads(header, object_hook=msgpack_decode_default, use_list=False, **msgpack_opts)
    if "compression" in header:
        frames = decompress(header, frames)
    with unpickling:
        return merge_and_deserialize(header, frames)


def serialize(value):
    """A value as header (msgpack) and frames, the way that Dask's workers send results."""
    header, frames = serialize_and_split(to_serialize(value), on_error="raise")
    header["compression"] = tuple(header.get("compression", (None,) * len(frames)))
    header["num-sub-frames"] = len(frames)
    return msgpack.dumps(header, default=msgpack_encode_default, use_bin_type=True), frames


def size_of(value):
    """What Dask's workers count for a value, never less than nothing."""
    try:
        return max(0, int(sizeof(value)))
    except Exception:
        return 0


def serialize_marked(marked):
    """serialize for what to_serialize has marked already."""
    return serialize(marked.data)
