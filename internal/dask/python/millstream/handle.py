"""The communicator of one rank: collectives on numpy and CuPy arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import byref, c_double, c_int, c_uint64, c_void_p
from typing import Any

from . import _library
from ._arrays import Arguments, address, stream_of
from ._library import CommsError
from ._messages import Messages
from .request import Request, waitall

__all__ = ["Handle", "Request", "waitall"]

_CALL = ctypes.sizeof(_library.Call)
_ENDING = 10.0  # seconds that destroy waits for operations of a communicator, which end with it


class Handle(Messages):
    """One rank of a communicator, in the process of a worker. :func:`millstream.local_handle` returns it.

    All ranks call the same collectives in the same order. Arrays are C-contiguous: numpy arrays, CuPy arrays, and objects
    that share their memory by `__array_interface__`, `__cuda_array_interface__` or DLPack. They are not copied. Operations
    on device memory run in the order of CuPy's current stream, or of that of :meth:`set_stream`. Invalid arguments of a
    collective raise TypeError or ValueError on their rank and :class:`MismatchError` on the others. Calls release the GIL.

    Every collective except the V forms has a form that starts it, such as `iallreduce`: it returns a :class:`Request` for
    `wait()` or `await`, whose result is that of the collective.
    """

    def __init__(self, lib: _library.Library, comm: int) -> None:
        self._lib, self._comm = lib, comm
        self._stream: int | None = None
        self._pending: set[Request] = set()
        self._grouped: list[Any] = []  # memory of the operations of a group
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

    @property
    def device_backend(self) -> str:
        """How device memory moves: "nccl", or "ucx" and "comm" for kernels and, where those cannot be used, host memory."""
        p = c_void_p()
        return self._lib.text(self._lib.device_backend(self._comm, byref(p)), p, self._comm)

    def name(self, rank: int) -> str:
        """Return the name of a rank: the address of its worker."""
        p = c_void_p()
        return self._lib.text(self._lib.name(self._comm, rank, byref(p)), p, self._comm)

    def set_timeout(self, seconds: float | None) -> None:
        """Bound later blocking calls. A collective that takes longer ends the communicator on all ranks."""
        self._check(self._lib.set_timeout(self._comm, float(seconds or 0)))

    def set_stream(self, stream: Any) -> None:
        """Set the CUDA stream of later operations: its address, or an object with `ptr`; None is CuPy's current stream."""
        self._stream = getattr(stream, "ptr", stream)

    def sync_stream(self, stream: Any = None) -> None:
        """Wait for the work on a CUDA stream, or raise the error of the communicator if that fails first."""
        self._check(self._lib.sync_stream(self._comm, getattr(stream, "ptr", stream)))

    def nccl_comm(self) -> tuple[int, int]:
        """Return the addresses of the ncclComm_t and of its CUDA stream, for native code. A collective.

        They are valid until the communicator is destroyed.
        """
        comm, stream = c_void_p(), c_void_p()
        self._check(self._lib.nccl_comm(self._comm, byref(comm), byref(stream)))
        return comm.value or 0, stream.value or 0

    def abort(self, reason: str = "aborted") -> None:
        """End the communicator: operations of all ranks raise a :class:`RankError` that names this rank and the reason."""
        self._check(self._lib.abort(self._comm, reason.encode()))

    def destroy(self) -> None:
        """Leave the communicator. :meth:`Comms.destroy` does it on all workers; use this for the results of :meth:`split`."""
        with self._lock:
            comm, self._comm = self._comm, 0
        if comm:
            self._lib.check(self._lib.destroy(comm))
        for r in list(self._pending):
            r._end(_ENDING)

    def split(self, color: int, key: int = 0) -> Handle | None:
        """Form communicators of the ranks with the same color, ordered by key and then by rank. A collective.

        With a negative color the result is None.
        """
        sub = c_uint64()
        self._check(self._lib.split(self._comm, color, key, byref(sub)))
        return Handle(self._lib, sub.value) if sub.value else None

    def dup(self) -> Handle:
        """Form a communicator of the same ranks with an order of calls of its own. A collective."""
        sub = c_uint64()
        self._check(self._lib.dup(self._comm, byref(sub)))
        return Handle(self._lib, sub.value)

    def reform(self, timeout: float = 30) -> Handle:
        """Form a communicator of the ranks that are alive, which all call it, after a :class:`RankError`.

        Ranks keep their order; those that have not called it after half of `timeout` seconds are left out. The result and
        this communicator are destroyed separately.
        """
        sub = c_uint64()
        self._check(self._lib.reform(self._comm, c_double(timeout), byref(sub)))
        return Handle(self._lib, sub.value)

    # Collectives.

    def barrier(self) -> None:
        """Wait until every rank has called it."""
        self._check(self._lib.barrier(self._comm))

    def ibarrier(self) -> Request:
        """Start a barrier."""
        return self._start(_library.Call(_CALL, _library.BARRIER), None, None)

    def allreduce(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks and return the result, in `out` (default: a new array; may be `array` itself).

        `op` is "sum", "prod", "min", "max" or "avg".
        """
        return self._run(*self._allreduce(array, op, out))

    def iallreduce(self, array: Any, op: str = "sum", out: Any = None) -> Request:
        """Start :meth:`allreduce`."""
        return self._start(*self._allreduce(array, op, out))

    def _allreduce(self, array: Any, op: str, out: Any) -> _Prepared:
        with Arguments(self, _library.ALLREDUCE, "allreduce") as a:
            send, code = a.array("array", array), a.op(op)
            recv, result = a.out(out, send, send.shape)
            return self._call(a, send, recv, send.size, op=code), (send, recv), result

    def reduce(self, array: Any, root: int = 0, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks on root, which returns the result; the others return None."""
        return self._run(*self._reduce(array, root, op, out))

    def ireduce(self, array: Any, root: int = 0, op: str = "sum", out: Any = None) -> Request:
        """Start :meth:`reduce`."""
        return self._start(*self._reduce(array, root, op, out))

    def _reduce(self, array: Any, root: int, op: str, out: Any) -> _Prepared:
        with Arguments(self, _library.REDUCE, "reduce") as a:
            send, code = a.array("array", array), a.op(op)
            recv, result = a.out(out, send, send.shape) if root == self.rank else (None, None)
            return self._call(a, send, recv, send.size, op=code, peer=root), (send, recv), result

    def bcast(self, array: Any, root: int = 0) -> Any:
        """Copy the array of root into that of every other rank, and return it."""
        return self._run(*self._bcast(array, root))

    def ibcast(self, array: Any, root: int = 0) -> Request:
        """Start :meth:`bcast`."""
        return self._start(*self._bcast(array, root))

    def _bcast(self, array: Any, root: int) -> _Prepared:
        with Arguments(self, _library.BROADCAST, "bcast") as a:
            buf = a.array("array", array, writable=root != self.rank)
            return self._call(a, None, buf, buf.size, peer=root), buf, array

    def allgather(self, array: Any, out: Any = None) -> Any:
        """Concatenate the arrays of all ranks: the result has a first dimension of `size`."""
        return self._run(*self._allgather(array, out))

    def iallgather(self, array: Any, out: Any = None) -> Request:
        """Start :meth:`allgather`."""
        return self._start(*self._allgather(array, out))

    def _allgather(self, array: Any, out: Any) -> _Prepared:
        with Arguments(self, _library.ALLGATHER, "allgather") as a:
            send = a.array("array", array)
            recv, result = a.out(out, send, (self.size, *send.shape))
            return self._call(a, send, recv, send.size), (send, recv), result

    def gather(self, array: Any, root: int = 0, out: Any = None) -> Any:
        """Concatenate the arrays of all ranks on root, which returns the result; the others return None."""
        return self._run(*self._gather(array, root, out))

    def igather(self, array: Any, root: int = 0, out: Any = None) -> Request:
        """Start :meth:`gather`."""
        return self._start(*self._gather(array, root, out))

    def _gather(self, array: Any, root: int, out: Any) -> _Prepared:
        with Arguments(self, _library.GATHER, "gather") as a:
            send = a.array("array", array)
            recv, result = a.out(out, send, (self.size, *send.shape)) if root == self.rank else (None, None)
            return self._call(a, send, recv, send.size, peer=root), (send, recv), result

    def scatter(self, array: Any, out: Any, root: int = 0) -> Any:
        """Copy the parts of `array` on root to `out` of the ranks, which all have the same size. The others pass None."""
        return self._run(*self._scatter(array, out, root))

    def iscatter(self, array: Any, out: Any, root: int = 0) -> Request:
        """Start :meth:`scatter`."""
        return self._start(*self._scatter(array, out, root))

    def _scatter(self, array: Any, out: Any, root: int) -> _Prepared:
        with Arguments(self, _library.SCATTER, "scatter") as a:
            recv = a.array("out", out, writable=True)
            send = a.array("array", array, size=recv.size * self.size) if root == self.rank else None
            return self._call(a, send, recv, recv.size, peer=root), (send, recv), out

    def reducescatter(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Combine the arrays of all ranks and return the part of this rank: `array` has equal parts along its first axis."""
        return self._run(*self._reducescatter(array, op, out))

    def ireducescatter(self, array: Any, op: str = "sum", out: Any = None) -> Request:
        """Start :meth:`reducescatter`."""
        return self._start(*self._reducescatter(array, op, out))

    def _reducescatter(self, array: Any, op: str, out: Any) -> _Prepared:
        with Arguments(self, _library.REDUCESCATTER, "reducescatter") as a:
            send, code = a.array("array", array), a.op(op)
            first = self._parts(send)
            recv, result = a.out(out, send, (first // self.size, *send.shape[1:]))
            return self._call(a, send, recv, recv.size, op=code), (send, recv), result

    def alltoall(self, array: Any, out: Any = None) -> Any:
        """Send equal parts along the first axis to the ranks, and return the parts that they have sent, in their order."""
        return self._run(*self._alltoall(array, out))

    def ialltoall(self, array: Any, out: Any = None) -> Request:
        """Start :meth:`alltoall`."""
        return self._start(*self._alltoall(array, out))

    def _alltoall(self, array: Any, out: Any) -> _Prepared:
        with Arguments(self, _library.ALLTOALL, "alltoall") as a:
            send = a.array("array", array)
            self._parts(send)
            recv, result = a.out(out, send, send.shape)
            return self._call(a, send, recv, send.size // self.size), (send, recv), result

    def _parts(self, array: Any) -> int:
        first = array.shape[0] if array.ndim else 1
        if first % self.size:
            raise ValueError(f"the first dimension of shape {array.shape} is not a multiple of {self.size} ranks")
        return first

    # V forms: parts of different lengths.

    def allgatherv(self, array: Any, counts: Sequence[int], out: Any = None) -> Any:
        """Concatenate arrays of different lengths into one of one dimension. `counts` has the sizes of all ranks."""
        with Arguments(self, _library.ALLGATHERV, "allgatherv") as a:
            numbers = a.counts("counts", counts)
            send = a.array("array", array, size=numbers[self.rank])
            recv, result = a.out(out, send, (sum(numbers),))
            call = self._call(a, send, recv, send.size, counts=numbers)
        return self._run(call, (send, recv, numbers), result)

    def gatherv(self, array: Any, counts: Sequence[int] | None, root: int = 0, out: Any = None) -> Any:
        """Concatenate arrays of different lengths on root, which passes their sizes and returns the result."""
        with Arguments(self, _library.GATHERV, "gatherv") as a:
            send, numbers, recv, result = a.array("array", array), None, None, None
            if root == self.rank:
                numbers = a.counts("counts", counts if counts is not None else ())
                recv, result = a.out(out, send, (sum(numbers),))
            call = self._call(a, send, recv, send.size, peer=root, counts=numbers)
        return self._run(call, (send, recv, numbers), result)

    def scatterv(self, array: Any, counts: Sequence[int] | None, out: Any, root: int = 0) -> Any:
        """Copy parts of different lengths of `array` on root to `out` of the ranks. The others pass None twice."""
        with Arguments(self, _library.SCATTERV, "scatterv") as a:
            recv, numbers, send = a.array("out", out, writable=True), None, None
            if root == self.rank:
                numbers = a.counts("counts", counts if counts is not None else ())
                send = a.array("array", array, size=sum(numbers))
            call = self._call(a, send, recv, recv.size, peer=root, counts=numbers)
        return self._run(call, (send, recv, numbers), out)

    def alltoallv(self, array: Any, counts: Sequence[int], recvcounts: Sequence[int], out: Any = None) -> Any:
        """Send parts of `counts` elements to the ranks, and return those of `recvcounts` elements that they have sent."""
        with Arguments(self, _library.ALLTOALLV, "alltoallv") as a:
            sends, receives = a.counts("counts", counts), a.counts("recvcounts", recvcounts)
            send = a.array("array", array, size=sum(sends))
            recv, result = a.out(out, send, (sum(receives),))
            call = self._call(a, send, recv, 0, counts=sends, recvcounts=receives)
        return self._run(call, (send, recv, sends, receives), result)

    # Calls of the library.

    def _call(self, a: Arguments, send: Any, recv: Any, count: int, op: int = 0, peer: int = 0, source: int = 0, recvcount: int = 0,
              tag: int = 0, recvtag: int = 0, counts: Any = None, recvcounts: Any = None) -> _library.Call:
        memory, stream = _library.HOST, None
        if a.device is not None:
            memory, stream = _library.DEVICE, self._stream if self._stream is not None else stream_of(a.device)
        return _library.Call(
            _CALL, a.operation, a.dtype, op, peer, source, count, recvcount, tag, recvtag, address(send), address(recv), memory, 0,
            stream, counts and ctypes.addressof(counts), recvcounts and ctypes.addressof(recvcounts),
        )

    def _run(self, call: _library.Call, keep: Any, result: Any) -> Any:
        code = self._lib.run(self._comm, byref(call), None)
        if code:
            self._check(code)
        if self._grouped:
            self._grouped.append(keep)
        return result

    def _start(self, call: _library.Call, keep: Any, result: Any) -> Request:
        number = c_uint64()
        self._check(self._lib.start(self._comm, byref(call), byref(number)))
        return Request(self, number.value, keep, result)

    def _check(self, code: int) -> None:
        if code:
            if not self._comm:
                raise CommsError("the communicator was destroyed")
            raise self._lib.error(code, self._comm)


_Prepared = tuple[_library.Call, Any, Any]  # the call, the memory that it uses, and its result
