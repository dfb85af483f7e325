"""Makes the calls of the Dask operator to a scheduler.

calls.py ADDRESS scale N    with N workers: asks for the load, and retires one of them, whose name it prints
calls.py ADDRESS check N    waits until exactly N workers are left, and uses them
"""

import asyncio
import json
import sys

from distributed import Client
from distributed.core import rpc


async def scale(address, client, workers):
    await client.wait_for_workers(workers)
    async with rpc(address) as scheduler:
        target = await scheduler.adaptive_target()
        idle = await scheduler.check_idle()
        closing = list(await scheduler.workers_to_close(n=1, attribute="name"))
        await scheduler.retire_workers(names=closing)
    return {"target": target, "idle": idle, "closing": closing}


async def check(address, client, workers):
    while len(left := await names(client)) != workers:
        await asyncio.sleep(0.05)
    total = await client.submit(sum, client.map(lambda x: x * x, range(100)))
    return {"left": left, "total": total}


async def names(client):
    return [w["name"] for w in (await client.scheduler.identity())["workers"].values()]


async def main(address, call, workers):
    async with Client(address, asynchronous=True) as client:
        print(json.dumps(await globals()[call](address, client, int(workers))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
