"""Communicators of Python workers: V forms, groups, awaited calls, array protocols, and forming again after deaths."""

import asyncio
import os
import random
import signal
import sys
import time

import millstream
import numpy as np
from checks import check, raises, run
from comms import Comms, on_ranks, resources
from millstream import local_handle

ROUNDS = int(os.environ.get("MILLSTREAM_COMMS_ROUNDS", "0"))  # of kills and of init and destroy; 0 is the short form


def v_forms(session):
    h = local_handle(session)
    me, size = h.rank, h.size
    counts = [3 * r for r in range(size)]
    mine = np.full(counts[me], me, "f4")
    want = np.concatenate([np.full(n, r, "f4") for r, n in enumerate(counts)])
    got = [np.array_equal(h.allgatherv(mine, counts), want)]
    gathered = h.gatherv(mine, counts if me == 1 else None, root=1)
    got.append(np.array_equal(gathered, want) if me == 1 else gathered is None)
    out = np.empty(counts[me], "f4")
    h.scatterv(want if me == 2 else None, counts if me == 2 else None, out, root=2)
    got.append(np.array_equal(out, mine))
    sent = np.repeat(np.arange(size), me + 1)  # me + 1 elements for each rank
    received = h.alltoallv(sent, [me + 1] * size, [r + 1 for r in range(size)])
    got.append(received.tolist() == [me] * (size * (size + 1) // 2))
    # raft's device_multicast_sendrecv: every rank sends its part to all others
    x, y = np.array([me], "i8"), np.full(size, -1)
    h.multicast_sendrecv(x, [(r, 0, 1) for r in range(size) if r != me], y, [(r, r, 1) for r in range(size) if r != me], tag=7)
    got.append(all(y[r] == r for r in range(size) if r != me))
    a, b = np.empty(size, "i8"), np.full(2, me)
    with h.group():
        h.send(x, (me + 1) % size, tag=1)
        h.recv(a[:1], (me - 1) % size, tag=1)
    h.allreduce(b, out=b)
    got.append(a[0] == (me - 1) % size and b[0] == size * (size - 1) // 2)
    d = h.dup()
    first, second = h.iallreduce(np.array([1])), d.iallreduce(np.array([2]))
    got.append((int(second.wait()[0]), int(first.wait()[0])) == (2 * size, size))
    d.destroy()
    return got


async def awaited(session, dask_worker=None):
    """Run on the event loop of a worker: it must not block."""
    h = local_handle(session, dask_worker)
    x = np.full(1000, h.rank)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    total = await h.iallreduce(x)
    await h.ibarrier()
    parts = await asyncio.gather(h.irecv(x, (h.rank - 1) % h.size), h.isend(total, (h.rank + 1) % h.size))
    everything = await h.iallgather(x[:1])
    ticking.cancel()
    return int(total[0]), parts[0], everything.tolist(), ticks > 0


class Interface:
    """An array by one protocol only."""

    def __init__(self, array, protocol):
        self.array = array
        if protocol == "__array_interface__":
            self.__array_interface__ = array.__array_interface__
        if protocol == "__dlpack__":
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__
        if protocol == "__cuda_array_interface__":
            self.__cuda_array_interface__ = dict(array.__array_interface__, version=3)


def protocols(session):
    h, texts = local_handle(session), []
    x = np.arange(6, dtype="f8") + h.rank
    want = 6 * np.arange(6) // 6 * h.size + h.size * (h.size - 1) / 2
    for protocol in ("__array_interface__", "__dlpack__"):
        y = np.empty(6)
        h.allreduce(Interface(x, protocol), out=Interface(y, "__array_interface__"))
        texts.append(np.array_equal(y, want))
    one = h.rank == 1
    for argument in (Interface(x, "__cuda_array_interface__"), object()):
        try:
            h.allreduce(argument if one else x)
            texts.append("no error")
        except Exception as e:  # noqa: BLE001
            texts.append(f"{type(e).__name__}: {e}")
    h.barrier()
    return texts


def deadline(session):
    """Rank 2 does not call: the others get an error after their deadline that names it."""
    h = local_handle(session)
    try:
        h.barrier()  # it may fail on a slow rank: the deadline of a faster one ends the communicator
        if h.rank == 2:
            return None
        h.set_timeout(0.2)
        h.allreduce(np.ones(3))
    except Exception as e:  # noqa: BLE001
        return type(e).__name__, str(e)


COLLECTIVES = ["allreduce", "bcast", "allgather", "reducescatter", "alltoall", "barrier"]


def until_lost(session, dies, seed):
    """Rank `dies` is killed within random collectives; the others return their error and the time that it took."""
    h, choose = local_handle(session), random.Random(seed)
    h.barrier()
    last = choose.randrange(1, 20)
    before = time.monotonic()
    try:
        for i in range(10**9):
            if i == last and h.rank == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            name = choose.choice(COLLECTIVES)
            before = time.monotonic()
            getattr(h, name)(*() if name == "barrier" else (np.ones(4 * choose.choice([1, 1000, 100_000])),))
    except millstream.RankError as e:
        return e.rank, str(e), time.monotonic() - before
    return None


def kills(client, rounds):
    """Kill ranks whose nannies replace them."""
    comms, slowest = Comms(client), 0.0
    comms.init()
    for i in range(rounds):
        dies, dead = i % 4, comms.workers[i % 4]
        futures = [client.submit(until_lost, comms.session, dies, i, workers=[w], pure=False, retries=0) for w in comms.workers]
        for r in range(4):
            if r != dies:
                rank, text, took = futures[r].result()
                slowest = max(slowest, took)
                if rank != dies or dead not in text:
                    check(f"round {i}: error of rank {r}", (rank, text), None)
        futures[dies].cancel()
        comms.reform(replace=True, timeout=300)
        total = on_ranks(client, comms, lambda s: int(local_handle(s).allreduce(np.array([1]))[0]))
        if total != [4] * 4 or dead in comms.workers:
            check(f"round {i}: formed again", (total, comms.workers), None)
    check(f"{rounds} kills", True)
    print(f"slowest error {slowest:.3f} s", file=sys.stderr)
    comms.destroy()
    left = client.run(lambda: len(millstream.comms._opened) + len(millstream.comms._handles))
    check("nothing is left", list(left.values()), [0] * 4)


def many_rounds(client, n):
    """init and destroy in the same processes: memory, threads and descriptors."""
    def measure():
        rss = int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
        return (*resources(), rss)

    def one():
        with Comms(client) as c:
            on_ranks(client, c, lambda s: local_handle(s).barrier())

    for _ in range(20):
        one()
    before = client.run(measure)
    for _ in range(n):
        one()
    after = client.run(measure)
    print("descriptors, threads, MiB:", list(before.values()), list(after.values()), file=sys.stderr)
    check(f"{n} rounds", [a - b for w in before for a, b in zip(after[w], before[w])], lambda got: max(got) < n / 10)


def forms(client):
    client.wait_for_workers(4)
    with Comms(client) as c:
        check("V forms", on_ranks(client, c, v_forms), [[True] * 7] * 4)
        replies = client.run(awaited, c.session)
        check("awaited", [replies[w] for w in c.workers], [(6, 1000, [[6]] * 4, True)] * 4)
        by_rank = on_ranks(client, c, protocols)
        check("protocols", [r[:2] for r in by_rank], [[True, True]] * 4)
        for i, text in ((2, ""), (3, "want a numpy or CuPy array, got object")):
            check(f"on rank 1: {text}", by_rank[1][i], lambda got: got != "no error" and text in got)  # noqa: B023
            check(f"on the others: {text}", [by_rank[r][i] for r in (0, 2, 3)],
                  lambda got: all(g.startswith("MismatchError") and "rank 1" in g and text in g for g in got))  # noqa: B023
    with Comms(client) as c:
        late = on_ranks(client, c, deadline)
        check("deadline", [late[r] for r in (0, 1, 3)], lambda got: all("rank" in text for _, text in got))
        c.reform()
        check("formed again", on_ranks(client, c, lambda s: local_handle(s).size), [4] * 4)
    raises("never formed", ValueError, Comms(client).reform, "never formed")
    if ROUNDS:
        many_rounds(client, 10 * ROUNDS)


def replaced(client):
    client.wait_for_workers(4)
    kills(client, ROUNDS or 2)


if __name__ == "__main__":
    run({"forms": forms, "replaced": replaced}[sys.argv[2]])
