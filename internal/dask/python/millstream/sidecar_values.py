"""Values of a sidecar: results of its tasks, and their arguments.

Go identifies each by a number, its handle, and releases it when it is no longer needed. A value that was received in
frames is deserialized by the first task that needs it.
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

# Exceptions that end a process, in a task as anywhere else.
FATAL = (SystemExit, KeyboardInterrupt)

# Held while tasks and values are unpickled: Dask workers do that in one thread, and classes rely on it.
# dask.utils.SerializableLock, for example, looks up its token and then adds it: two threads would create two locks.
unpickling = threading.RLock()


def exit_process(what, e):
    """End this process after one of FATAL, as Dask workers do; Go counts a crash of the worker.

    Such an exception is never sent: raised in the event loop of a client, it would end the client.
    """
    logger.error("%s raised %s: ending the Python process", what, type(e).__name__)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(1)


class Entry:
    """One value. It has a lock until it is deserialized, which is done with the lock held."""

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
    """All values. It is safe for concurrent use; changed guards both dictionaries."""

    def __init__(self):
        self.entries = {}
        self.keys = {}  # key of task -> handle
        self.changed = threading.Condition(threading.Lock())
        self.own = itertools.count(1, 2)  # handles of values that are created here; those of Go are even

    def put(self, handle, entry):
        with self.changed:
            self.entries[handle] = entry
            self.keys[entry.key] = handle
            self.changed.notify_all()

    def add(self, handle, entry):
        """Variant of put for a result, for which no thread can be waiting."""
        with self.changed:
            self.entries[handle] = entry
            self.keys[entry.key] = handle

    def get(self, handle):
        """Return the entry of a handle. It may still be in a message of another task."""
        entry = self.entries.get(handle)
        if entry is None:
            with self.changed:
                if not self.changed.wait_for(lambda: handle in self.entries, timeout=60):
                    raise KeyError(f"value {handle} has not arrived")
                entry = self.entries[handle]
        return entry

    def find(self, key):
        """Return the entry of a key, or None."""
        with self.changed:
            return self.entries.get(self.keys.get(key))

    def drop(self, handles):
        """Release values and return them."""
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
    """Return the value of a header (msgpack) and frames."""
    header = msgpack.loads(header, object_hook=msgpack_decode_default, use_list=False, **msgpack_opts)
    if "compression" in header:
        frames = decompress(header, frames)
    with unpickling:
        return merge_and_deserialize(header, frames)


def serialize(value):
    """Return a value as header (msgpack) and frames, as Dask workers send results."""
    header, frames = serialize_and_split(to_serialize(value), on_error="raise")
    header["compression"] = tuple(header.get("compression", (None,) * len(frames)))
    header["num-sub-frames"] = len(frames)
    return msgpack.dumps(header, default=msgpack_encode_default, use_bin_type=True), frames


def size_of(value):
    """Return the size of a value as Dask workers compute it, at least 0."""
    try:
        return max(0, int(sizeof(value)))
    except Exception:
        return 0


def serialize_marked(marked):
    """Variant of serialize for values that to_serialize has wrapped."""
    return serialize(marked.data)
