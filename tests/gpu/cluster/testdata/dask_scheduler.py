"""Dask scheduler: the peer of dask_test.go.

    python dask_scheduler.py PROTOCOL      prints its address, ends with its standard input
"""

import asyncio
import os
import sys

from distributed import Scheduler


async def main():
    scheduler = Scheduler(protocol=sys.argv[1], host="127.0.0.1", port=0, dashboard=False)
    await scheduler
    print(scheduler.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    sys.stderr.flush()
    os._exit(0)  # UCXX's destructors wait for endpoints whose peers are gone


asyncio.run(main())
