"""The communicator of one rank: collectives on numpy arrays."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any

from . import _library
from ._arrays import Arguments, address, at
from ._library import CommsError


class Request:
    """An operation in flight, returned by :meth:`Handle.isend` and :meth:`Handle.irecv`."""

    def __init__(self, handle: Handle, number: int, array: Any) -> None:
        self._handle, self._number, self._array = handle, number, array
        self._received: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the operation, and return the number of received elements. Raise TimeoutError after `timeout` seconds."""
        if self._received is None:
            n = c_uint64()
            lib = self._handle._lib
            code = lib.wait(self._number, -1.0 if timeout is None else float(timeout), byref(n))
            if code != _library.TIMEOUT:
                self._ended()
            lib.check(code, self._handle._comm)
            self._received = n.value
        return self._received

    def _ended(self) -> None:
        self._handle._pending.discard(self)
        _in_flight.discard(self)


def waitall(requests: Any, timeout: float | None = None) -> list[int]:
    """Wait for several requests."""
    return [r.wait(timeout) for r in requests]


_in_flight: set[Request] = set()  # the library uses their arrays by address until the operations have ended

_ENDING = 10.0  # seconds that destroy waits for operations of a communicator, which end with it


class Handle:
    """One rank of a communicator, in the process of a worker. :func:`millstream.local_handle` returns it.

    All ranks call the same collectives in the same order. Arrays are C-contiguous numpy arrays, or objects that share their
    memory with one (`__array_interface__`, `__array__`); they are not copied. Invalid arguments of a collective on one rank
    raise :class:`MismatchError` on all ranks. Calls release the GIL.
    """

    def __init__(self, lib: _library.Library, comm: int) -> None:
        self._lib, self._comm = lib, comm
        self._pending: set[Request] = set()
        self._lock = threading.Lock()
        rank, size = c_int(), c_int()
        lib.check(lib.rank(comm, byref(rank), byref(size)), comm)
        self.rank: int = rank.value  #: number of this rank
        self.size: int = size.value  #: number of ranks

    def __repr__(self) -> str:
        return f"<Handle: rank {self.rank} of {self.size}>"

    @property
    def backend(self) -> str:
        """How data moves: "tcp", "tls" or "ucx", with "shm+" in front if all ranks share a machine."""
        p = c_void_p()
        return self._lib.text(self._lib.backend(self._comm, byref(p)), p, self._comm)

    def name(self, rank: int) -> str:
        """Return the name of a rank: the address of its worker."""
        p = c_void_p()
        return self._lib.text(self._lib.name(self._comm, rank, byref(p)), p, self._comm)

    def set_timeout(self, seconds: float | None) -> None:
        """Bound later blocking calls. A collective that takes longer ends the communicator on all ranks."""
        self._lib.check(self._lib.set_timeout(self._comm, float(seconds or 0)), self._comm)

    def abort(self, reason: str = "aborted") -> None:
        """End the communicator: operations of all ranks raise a :class:`RankError` that names this rank and the reason."""
        self._lib.check(self._lib.abort(self._comm, reason.encode()), self._comm)

    def destroy(self) -> None:
        """Leave the communicator. :meth:`Comms.destroy` does it on all workers; use this for the results of :meth:`split`."""
        with self._lock:
            comm, self._comm = self._comm, 0
        if comm:
            self._lib.check(self._lib.destroy(comm))
        for r in list(self._pending):
            if self._lib.wait(r._number, _ENDING, None) != _library.TIMEOUT:
                r._ended()

    def split(self, color: int, key: int = 0) -> Handle | None:
        """Form communicators of the ranks with the same color, ordered by key and then by rank. A collective.

        With a negative color the result is None.
        """
        sub = c_uint64()
        self._check(self._lib.split(self._comm, color, key, byref(sub)))
        return Handle(self._lib, sub.value) if sub.value else None

    # Collectives.

    def barrier(self) -> None:
        """Wait until every rank has called it."""
        self._check(self._lib.barrier(self._comm))

    def allreduce(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks and return the result, in `out` (default: a new array; may be `array` itself).

        `op` is "sum", "prod", "min", "max" or "avg".
        """
        with Arguments(self, _library.ALLREDUCE, "allreduce") as a:
            send, code = a.array("array", array), a.op(op)
            recv = a.out(out, send, send.shape)
        self._check(self._lib.allreduce(self._comm, at(send), at(recv), send.size, a.dtype, code))
        return recv if out is None else out

    def reduce(self, array: Any, root: int = 0, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks on root, which returns the result; the others return None."""
        with Arguments(self, _library.REDUCE, "reduce") as a:
            send, code = a.array("array", array), a.op(op)
            recv = a.out(out, send, send.shape) if root == self.rank else None
        self._check(self._lib.reduce(self._comm, at(send), at(recv), send.size, a.dtype, code, root))
        return recv if out is None or recv is None else out

    def bcast(self, array: Any, root: int = 0) -> Any:
        """Copy the array of root into that of every other rank, and return it."""
        with Arguments(self, _library.BROADCAST, "bcast") as a:
            buf = a.array("array", array, writable=root != self.rank)
        self._check(self._lib.broadcast(self._comm, at(buf), buf.size, a.dtype, root))
        return array

    def allgather(self, array: Any, out: Any = None) -> Any:
        """Concatenate the arrays of all ranks: the result has a first dimension of `size`."""
        with Arguments(self, _library.ALLGATHER, "allgather") as a:
            send = a.array("array", array)
            recv = a.out(out, send, (self.size, *send.shape))
        self._check(self._lib.allgather(self._comm, at(send), at(recv), send.size, a.dtype))
        return recv if out is None else out

    def gather(self, array: Any, root: int = 0, out: Any = None) -> Any:
        """Concatenate the arrays of all ranks on root, which returns the result; the others return None."""
        with Arguments(self, _library.GATHER, "gather") as a:
            send = a.array("array", array)
            recv = a.out(out, send, (self.size, *send.shape)) if root == self.rank else None
        self._check(self._lib.gather(self._comm, at(send), at(recv), send.size, a.dtype, root))
        return recv if out is None or recv is None else out

    def scatter(self, array: Any, out: Any, root: int = 0) -> Any:
        """Copy the parts of `array` on root to `out` of the ranks, which all have the same size. The others pass None."""
        with Arguments(self, _library.SCATTER, "scatter") as a:
            recv = a.array("out", out, writable=True)
            send = a.array("array", array, size=recv.size * self.size) if root == self.rank else None
        self._check(self._lib.scatter(self._comm, at(send), at(recv), recv.size, a.dtype, root))
        return out

    def reducescatter(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks and return the part of this rank: `array` has equal parts along its first axis."""
        with Arguments(self, _library.REDUCESCATTER, "reducescatter") as a:
            send, code = a.array("array", array), a.op(op)
            first = send.shape[0] if send.ndim else 1
            if first % self.size:
                raise ValueError(f"the first dimension of shape {send.shape} is not a multiple of {self.size} ranks")
            recv = a.out(out, send, (first // self.size, *send.shape[1:]))
        self._check(self._lib.reducescatter(self._comm, at(send), at(recv), recv.size, a.dtype, code))
        return recv if out is None else out

    def alltoall(self, array: Any, out: Any = None) -> Any:
        """Send equal parts along the first axis to the ranks, and return the parts that they have sent, in their order."""
        with Arguments(self, _library.ALLTOALL, "alltoall") as a:
            send = a.array("array", array)
            first = send.shape[0] if send.ndim else 1
            if first % self.size:
                raise ValueError(f"the first dimension of shape {send.shape} is not a multiple of {self.size} ranks")
            recv = a.out(out, send, send.shape)
        self._check(self._lib.alltoall(self._comm, at(send), at(recv), send.size // self.size, a.dtype))
        return recv if out is None else out

    # Messages.

    def send(self, array: Any, dest: int, tag: int = 0) -> None:
        """Send an array to a rank, which receives it with the same tag of 64 bits."""
        a = Arguments(self, 0, "send")
        buf = a.array("array", array)
        self._check(self._lib.send(self._comm, at(buf), buf.size, a.dtype, dest, _tag(tag)))

    def recv(self, array: Any, source: int, tag: int = 0) -> int:
        """Receive into an array, and return the number of received elements, which may be smaller than its size."""
        a = Arguments(self, 0, "recv")
        buf, n = a.array("array", array, writable=True), c_uint64()
        self._check(self._lib.recv(self._comm, at(buf), buf.size, a.dtype, source, _tag(tag), byref(n)))
        return n.value

    def sendrecv(self, array: Any, dest: int, out: Any, source: int, tag: int = 0, recvtag: int | None = None) -> int:
        """Send one array and receive another concurrently, and return the number of received elements."""
        a = Arguments(self, 0, "sendrecv")
        send, recv, n = a.array("array", array), a.array("out", out, writable=True), c_uint64()
        tags = _tag(tag), _tag(tag if recvtag is None else recvtag)
        self._check(self._lib.sendrecv(self._comm, at(send), send.size, dest, tags[0], at(recv), recv.size, source, tags[1],
                                       a.dtype, byref(n)))
        return n.value

    def isend(self, array: Any, dest: int, tag: int = 0) -> Request:
        """Start a send. The array must not change until the request is done."""
        a = Arguments(self, 0, "isend")
        buf = a.array("array", array)
        return self._start(buf, operation=_library.SEND, dtype=a.dtype, peer=dest, count=buf.size, tag=_tag(tag), send=address(buf))

    def irecv(self, array: Any, source: int, tag: int = 0) -> Request:
        """Start a receive."""
        a = Arguments(self, 0, "irecv")
        buf = a.array("array", array, writable=True)
        return self._start(buf, operation=_library.RECV, dtype=a.dtype, peer=source, count=buf.size, tag=_tag(tag), recv=address(buf))

    def _start(self, array: Any, **fields: Any) -> Request:
        number, call = c_uint64(), _library.Call(size=ctypes.sizeof(_library.Call), **fields)
        self._check(self._lib.start(self._comm, byref(call), byref(number)))
        r = Request(self, number.value, array)
        self._pending.add(r)
        _in_flight.add(r)
        return r

    def _check(self, code: int) -> None:
        if code:
            if not self._comm:
                raise CommsError("the communicator was destroyed")
            raise self._lib.error(code, self._comm)


def _tag(tag: int) -> int:
    if not 0 <= tag < 1 << 64:
        raise ValueError(f"tag {tag}: want 0 to 2**64-1")
    return tag
