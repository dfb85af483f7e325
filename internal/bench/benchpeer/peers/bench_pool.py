"""Allocators of device memory that Python programs use, for `millstream bench pool`.

Commands and replies are lines of JSON: the reply to {"peer": "rmm-pool", "size": 1048576, "device": 0,
"iterations": 1000} is {"seconds": 0.006}.
"""

import json
import sys
import time

import rmm
from rmm.pylibrmm.stream import Stream


def resource(peer, size):
    cuda = rmm.mr.CudaMemoryResource()
    if peer == "rmm-pool":
        return rmm.mr.PoolMemoryResource(cuda, initial_pool_size=4 * size + (1 << 20))
    if peer == "cuda-async":
        return rmm.mr.CudaAsyncMemoryResource(initial_pool_size=4 * size + (1 << 20))
    if peer == "cuda-malloc":
        return cuda
    raise ValueError(f"unknown allocator {peer!r}")


def measure(memory, stream, size, iterations):
    """Allocate and free through the Python bindings, as programs do."""
    allocate, deallocate = memory.allocate, memory.deallocate
    begin = time.perf_counter()
    for _ in range(iterations):
        deallocate(allocate(size, stream), size, stream)
    return time.perf_counter() - begin


def main():
    stream = None
    made = {}
    for line in sys.stdin:
        try:
            c = json.loads(line)
            if stream is None:
                if c["device"] != 0:
                    raise ValueError("Python allocators use the first visible device: set CUDA_VISIBLE_DEVICES")
                stream = Stream()
            key = c["peer"], c["size"]
            if key not in made:
                made[key] = resource(*key)
            answer = {"seconds": measure(made[key], stream, c["size"], c["iterations"])}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
