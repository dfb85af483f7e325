"""Message loop of Millstream's Python children.

The socket on descriptor 3 carries messages in both directions: u64 number of frames, u64 length of each frame, the
frames. Integers are little-endian. Frame 0 is a msgpack map, the others are raw buffers:

    {"id", "op", "body"}     a call; without "id" no reply is wanted
    {"id", "ok"}             the reply
    {"id", "error"}          {"type", "message", "traceback", "exception": pickled or nil}

Each side numbers its own calls. Replies may arrive in any order. The process exits when the socket is closed.

A module that runs in a child has setup(peer), which registers its handlers, and may have run(peer), which the
main thread then calls; without it the main thread sleeps.
"""

import asyncio
import concurrent.futures
import importlib
import inspect
import itertools
import os
import socket
import struct
import sys
import threading
import traceback

from millstream import _imports

MAX_FRAMES = 1 << 20
IOV = 512  # buffers per sendmsg; the system limit is 1024


class GoError(RuntimeError):
    """A handler in Go failed."""


class Peer:
    """The Go process on the other end.

    Handlers are called with (body, frames) and return the body of the reply, Reply(body, frames), or a
    concurrent Future of either. They run in the executor, in the reader thread if registered with
    inline=True (then they must not block), or on the event loop if they are coroutine functions.
    """

    def __init__(self, sock, settings):
        self.sock = sock
        self.settings = settings
        self.executor = concurrent.futures.ThreadPoolExecutor(settings.get("threads") or 8, thread_name_prefix="millstream")
        self.default = None  # default of msgpack
        self.loop = None  # set by run() of a module that has coroutine handlers
        self._handlers = {}
        self._calls = {}  # id -> Future; guarded by _calls_lock
        self._calls_lock = threading.Lock()
        self._ids = itertools.count(1)
        self._write_lock = threading.Lock()

    # -- calls to Go

    def call(self, op, body=None, frames=(), timeout=None):
        """Call a handler of the Go side and wait for its Reply. Raise GoError if it fails."""
        return self.call_soon(op, body, frames).result(timeout)

    async def acall(self, op, body=None, frames=()):
        """Variant of call for coroutines."""
        return await asyncio.wrap_future(self.call_soon(op, body, frames))

    def call_soon(self, op, body=None, frames=()):
        """Call a handler of the Go side; the returned Future gets its Reply."""
        future = concurrent.futures.Future()
        with self._calls_lock:
            n = next(self._ids)
            self._calls[n] = future
        try:
            self._send({"id": n, "op": op, "body": body}, frames)
        except BaseException:
            with self._calls_lock:
                self._calls.pop(n, None)
            raise
        return future

    def notify(self, op, body=None, frames=()):
        """Call a handler of the Go side that sends no reply."""
        self._send({"op": op, "body": body}, frames)

    # -- calls from Go

    def handle(self, op, function, inline=False):
        """Register the handler for an op."""
        self._handlers[op] = function, inline, inspect.iscoroutinefunction(function)

    def _dispatch(self, head, frames):
        n, op = head.get("id"), head["op"]
        try:
            function, inline, coroutine = self._handlers[op]
        except KeyError:
            self._fail(n, NotImplementedError(f"no handler for {op!r} in {self.settings.get('module')}"))
            return
        body = head.get("body")
        if coroutine:
            if self.loop is None:
                self._fail(n, RuntimeError(f"{op!r} arrived before the event loop was started"))
                return
            future = asyncio.run_coroutine_threadsafe(function(body, frames), self.loop)
            future.add_done_callback(lambda f: self._finish(n, f))
        elif inline:
            self._run(n, function, body, frames)
        else:
            self.executor.submit(self._run, n, function, body, frames)

    def _run(self, n, function, body, frames):
        try:
            result = function(body, frames)
        except BaseException as e:  # a SystemExit of user code is a reply, too
            self._fail(n, e)
            return
        if isinstance(result, concurrent.futures.Future):
            result.add_done_callback(lambda f: self._finish(n, f))
        else:
            self._reply(n, result)

    def _finish(self, n, future):
        if future.cancelled():
            self._fail(n, concurrent.futures.CancelledError("cancelled"))
        elif (e := future.exception()) is not None:
            self._fail(n, e)
        else:
            self._reply(n, future.result())

    def _reply(self, n, result):
        if n is None:
            return
        body, frames = (result.body, result.frames) if isinstance(result, Reply) else (result, ())
        try:
            self._send({"id": n, "ok": body}, frames)
        except OSError:
            pass  # the Go process has ended; the reader ends this process
        except BaseException as e:  # msgpack cannot encode the body
            self._fail(n, e)

    def _fail(self, n, e):
        if n is None:
            traceback.print_exception(e)
            return
        try:
            self._send({"id": n, "error": describe(e)}, ())
        except OSError:
            pass

    # -- the socket

    def _send(self, head, frames):
        import msgpack

        views = [memoryview(msgpack.packb(head, use_bin_type=True, default=self.default))]
        for f in frames:
            views.append(flatten(memoryview(f)))
        prelude = struct.pack(f"<{1 + len(views)}Q", len(views), *[v.nbytes for v in views])
        rest = [memoryview(prelude), *(v for v in views if v.nbytes)]
        with self._write_lock:
            at = 0
            while at < len(rest):
                sent = self.sock.sendmsg(rest[at : at + IOV])
                while at < len(rest) and sent >= rest[at].nbytes:
                    sent -= rest[at].nbytes
                    at += 1
                if sent:
                    rest[at] = rest[at][sent:]

    def _read(self, n):
        buf = bytearray(n)
        view, got = memoryview(buf), 0
        while got < n:
            k = self.sock.recv_into(view[got:], min(n - got, 1 << 30))
            if k == 0:
                raise EOFError
            got += k
        return buf

    def _receive(self):
        (n,) = struct.unpack("<Q", self._read(8))
        if not 0 < n <= MAX_FRAMES:
            raise ValueError(f"message of {n} frames")
        lengths = struct.unpack(f"<{n}Q", self._read(8 * n))
        return [self._read(k) for k in lengths]

    def serve(self):
        """Read messages until the socket is closed, then end the process."""
        import msgpack

        try:
            while True:
                first, *frames = self._receive()
                head = msgpack.unpackb(first, use_list=False, strict_map_key=False)
                if "op" in head:
                    self._dispatch(head, frames)
                    continue
                with self._calls_lock:
                    future = self._calls.pop(head["id"], None)
                if future is None or not future.set_running_or_notify_cancel():
                    continue
                if "error" in head:
                    e = head["error"]
                    future.set_exception(GoError(e.get("message") or "failed"))
                else:
                    future.set_result(Reply(head.get("ok"), frames))
        except (EOFError, OSError):
            status = 0
        except BaseException:
            traceback.print_exc()
            status = 1
        # Threads of user code may never end, and atexit handlers may wait for them.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(status)


def flatten(v):
    """Return the bytes of a memoryview in one dimension, copied only if they are not contiguous."""
    if not v.nbytes:
        return memoryview(b"")  # cast rejects a zero in the shape
    if v.format == "B" and v.ndim == 1 and v.c_contiguous:
        return v
    return v.cast("B") if v.c_contiguous else memoryview(bytes(v))


class Reply:
    """Body with frames: a reply, or the return value of a handler."""

    __slots__ = ("body", "frames")

    def __init__(self, body=None, frames=()):
        self.body, self.frames = body, frames


def describe(e):
    """Return the description of an exception for the other side.

    One that is not an Exception, such as SystemExit, is sent as text: raised in the event loop of a client, it would end
    the client.
    """
    import pickle

    pickled = None
    try:
        if isinstance(e, Exception):
            pickled = pickle.dumps(e, protocol=4)
            pickle.loads(pickled)  # many exceptions can be pickled but not unpickled
    except BaseException:
        pickled = None
    try:
        message = str(e)
    except BaseException:
        message = "(no message: str() of the exception failed)"
    return {
        "type": type(e).__qualname__,
        "message": message,
        "traceback": "".join(traceback.format_exception(e)),
        "exception": pickled,
    }


def main(module, settings):
    """Run a module in this process. Called by _boot."""
    settings["module"] = module
    import msgpack  # noqa: F401  before the file system changes

    sock = socket.socket(fileno=3)
    sock.set_inheritable(False)
    sock.setblocking(True)
    report = {}
    peer = Peer(sock, settings)
    if settings.get("isolate") is not None:
        from millstream import _isolate

        try:
            report = _isolate.enter(settings["isolate"])
        except BaseException as e:
            peer.notify("failed", {**describe(e), "sandbox": True})
            os._exit(1)
    _imports.install()
    try:
        mod = importlib.import_module(module)
        mod.setup(peer)
    except BaseException as e:
        peer.notify("failed", describe(e))
        sys.stderr.flush()
        os._exit(1)
    peer.notify("ready", {"pid": os.getpid(), "python": sys.version.split()[0], "isolation": report})
    run = getattr(mod, "run", None)
    reader = threading.Thread(target=peer.serve, name="millstream-reader", daemon=True)
    reader.start()
    if run is not None:
        run(peer)
    reader.join()
