"""Shared by the Python processes of Go workers and nannies.

Each has a server of Dask that is created but never started: the Go process listens, and forwards requests with their
frames unchanged.
"""

import asyncio
import inspect
import logging
import signal
import warnings

from distributed.comm.utils import from_frames
from distributed.core import Status, _expects_comm, error_message
from distributed.protocol import dumps

from millstream import sidecar_values as values_

logger = logging.getLogger("distributed.core")


class Caller:
    """Stands for the comm of handlers that need one: the address of the caller."""

    def __init__(self, address):
        self.peer_address = self._peer_addr = address
        self.name = None

    def closed(self):
        return False

    def abort(self):
        pass


async def handle(server, peer_address, frames):
    """Handle a request with a handler of the server, and return the frames of the reply."""
    msg = await from_frames(frames)
    op = msg.pop("op")
    serializers = msg.pop("serializers", None)
    msg.pop("close", None)
    msg.pop("reply", None)
    handler = server.handlers.get(op)
    try:
        if handler is None:
            raise NotImplementedError(f"{server.address} has no handler {op!r}")
        result = handler(Caller(peer_address), **msg) if _expects_comm(handler) else handler(**msg)
        if inspect.isawaitable(result):
            result = await result
    except asyncio.CancelledError:
        raise
    except values_.FATAL as e:
        values_.exit_process(f"request {op!r}", e)
    except Exception as e:
        logger.warning("Exception while handling op %s", op, exc_info=True)
        result = error_message(e, status="uncaught-error")
    if result is Status.dont_reply:
        result = None
    return dumps(result, serializers=serializers)


class Forward(logging.Handler):
    """Sends log records to the Go process, which adds them to its log."""

    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    def emit(self, record):
        try:
            self.peer.notify("log", {"level": record.levelno, "name": record.name, "text": self.format(record)[:10_000]})
        except Exception:
            pass  # the Go process has ended


def prepare(peer):
    """Prepare this process: log records go to the Go process, and the peer gets an event loop."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="tornado")
    handler = Forward(peer)
    root, distributed = logging.getLogger(), logging.getLogger("distributed")
    for logger in (root, distributed):
        logger.handlers[:] = [handler]
    distributed.propagate = False
    # The Go process decides when this process ends, even if a signal is sent to both. A function, because SIG_IGN is
    # inherited by programs that user code starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    peer.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(peer.loop)
