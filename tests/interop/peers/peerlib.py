"""Shared by the UCXX peers of the interop tests: the line protocol and test data.

A peer is a child process. Its parent writes one JSON object per line to its standard
input and reads one JSON object per line from its standard output:

    > {"id": 1, "op": "listen"}
    < {"id": 1, "ok": true, "port": 34567}
    < {"event": "accepted", "ep": "ep1", ...}
    > {"id": 2, "op": "recv", "ep": "ep1", "size": 8}
    < {"id": 2, "ok": false, "error": "UCXCanceledError", "message": "..."}

Every command gets exactly one reply, with its id, in the order in which they
finish; events have no id. The peer ends when its standard input is closed.

Data is not part of the lines. A command specifies what to send as {"size": n, "seed":
s} (see pattern) or {"hex": "..."}, and the reply to a receive describes the data
as {"size": n, "sha256": "..."}.
"""

import asyncio
import hashlib
import json
import os
import sys
import threading
import traceback

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../internal/bench/benchpeer/peers"))

from benchlib import pattern, take_stdout  # noqa: E402, F401


def make_data(spec, kind="numpy"):
    """Return the buffer that a command describes, as numpy array or bytearray."""
    if "hex" in spec:
        data = np.frombuffer(bytes.fromhex(spec["hex"]), dtype=np.uint8).copy()
    else:
        data = pattern(spec["size"], spec.get("seed", 0))
    return bytearray(data.tobytes()) if kind == "bytearray" else data


def make_room(size, kind="numpy"):
    """Return a buffer to receive into, filled with a byte that no sender uses."""
    if kind == "bytearray":
        return bytearray(b"\xee" * size)
    return np.full(size, 0xEE, dtype=np.uint8)


def describe(data):
    """Return the description of received data for a reply."""
    raw = memoryview(data).cast("B") if data is not None else b""
    return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


class Lines:
    """Replies and events to the parent. It is safe for concurrent use."""

    def __init__(self, out):
        self._out = out
        self._lock = threading.Lock()

    def write(self, **fields):
        line = json.dumps(fields)
        with self._lock:
            try:
                self._out.write(line + "\n")
            except BrokenPipeError:
                # The parent has ended: no process reads replies.
                os._exit(0)

    def answer(self, command, **fields):
        self.write(id=command.get("id"), ok=True, **fields)

    def fail(self, command, error):
        traceback.print_exception(error, file=sys.stderr)
        self.write(
            id=command.get("id"),
            ok=False,
            error=type(error).__name__,
            message=str(error),
        )

    def event(self, name, **fields):
        self.write(event=name, **fields)


def read_commands(deliver):
    """Read standard input in a thread and call deliver for each command, then None."""

    def run():
        for line in sys.stdin:
            if line.strip():
                deliver(json.loads(line))
        deliver(None)

    threading.Thread(target=run, name="commands", daemon=True).start()


async def serve(do, lines):
    """Reply to commands with the results of the coroutine do, until the input ends.

    Each runs in its own task: a receive must not block a send.
    """
    loop = asyncio.get_running_loop()
    commands = asyncio.Queue()
    read_commands(lambda c: loop.call_soon_threadsafe(commands.put_nowait, c))
    tasks = set()

    async def run(command):
        try:
            answer = await do(command)
        except BaseException as error:  # all exceptions are reported to the parent
            lines.fail(command, error)
        else:
            lines.answer(command, **(answer or {}))

    while (command := await commands.get()) is not None:
        task = asyncio.create_task(run(command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def leave():
    """Exit immediately.

    UCXX's destructors wait for threads and for endpoints whose peers are gone; the
    parent has its replies and must not wait for them.
    """
    sys.stderr.flush()
    os._exit(0)
