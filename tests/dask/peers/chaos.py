"""A dask.array workload that runs while workers and helpers are killed: it creates the file FOLDER/begun after the first
round and ends when FOLDER/stop exists, or after some seconds. Each round keeps an array on the workers, computes from it
several times, and compares with the results of numpy.

    chaos.py ADDRESS FOLDER SECONDS
"""

import os
import sys
import time

import dask
import dask.array as da
import numpy as np
from checks import check, connect, tell

N, CHUNK = 1200, 150


def slow(block):
    """Return a block slowly, so that a kill interrupts something."""
    time.sleep(0.05)
    return block * 2 + 1


def round_(client, number):
    x = da.arange(N * N, chunks=CHUNK * N).reshape((N, N)).rechunk((CHUNK, CHUNK)) + number
    kept = x.map_blocks(slow).persist()
    want = (np.arange(N * N).reshape((N, N)) + number) * 2 + 1
    total = int(kept.sum().compute())
    rows = (kept + kept.T).sum(axis=0).compute()
    parts = kept[:: CHUNK, ::7].mean(axis=1).compute()
    ok = total == want.sum() and np.array_equal(rows, (want + want.T).sum(axis=0)) and np.allclose(parts, want[::CHUNK, ::7].mean(axis=1))
    return ok, total


def main():
    folder, limit = sys.argv[2], float(sys.argv[3])
    rounds, wrong = 0, 0
    with connect() as client, dask.config.set({"array.rechunk.method": "tasks"}):
        client.wait_for_workers(4, timeout=120)
        begin = time.monotonic()
        while not os.path.exists(os.path.join(folder, "stop")) and time.monotonic() - begin < limit:
            ok, total = round_(client, rounds)
            rounds += 1
            wrong += not ok
            print(f"round {rounds}: {total} after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            with open(os.path.join(folder, "begun"), "w"):
                pass
        check("all rounds are correct", wrong, 0)
        check("rounds ran", rounds, lambda n: n > 1)
        tell("rounds", rounds)


if __name__ == "__main__":
    main()
