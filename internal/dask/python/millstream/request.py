"""Operations in flight."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterable
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING, Any

from . import _library

if TYPE_CHECKING:
    from .handle import Handle

_in_flight: set[Request] = set()  # the library uses their arrays by address until the operations have ended


class Request:
    """An operation in flight, returned by :meth:`Handle.isend`, :meth:`Handle.iallreduce` and the like.

    `await request` is `request.wait()` without blocking the event loop.
    """

    def __init__(self, handle: Handle, number: int, keep: Any, result: Any = None) -> None:
        self._handle, self._number, self._keep, self._result = handle, number, keep, result
        self._lock = threading.Lock()
        self._done = False
        self._error: BaseException | None = None
        handle._pending.add(self)
        _in_flight.add(self)

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the operation, and return the result of a collective or the number of received elements.

        Raise TimeoutError after `timeout` seconds; the operation goes on, and can be waited for again.
        """
        with self._lock:
            if not self._done:
                n, lib = c_uint64(), self._handle._lib
                code = lib.wait(self._number, -1.0 if timeout is None else float(timeout), byref(n))
                error = lib.error(code, self._handle._comm) if code else None
                if code == _library.TIMEOUT:
                    raise error or TimeoutError
                self._finish(error, n.value)
            if self._error is not None:
                raise self._error
            return self._result

    def __await__(self) -> Generator[Any, None, Any]:
        return in_thread(self.wait).__await__()

    def _finish(self, error: BaseException | None, received: int) -> None:
        self._done, self._error, self._keep = True, error, None
        if self._result is None:
            self._result = received
        self._handle._pending.discard(self)
        _in_flight.discard(self)

    def _end(self, timeout: float) -> None:
        """Wait for the operation of a communicator that was destroyed."""
        try:
            self.wait(timeout)
        except Exception:  # noqa: BLE001 - the operation has failed with the communicator, or another thread waits for it
            pass


def waitall(requests: Iterable[Request], timeout: float | None = None) -> list[Any]:
    """Wait for several requests, each of them at most `timeout` seconds, and return their results."""
    return [r.wait(timeout) for r in requests]


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function that blocks in a thread of its own: the event loop sends heartbeats meanwhile."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            result, error = function(), None
        except BaseException as e:  # noqa: BLE001 - raised by await
            result, error = None, e
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="millstream-comms", daemon=True).start()
    return await done
