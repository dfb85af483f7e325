"""Dask comms over UCX with GPU arrays: the peer of dask_test.go.

    python dask_peer.py listen              prints its address, serves one comm
    python dask_peer.py connect ADDRESS

Each message {"op": class, "n": items, "x": array} must contain an array of that class in
device memory. The reply is {"sha256": of its bytes, "class": its class, "x": an
array of the same class, type and shape with every byte inverted}.
"""

import asyncio
import hashlib
import os
import sys

import cupy
import numba.cuda
import rmm
from distributed.comm import connect, listen
from distributed.comm.core import CommClosedError
from distributed.protocol import to_serialize


def class_of(x):
    return f"{type(x).__module__}.{type(x).__qualname__}".replace("cupy._core.core", "cupy")


def host_bytes(x):
    """Return the array's bytes in memory order."""
    if isinstance(x, rmm.DeviceBuffer):
        return x.tobytes()
    a = cupy.asarray(x)
    return a.get(order="A").tobytes(order="A")


def inverted(x):
    if isinstance(x, rmm.DeviceBuffer):
        return rmm.DeviceBuffer.to_device(bytes(255 - b for b in x.tobytes()))
    a = cupy.asarray(x)
    order = "C" if a.flags.c_contiguous else "F"
    flat = a.ravel(order="K").view("u1")
    y = (255 - flat).view(a.dtype).reshape(a.shape, order=order)
    return numba.cuda.as_cuda_array(y) if not isinstance(x, cupy.ndarray) else y


async def serve(comm):
    try:
        while True:
            message = await comm.read()
            x = message["x"]
            if not hasattr(x, "__cuda_array_interface__"):
                raise TypeError(f"{type(x)} is not in device memory")
            answer = inverted(x)
            cupy.cuda.get_current_stream().synchronize()
            await comm.write(
                {"sha256": hashlib.sha256(host_bytes(x)).hexdigest(), "class": class_of(x), "x": to_serialize(answer)}
            )
    except CommClosedError:
        pass


def leave():
    """Exit without UCXX's destructors, which wait for endpoints whose peers are gone."""
    sys.stderr.flush()
    os._exit(0)


async def main():
    cupy.zeros(1)  # the context of device 0
    if sys.argv[1] == "connect":
        await serve(await connect(sys.argv[2], timeout=20))
        leave()
    done = asyncio.Event()

    async def accepted(comm):
        await serve(comm)
        done.set()

    listener = await listen("ucxx://127.0.0.1:0", accepted, deserialize=True)
    print(listener.contact_address, flush=True)
    await done.wait()
    leave()


asyncio.run(main())
