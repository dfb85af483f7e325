"""Peer that uses Dask comms over UCX (distributed.comm with distributed-ucxx), driven
by JSON lines (see peerlib).

    python ucxcomm_peer.py

distributed-ucxx is not modified; its settings come from the environment
(DASK_DISTRIBUTED_UCXX__MULTI_BUFFER, UCX_TLS, …).

Operations (arguments; reply), where ep is the name of a comm. In replies with addresses,
address is the comm's peer_address, message its local_address, and matched reports whether
the other side identified itself as Millstream:
    listen   (address; address), then events accepted (ep, address, message, matched);
             with echo=true each message is sent back, and at the end an event closed (ep)
    stop     ()
    connect  (address, timeout=10; ep, address, message, matched)
    write    (ep, frames=[{size, seed}], text) - {"op": text, "data": [Serialize(bytes), …]}
    read     (ep; message=text, frames=[{size, sha256}])
    rtt      (ep, count) - small messages, each with a reply
    values   (ep; message) - sends values of many kinds to a side that sends all back,
             and compares; message names the values that changed
    close, abort (ep)
    closed   (ep; closed)
    info     (; pid)
"""

import asyncio
import os

import numpy as np
import pandas as pd
import peerlib

OUT = peerlib.take_stdout()

from distributed.comm import connect, listen  # noqa: E402
from distributed.comm.core import CommClosedError  # noqa: E402
from distributed.protocol import Serialize, to_serialize  # noqa: E402
from distributed.protocol.serialize import ToPickle  # noqa: E402


def noise(size, seed):
    """Return bytes that do not compress: distributed-ucxx compresses what it can,
    regardless of the handshake. Word i is splitmix64 of seed * 2**32 + i."""
    n = (size + 7) // 8
    with np.errstate(over="ignore"):
        z = np.uint64(seed << 32) + np.arange(n, dtype=np.uint64)
        z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.tobytes()[:size]


def unwrap(value):
    """Return what the receiver of a value sees."""
    if isinstance(value, (Serialize, ToPickle)):
        return unwrap(value.data)
    if isinstance(value, dict):
        return {k: unwrap(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(unwrap(v) for v in value)
    return value


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    if isinstance(a, pd.DataFrame):
        return a.equals(b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


class Peer:
    def __init__(self, lines):
        self.lines = lines
        self.comms = {}
        self.listener = None

    def keep(self, comm):
        name = f"comm{len(self.comms) + 1}"
        self.comms[name] = comm
        return {
            "ep": name,
            "address": comm.peer_address,
            "message": comm.local_address,
            "matched": "millstream" in comm.remote_info,
        }

    async def op_listen(self, c):
        async def accepted(comm):
            kept = self.keep(comm)
            self.lines.event("accepted", **kept)
            if not c.get("echo"):
                return
            try:
                while True:
                    await comm.write(await comm.read())
            except CommClosedError:
                self.lines.event("closed", ep=kept["ep"])

        self.listener = await listen(c["address"], accepted, deserialize=True)
        return {"address": self.listener.contact_address}

    async def op_stop(self, c):
        self.listener.stop()

    async def op_connect(self, c):
        return self.keep(await connect(c["address"], timeout=c.get("timeout", 10)))

    async def op_write(self, c):
        frames = c.get("frames", [])
        data = [to_serialize(noise(f["size"], f["seed"])) for f in frames]
        await self.comms[c["ep"]].write({"op": c.get("text", ""), "data": data})

    async def op_read(self, c):
        message = await self.comms[c["ep"]].read()
        return {
            "message": message["op"],
            "frames": [peerlib.describe(d) for d in message.get("data", ())],
        }

    async def op_rtt(self, c):
        comm = self.comms[c["ep"]]
        for i in range(c["count"]):
            await comm.write({"op": "ping", "n": i})
            answer = await comm.read()
            if answer["n"] != i:
                raise ValueError(f"{answer} instead of {i}")

    async def op_values(self, c):
        comm = self.comms[c["ep"]]
        big = np.random.default_rng(1).random((300, 1000))
        values = {
            "numpy": to_serialize(big),
            "numpy, transposed": to_serialize(big.T),
            "numpy, empty": to_serialize(np.empty((0, 3), dtype="i4")),
            "numpy, strings": to_serialize(np.array(["a", "bc"], dtype=object)),
            "pandas": to_serialize(pd.DataFrame({"x": np.arange(1000), "y": ["é"] * 1000})),
            "nested": {"a": [to_serialize(b"x" * 100_000), to_serialize({"k": (1, 2)})]},
            "pickled": ToPickle({"set": {1, 2}, "big": 2**100}),
            "zeros": to_serialize(bytes(10_000_000)),
            "tuple keys": {(1, "a"): 1.5, "list": list(range(100)), "none": None},
            "many": [to_serialize(bytes([i]) * i) for i in range(40)],
        }
        changed = []
        for name, value in values.items():
            await comm.write({"op": name, "value": value})
            answer = await comm.read()
            if not same(unwrap(value), answer["value"]):
                changed.append(name)
        return {"message": ", ".join(changed)}

    async def op_close(self, c):
        await self.comms[c["ep"]].close()

    async def op_abort(self, c):
        self.comms[c["ep"]].abort()

    async def op_closed(self, c):
        return {"closed": self.comms[c["ep"]].closed()}

    async def op_info(self, c):
        return {"pid": os.getpid()}


async def main():
    lines = peerlib.Lines(OUT)
    peer = Peer(lines)
    await peerlib.serve(lambda c: getattr(peer, "op_" + c["op"])(c), lines)
    peerlib.leave()


asyncio.run(main())
