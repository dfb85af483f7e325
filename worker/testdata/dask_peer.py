"""Dask scheduler, worker and client for the tests of the Go worker.

The parent writes one JSON object per line and reads one JSON object per line: the reply
has "ok", and the result of the operation or the text of the error. The program ends when
its standard input is closed.
"""

import asyncio
import json
import sys

import numpy as np
from distributed import Client, Scheduler, Worker


def pattern(n):
    return (np.arange(n, dtype=np.int64) * 7919) % 10007


class Peer:
    async def start(self):
        self.scheduler = await Scheduler(host="127.0.0.1", port=0, dashboard=False)
        self.client = await Client(self.scheduler.address, asynchronous=True)
        return {"address": self.scheduler.address}

    async def wait(self, workers):
        await self.client.wait_for_workers(workers, timeout=30)
        info = self.scheduler.identity()["workers"]
        return {"workers": {a: {"nthreads": w["nthreads"], "name": w["name"], "memory_limit": w["memory_limit"]} for a, w in info.items()}}

    async def beat(self, address):
        ws = self.scheduler.workers[address]
        first = ws.last_seen
        for _ in range(600):
            if ws.last_seen > first and ws.metrics["memory"] > 0:
                return {"memory": ws.metrics["memory"], "metrics": sorted(ws.metrics)}
            await asyncio.sleep(0.05)
        raise TimeoutError("no heartbeat")

    async def python_worker(self):
        self.worker = await Worker(self.scheduler.address, host="127.0.0.1", nthreads=1, name="python", dashboard=False)
        return {"address": self.worker.address}

    async def scatter(self, address, direct):
        data = {"n": 41, "text": "grüß", "blob": b"x" * 3_000_000, "array": pattern(1_000_000), "nested": {"a": [1, (2, 3)]}}
        futures = await self.client.scatter(data, workers=[address], direct=direct, hash=False)
        back = await self.client.gather(futures, direct=False)
        straight = await self.client.gather(futures, direct=True)
        for got in (back, straight):
            assert got["n"] == 41 and got["text"] == data["text"] and got["blob"] == data["blob"] and got["nested"] == data["nested"], got.keys()
            assert (got["array"] == data["array"]).all()
        holders = await self.client.who_has(list(futures.values()))
        self.futures = futures
        return {"holders": sorted({a for v in holders.values() for a in v})}

    async def use(self):
        """Run a Python task on the Python worker whose argument is on the Go worker."""
        total = self.client.submit(lambda a: int(a.sum()), self.futures["array"], workers=["python"])
        return {"total": await total, "want": int(pattern(1_000_000).sum())}

    async def replicate(self, n):
        await self.client.replicate(list(self.futures.values()), n=n)
        holders = await self.client.who_has(list(self.futures.values()))
        return {"least": min(len(v) for v in holders.values())}

    async def fetch_made(self, address):
        """Replicate a result of the Python worker to the Go worker."""
        made = self.client.submit(pattern, 200_000, workers=["python"], pure=False)
        await made
        await self.client.replicate([made], workers=[address])
        holders = await self.client.who_has([made])
        return {"holders": sorted({a for v in holders.values() for a in v})}

    async def submit(self, address):
        future = self.client.submit(lambda: 1, workers=[address], pure=False)
        try:
            return {"result": await future}
        except Exception as e:
            return {"error": f"{type(e).__name__}: {e}"}

    async def run(self, address):
        try:
            return {"result": await self.client.run(lambda: 1, workers=[address])}
        except Exception as e:
            return {"error": f"{type(e).__name__}: {e}"}

    async def tools(self, address):
        logs = await self.client.get_worker_logs(workers=[address])
        stacks = await self.client.call_stack()
        profile = await self.client.profile(workers=[address])
        story = await self.client.story("n")
        return {"logs": len(logs[address]), "stacks": len(stacks), "profile": profile["count"], "story": len(story)}

    async def release(self):
        self.futures = None
        for _ in range(600):
            left = {"n", "text", "blob", "array", "nested"} & set(self.scheduler.tasks)
            if not left:
                return {}
            await asyncio.sleep(0.05)
        raise TimeoutError(f"left {left}")

    async def retire(self, address):
        await self.client.retire_workers([address])
        return {"workers": list(self.scheduler.workers)}

    async def end(self):
        await self.client.close()
        if hasattr(self, "worker"):
            await self.worker.close()
        await self.scheduler.close()
        return {}


async def main():
    peer = Peer()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            answer = {"ok": True, **await getattr(peer, command.pop("op"))(**command)}
        except Exception as e:
            answer = {"ok": False, "error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
