"""What the UCXX peers of the interop tests share: the line protocol and test data.

A peer is a child process. Its parent writes one JSON object a line to its standard
input and reads one JSON object a line from its standard output:

    > {"id": 1, "op": "listen"}
    < {"id": 1, "ok": true, "port": 34567}
    < {"event": "accepted", "ep": "ep1", ...}
    > {"id": 2, "op": "recv", "ep": "ep1", "size": 8}
    < {"id": 2, "ok": false, "error": "UCXCanceledError", "message": "..."}

Every command is answered exactly once, with its id, in the order in which they
finish; events carry no id. The peer ends when its standard input ends.

Data is never put on the lines. A command names what to send as {"size": n, "seed":
s} (see pattern) or {"hex": "..."}, and the answer to a receive describes what came
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
    """Return the buffer that a command's data names, as numpy array or bytearray."""
    if "hex" in spec:
        data = np.frombuffer(bytes.fromhex(spec["hex"]), dtype=np.uint8).copy()
    else:
        data = pattern(spec["size"], spec.get("seed", 0))
    return bytearray(data.tobytes()) if kind == "bytearray" else data


def make_room(size, kind="numpy"):
    """Return a buffer to receive into, filled with a byte that no sender chose."""
    if kind == "bytearray":
        return bytearray(b"\xee" * size)
    return np.full(size, 0xEE, dtype=np.uint8)


def describe(data):
    """Return what an answer says about received data."""
    raw = memoryview(data).cast("B") if data is not None else b""
    return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


class Lines:
    """Answers and events to the parent; any thread may use it."""

    def __init__(self, out):
        self._out = out
        self._lock = threading.Lock()

    def write(self, **fields):
        line = json.dumps(fields)
        with self._lock:
            try:
                self._out.write(line + "\n")
            except BrokenPipeError:
                # The parent has gone, and with it everybody who wants an answer.
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
    """Answer commands with what the coroutine do returns for each, until the input ends.

    Each runs in a task of its own: a receive must not keep a send waiting.
    """
    loop = asyncio.get_running_loop()
    commands = asyncio.Queue()
    read_commands(lambda c: loop.call_soon_threadsafe(commands.put_nowait, c))
    tasks = set()

    async def run(command):
        try:
            answer = await do(command)
        except BaseException as error:  # the parent is told of everything
            lines.fail(command, error)
        else:
            lines.answer(command, **(answer or {}))

    while (command := await commands.get()) is not None:
        task = asyncio.create_task(run(command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def leave():
    """End the process now.

    UCXX's destructors wait for threads and for endpoints whose peers have gone; the
    parent has its answers and must not wait for them.
    """
    sys.stderr.flush()
    os._exit(0)
