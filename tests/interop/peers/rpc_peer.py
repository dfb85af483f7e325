"""Peer of the interop tests that uses distributed.core and batched of Dask.

See peerlib for the line protocol. Operations:

    serve     {}                              -> address: a distributed.core.Server with the handlers below
    scheduler {}                              -> address: a real Scheduler
    call      {address, method, args, via}    -> message: JSON of the result; via is "rpc" or "pool"; for tls://
                                              also tls, arguments of Security, and the role to call as
    catch     {address, method, args, via}    -> message: JSON of the exception: type, text, notes
    crowd     {address, count}                -> message: JSON of the sums; concurrent calls of add, over one pool
    stream    {address, count, interval}      sends count notes over a BatchedSend and closes it
    listen_to {address, count}                -> message: JSON of {numbers, lists}: requests a stream and reads it
    notes     {count}                         -> message: JSON of {numbers, batches}: what the server's streams received
    stop      {}                              ends the servers
"""

import asyncio
import json

from peerlib import Lines, leave, serve, take_stdout

out = take_stdout()

import numpy as np  # noqa: E402
from distributed import Scheduler  # noqa: E402
from distributed.batched import BatchedSend  # noqa: E402
from distributed.comm import connect  # noqa: E402
from distributed.core import ConnectionPool, Server, rpc  # noqa: E402
from distributed.protocol import to_serialize  # noqa: E402
from distributed.security import Security  # noqa: E402

lines = Lines(out)


class OddError(Exception):
    """An exception that only this process defines."""


class Peer:
    def __init__(self):
        self.servers = []
        self.numbers = []
        self.arrived = asyncio.Event()

    # Handlers of the server.

    def add(self, x, y):
        return x + y

    async def slow(self, delay):
        await asyncio.sleep(delay)
        return "slept"

    def fail(self, text="bad thing"):
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError(text) from error

    def odd(self):
        raise OddError("odd", 7)

    def missing_file(self):
        open("/nonexistent/file")

    def total(self, data):
        return int(np.asarray(data).sum())

    def array(self, n):
        return {"status": "OK", "data": to_serialize(np.arange(n, dtype="i8"))}

    def note(self, n):
        self.numbers.append(n)
        self.arrived.set()

    # Operations.

    async def do(self, command):
        return await getattr(self, "op_" + command["op"])(command)

    async def op_serve(self, command):
        names = ["add", "slow", "fail", "odd", "missing_file", "total", "array"]
        server = Server(
            {name: getattr(self, name) for name in names},
            stream_handlers={"note": self.note},
        )
        await server.listen("tcp://127.0.0.1:0")
        await server
        self.servers.append(server)
        return {"address": server.address}

    async def op_scheduler(self, command):
        scheduler = await Scheduler(host="127.0.0.1", port=0, dashboard=False)
        self.servers.append(scheduler)
        return {"address": scheduler.address}

    async def request(self, command):
        args = dict(command.get("args") or {})
        if "array" in args:  # {"array": n} stands for data that JSON cannot represent
            args["data"] = to_serialize(np.arange(args.pop("array"), dtype="i8"))
        how = {}
        if "tls" in command:
            security = Security(require_encryption=True, **command["tls"])
            how["connection_args"] = security.get_connection_args(command["role"])
        if command["via"] == "rpc":
            async with rpc(command["address"], **how) as remote:
                return await getattr(remote, command["method"])(**args)
        async with ConnectionPool(**how) as pool:
            return await getattr(pool(command["address"]), command["method"])(**args)

    async def op_call(self, command):
        result = await self.request(command)
        if isinstance(result, np.ndarray):
            result = {"dtype": result.dtype.str, "list": result.tolist()}
        return {"message": json.dumps(result, default=repr)}

    async def op_catch(self, command):
        try:
            result = await self.request(command)
        except Exception as error:
            found = {
                "type": type(error).__name__,
                "text": str(error),
                "notes": getattr(error, "__notes__", []),
            }
            return {"message": json.dumps(found)}
        raise AssertionError(f"no exception, but {result!r}")

    async def op_crowd(self, command):
        async with ConnectionPool(limit=10) as pool:
            remote = pool(command["address"])
            sums = await asyncio.gather(*(remote.add(x=i, y=i) for i in range(command["count"])))
        return {"message": json.dumps(sums)}

    async def op_stream(self, command):
        comm = await connect(command["address"])
        await comm.write({"op": "connection_stream", "reply": False})
        batched = BatchedSend(interval=command["interval"])
        batched.start(comm)
        for i in range(command["count"]):
            batched.send({"op": "note", "n": i})
            if i % 100 == 0:
                await asyncio.sleep(0.001)
        await batched.close()
        return {}

    async def op_listen_to(self, command):
        comm = await connect(command["address"])
        await comm.write({"op": "subscribe", "count": command["count"], "reply": False})
        numbers, lists = [], 0
        while len(numbers) < command["count"]:
            batch = await comm.read()
            lists += 1
            numbers += [message["n"] for message in batch]
        await comm.close()
        return {"message": json.dumps({"numbers": numbers, "lists": lists})}

    async def op_notes(self, command):
        while len(self.numbers) < command["count"]:
            self.arrived.clear()
            await self.arrived.wait()
        numbers, self.numbers = self.numbers, []
        return {"message": json.dumps({"numbers": numbers})}

    async def op_stop(self, command):
        for server in self.servers:
            await server.close()
        self.servers = []
        return {}


async def main():
    await serve(Peer().do, lines)


asyncio.run(main())
leave()
