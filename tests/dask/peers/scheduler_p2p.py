"""P2P shuffles and rechunks of unmodified collections; some lose workers while they run."""

import os
import signal
import sys

import cloudpickle
import dask
from checks import attempt, check, run, tell, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(client):
    import dask.array as da
    import dask.dataframe as dd
    import numpy as np
    import pandas as pd

    client.wait_for_workers(3)
    dask.config.set({"dataframe.shuffle.method": "p2p", "array.rechunk.method": "p2p"})
    n = 2_000
    left = pd.DataFrame({"k": np.arange(n) % 97, "x": np.arange(n)})
    right = pd.DataFrame({"k": np.arange(97), "y": np.arange(97) * 2.0})
    ddl, ddr = dd.from_pandas(left, npartitions=5), dd.from_pandas(right, npartitions=4)

    want = left.merge(right, on="k").sort_values("x").reset_index(drop=True)
    got = attempt("merge", lambda: ddl.merge(ddr, on="k").compute())
    check("merge's result", got is not None and got.sort_values("x").reset_index(drop=True).equals(want))

    got = attempt("shuffle", lambda: ddl.shuffle("k").compute())
    check("shuffle's result", got is not None and got.sort_values("x").reset_index(drop=True).equals(left))
    attempt("set_index", lambda: ddl.set_index("k").map_partitions(len).compute().sum(), n)

    x = np.arange(64 * 64).reshape(64, 64)
    got = attempt("rechunk", lambda: da.from_array(x, chunks=(64, 8)).rechunk((8, 64)).compute())
    check("rechunk's result", got is not None and (got == x).all())
    until("shuffles are over on the workers", lambda: not any(client.run(active).values()))

    # A worker is killed during its shuffle: the shuffle restarts on the remaining ones.
    flag = distributed_event("go")
    future = client.compute(ddl.map_partitions(slow, flag).shuffle("k").map_partitions(len).sum())
    until("the shuffle has started", lambda: any(client.run(active, on_error="ignore").values()))
    victims = [w for w, n in client.run(active).items() if n]
    tell("victim", victims[0])
    kill(client, victims[0])
    until("worker is gone", lambda: victims[0] not in client.nthreads())
    flag.set()
    attempt("a shuffle that lost a worker", lambda: future.result(timeout=100), n)
    check("all are done", len(client.nthreads()), 2)


def distributed_event(name):
    from distributed import Event

    return Event(name)


def slow(df, flag, partition_info=None):
    """Return the first partitions at once and delay the others."""
    if len(df) and df.x.iloc[0] > 1000:
        flag.wait(60)
    return df


def active(dask_worker):
    return len(dask_worker.plugins["shuffle"].shuffle_runs._active_runs)


def kill(client, worker):
    pid = client.run(os.getpid, workers=[worker])[worker]
    os.kill(pid, signal.SIGKILL)



run(main)
