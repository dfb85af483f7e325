"""Peer of the interop tests that uses distributed.comm of Dask.

See peerlib for the line protocol. Operations:

    listen  {address, tls?}             -> address: listens, event "accepted" per comm
    connect {address, timeout?, tls?}   -> ep, address: the local one
    write   {ep, value}                 writes a value (see make_value)
    read    {ep}                        -> message: repr of the message; size, sha256 of its "data"
    echo    {ep, count}                 reads and writes back count messages
    check   {ep, value}                 writes a value and reads it back: both must be equal
    close   {ep}, abort {ep}
    info    {ep}                        -> message: JSON of the handshake's result; address: the peer's
    stop    {}                          stops the listeners
"""

import asyncio
import json

from peerlib import Lines, describe, leave, pattern, serve, take_stdout

out = take_stdout()

import numpy as np  # noqa: E402
from distributed.comm import connect, listen  # noqa: E402
from distributed.protocol import Serialize, to_serialize  # noqa: E402
from distributed.security import Security  # noqa: E402

lines = Lines(out)


def make_value(spec):
    kind = spec["kind"]
    data = pattern(spec.get("size", 0), spec.get("seed", 0))
    if kind == "small":
        return {"op": "ping", "n": 1, "text": "grüße", "list": [1, 2.5, None, True, b"raw"]}
    if kind == "bytes":
        return {"op": "data", "data": to_serialize(data.tobytes())}
    if kind == "array":
        return {"op": "data", "data": to_serialize(data)}
    if kind == "nested":
        return {
            "op": "nested",
            "parts": [
                {"x": to_serialize(data)},
                [to_serialize(data.tobytes()), {"y": to_serialize({"z": data[:7]})}],
                to_serialize(b""),
            ],
        }
    raise ValueError(f"unknown kind {kind}")


def same(a, b):
    """Compare a sent and a received value."""
    if isinstance(a, Serialize):
        a = a.data
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def connection_args(command, role, side):
    tls = command.get("tls")
    if not tls:
        return {}
    sec = Security(require_encryption=True, **tls)
    return sec.get_listen_args(role) if side == "listen" else sec.get_connection_args(role)


class Peer:
    def __init__(self):
        self.comms = {}
        self.listeners = []

    def keep(self, comm):
        name = f"ep{len(self.comms) + 1}"
        self.comms[name] = comm
        return name

    async def accepted(self, comm):
        lines.event("accepted", ep=self.keep(comm), address=comm.peer_address)

    async def do(self, command):
        return await getattr(self, "op_" + command["op"])(command)

    async def op_listen(self, command):
        listener = await listen(
            command["address"], self.accepted, **connection_args(command, "scheduler", "listen")
        )
        self.listeners.append(listener)
        return {"address": listener.contact_address}

    async def op_connect(self, command):
        comm = await connect(
            command["address"],
            timeout=command.get("timeout", 30),
            **connection_args(command, "client", "connect"),
        )
        return {"ep": self.keep(comm), "address": comm.local_address}

    async def op_write(self, command):
        await self.comms[command["ep"]].write(make_value(command["value"]))
        return {}

    async def op_read(self, command):
        msg = await self.comms[command["ep"]].read()
        data = msg.get("data") if isinstance(msg, dict) else None
        answer = {"message": repr(msg)[:2000]}
        if data is not None:
            answer |= describe(data)
        return answer

    async def op_echo(self, command):
        comm = self.comms[command["ep"]]
        for _ in range(command["count"]):
            await comm.write(await comm.read())
        return {}

    async def op_check(self, command):
        comm = self.comms[command["ep"]]
        sent = make_value(command["value"])
        await comm.write(sent)
        got = await comm.read()
        if not same(sent, got):
            raise ValueError(f"sent {sent!r:.300}, got {got!r:.300}")
        return {}

    async def op_close(self, command):
        await self.comms[command["ep"]].close()
        return {}

    async def op_abort(self, command):
        self.comms[command["ep"]].abort()
        return {}

    async def op_info(self, command):
        comm = self.comms[command["ep"]]
        info = {
            "options": comm.handshake_options,
            "remote": {k: v for k, v in comm.remote_info.items() if k != "address"},
            "same_host": comm.same_host,
            "cipher": comm.extra_info.get("cipher"),
        }
        return {"message": json.dumps(info), "address": comm.peer_address}

    async def op_stop(self, command):
        for listener in self.listeners:
            listener.stop()
        return {}


async def main():
    await serve(Peer().do, lines)


asyncio.run(main())
leave()
