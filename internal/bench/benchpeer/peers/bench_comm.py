"""One process of a pair that measures distributed.comm, driven by JSON lines as described in
internal/dask/commpeer: listen, connect, idle, rtt, echo.

    python bench_comm.py
"""

import asyncio
import json
import sys
import threading
import time

import benchlib

OUT = benchlib.take_stdout()

import distributed  # noqa: E402
from distributed.comm import connect, listen  # noqa: E402
from distributed.comm.core import CommClosedError  # noqa: E402
from distributed.protocol import to_serialize  # noqa: E402


async def reflect(comm):
    """Send every message back, deserialized and serialized again as in a worker. With describe, reply with the
    description of an array and send back the doubled array."""
    try:
        while True:
            msg = await comm.read()
            if isinstance(msg, dict) and msg.get("op") == "describe":
                a = msg["data"]
                msg = {
                    "text": f"{type(a).__module__}.{type(a).__name__} of {a.dtype}, shape {a.shape}",
                    "sum": float(a.sum()),
                    "python": sys.version.split()[0],
                    "distributed": distributed.__version__,
                    "double": to_serialize(a * 2),
                }
            elif isinstance(msg, dict) and "data" in msg:
                msg = {"op": "echo", "data": to_serialize(msg["data"])}
            await comm.write(msg)
    except CommClosedError:
        pass


class Side:
    def __init__(self):
        self.listener = None
        self.comms = []

    async def do(self, c):
        what = c["do"]
        if what == "listen":
            self.listener = listen(c["address"], reflect)
            await self.listener.start()
            return {"address": self.listener.contact_address}
        if what in ("connect", "idle"):
            for _ in range(max(c.get("n", 0), 1)):
                self.comms.append(await connect(c["address"]))
            return {}
        if what == "rtt":
            return await self.timed(c["n"], {"op": "ping", "n": 1}, None)
        if what == "echo":
            data = bytes(i * 31 & 255 for i in range(256)) * (c["size"] // 256 + 1)
            data = data[: c["size"]]
            return await self.timed(c["n"], {"op": "echo", "data": to_serialize(data)}, data)
        raise ValueError(f"unknown command {what!r}")

    async def timed(self, n, msg, data):
        comm = self.comms[0]
        begin = time.perf_counter()
        for _ in range(n):
            await comm.write(msg)
            back = await comm.read()
        took = time.perf_counter() - begin
        if data is not None and bytes(back["data"]) != data:
            raise ValueError("echo differs")
        return {"seconds": took}

    async def close(self):
        for c in self.comms:
            await c.close()
        if self.listener is not None:
            self.listener.stop()


async def main():
    lines = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def pump():
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=pump, daemon=True).start()
    side = Side()
    while (line := await lines.get()) is not None:
        try:
            answer = await side.do(json.loads(line))
        except Exception as e:  # noqa: BLE001 - the parent reports it
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=OUT, flush=True)
    await asyncio.wait_for(side.close(), 5)


asyncio.run(main())
