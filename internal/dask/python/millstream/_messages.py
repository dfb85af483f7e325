"""Messages between the ranks of a communicator."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING, Any

from . import _library
from ._arrays import Arguments, address
from .request import Request

if TYPE_CHECKING:
    from .handle import Handle


class Messages:
    """The methods of :class:`millstream.Handle` for messages with tags of 64 bits."""

    def send(self: Handle, array: Any, dest: int, tag: int = 0) -> None:
        """Send an array to a rank, which receives it with the same tag."""
        self._run(*self._message(_library.SEND, "send", array, dest, tag))

    def recv(self: Handle, array: Any, source: int, tag: int = 0) -> int:
        """Receive into an array, and return the number of received elements, which may be smaller than its size."""
        call, keep, _ = self._message(_library.RECV, "recv", array, source, tag)
        n = c_uint64()
        self._check(self._lib.run(self._comm, byref(call), byref(n)))
        if self._grouped:
            self._grouped.append(keep)
        return n.value

    def sendrecv(self: Handle, array: Any, dest: int, out: Any, source: int, tag: int = 0, recvtag: int | None = None) -> int:
        """Send one array and receive another concurrently, and return the number of received elements."""
        a = Arguments(self, _library.SENDRECV, "sendrecv")
        send, recv, n = a.array("array", array), a.array("out", out, writable=True), c_uint64()
        call = self._call(a, send, recv, send.size, peer=dest, source=source, recvcount=recv.size, tag=_tag(tag),
                          recvtag=_tag(tag if recvtag is None else recvtag))
        self._check(self._lib.run(self._comm, byref(call), byref(n)))
        if self._grouped:
            self._grouped.append((send, recv))
        return n.value

    def isend(self: Handle, array: Any, dest: int, tag: int = 0) -> Request:
        """Start a send. The array must not change until the request is done."""
        return self._start(*self._message(_library.SEND, "isend", array, dest, tag))

    def irecv(self: Handle, array: Any, source: int, tag: int = 0) -> Request:
        """Start a receive, whose result is the number of received elements."""
        return self._start(*self._message(_library.RECV, "irecv", array, source, tag))

    def _message(self: Handle, operation: int, what: str, array: Any, peer: int, tag: int) -> tuple[_library.Call, Any, Any]:
        a = Arguments(self, operation, what)
        sends = operation == _library.SEND
        buf = a.array("array", array, writable=not sends)
        send, recv = (buf, None) if sends else (None, buf)
        return self._call(a, send, recv, buf.size, peer=peer, tag=_tag(tag)), buf, None

    def multicast_sendrecv(self: Handle, array: Any, sends: Sequence[tuple[int, int, int]], out: Any,
                           receives: Sequence[tuple[int, int, int]], tag: int = 0) -> None:
        """Send parts of `array` to several ranks and receive parts of `out` from several, all at once.

        `sends` and `receives` are (rank, offset, count) in elements. Every message has the length that its receiver expects.
        """
        a = Arguments(self, 0, "multicast_sendrecv")
        send, recv = a.array("array", array), a.array("out", out, writable=True)
        to, of = _parts("sends", sends, send.size), _parts("receives", receives, recv.size)
        if a.device is not None:
            from ._arrays import stream_of

            stream = self._stream if self._stream is not None else stream_of(a.device)
            self._check(self._lib.set_stream(self._comm, stream))
        self._check(self._lib.multicast_sendrecv(self._comm, address(send), to[1], to[2], to[0], len(sends), address(recv), of[1],
                                                 of[2], of[0], len(receives), a.dtype, _tag(tag)))

    @contextmanager
    def group(self: Handle) -> Iterator[None]:
        """Start the operations of a block at once and wait for them at its end, as ncclGroupStart and ncclGroupEnd do.

        Their arrays must not be used before the end of the block. Groups may be nested.
        """
        self._check(self._lib.group_start(self._comm))
        outermost = not self._grouped
        self._grouped.append(None)
        try:
            yield
        finally:
            try:
                self._check(self._lib.group_end(self._comm))
            finally:
                if outermost:
                    self._grouped.clear()


def _tag(tag: int) -> int:
    if not 0 <= tag < 1 << 64:
        raise ValueError(f"tag {tag}: want 0 to 2**64-1")
    return tag


def _parts(name: str, parts: Sequence[tuple[int, int, int]], size: int) -> tuple[Any, Any, Any]:
    for rank, offset, count in parts:
        if offset < 0 or count < 0 or offset + count > size:
            raise ValueError(f"{name}: {count} elements at {offset} for rank {rank}: the array has {size}")
    n = len(parts)
    return (
        (ctypes.c_int * n)(*(p[0] for p in parts)),
        (ctypes.c_uint64 * n)(*(p[2] for p in parts)),
        (ctypes.c_uint64 * n)(*(p[1] for p in parts)),
    )
