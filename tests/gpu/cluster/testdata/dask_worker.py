"""Dask worker with CuPy: the peer of dask_test.go.

    python dask_worker.py SCHEDULER NAME      prints its address, ends with its standard input

Its comms receive into RMM memory, as those of `dask cuda worker` do.
"""

import asyncio
import os
import sys

import cupy
import rmm
from distributed import Worker
from rmm.allocators.cupy import rmm_cupy_allocator


async def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=2 << 30)
    cupy.cuda.set_allocator(rmm_cupy_allocator)
    cupy.zeros(1)  # the context of device 0
    address, name = sys.argv[1:]
    worker = Worker(address, protocol=address.split(":")[0], host="127.0.0.1", name=name, nthreads=1, memory_limit=0, dashboard=False)
    await worker
    print(worker.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    sys.stderr.flush()
    os._exit(0)  # UCXX's destructors wait for endpoints whose peers are gone


asyncio.run(main())
