"""A Dask program that knows nothing of Millstream: Client() connects to DASK_SCHEDULER_ADDRESS."""

import dask
from distributed import Client


@dask.delayed
def load(part):
    return [part * 1000 + n for n in range(1000)]


@dask.delayed
def squares(numbers):
    return sum(n * n for n in numbers)


if __name__ == "__main__":
    with Client() as client:
        total = dask.delayed(sum)([squares(load(part)) for part in range(20)])
        print("sum of squares", total.compute(), "on", len(client.scheduler_info()["workers"]), "workers")
