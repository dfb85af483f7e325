"""Communicators of Python workers (millstream.Comms): `short` or `everything`, which ends with the death of a worker."""

import functools
import os
import signal
import sys
import time
import warnings

import distributed
import millstream
import numpy as np
from checks import check, raises, run
from millstream import local_handle

Comms = functools.partial(millstream.Comms, timeout=300)  # the machine may be busy

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def on_ranks(client, comms, function, *args):
    """Run a function on the worker of each rank, and return the results in the order of ranks."""
    futures = [
        client.submit(function, comms.session, *args, workers=[w], allow_other_workers=False, pure=False) for w in comms.workers
    ]
    return client.gather(futures)


def part(rank, n, dtype):
    return (np.arange(n) % 7 + rank + 1).astype(dtype)


def matrix(session, dtypes, sizes):
    """Run every collective with every dtype and size, and return what is wrong."""
    h, wrong = local_handle(session), []
    me, size = h.rank, h.size

    def same(what, got, want):
        want = np.asarray(want)
        if got.dtype != want.dtype or got.shape != want.shape or not np.array_equal(got, want):
            wrong.append((what, str(got.dtype), got.size))

    for dtype in dtypes:
        for count in sizes:
            n = count if count < 1000 else count // np.dtype(dtype).itemsize
            root = (n + len(dtype)) % size
            parts = [part(r, n, dtype) for r in range(size)]
            mine, all_parts = parts[me], np.array(parts, dtype)
            same("allreduce", h.allreduce(mine), all_parts.sum(0, dtype))
            same("max", h.allreduce(mine, "max"), all_parts.max(0))
            twice = mine.copy()
            same("in place", h.allreduce(twice, "min", out=twice), all_parts.min(0))
            ones = np.full(n, 2 if me == 0 else 1, dtype)
            same("prod", h.allreduce(ones, op="prod"), np.full(n, 2, dtype))
            got = h.reduce(mine, root)
            if me == root:
                same("reduce", got, all_parts.sum(0, dtype))
            elif got is not None:
                wrong.append("reduce on other ranks")
            same("bcast", h.bcast(mine.copy(), root), parts[root])
            same("allgather", h.allgather(mine), all_parts)
            got = h.gather(mine, root)
            if me == root:
                same("gather", got, all_parts)
            same("scatter", h.scatter(all_parts if me == root else None, np.empty(n, dtype), root), mine)
            wide = np.concatenate([part(me + r, n, dtype) for r in range(size)])
            want = np.sum([part(r + me, n, dtype) for r in range(size)], axis=0, dtype=dtype)
            same("reducescatter", h.reducescatter(wide), want)
            same("alltoall", h.alltoall(wide), wide)
            out, tag = np.empty(n, dtype), (1 << 63) + n
            got = h.sendrecv(mine, (me + 1) % size, out, (me - 1) % size, tag)
            same("sendrecv", out, parts[(me - 1) % size])
            if got != n:
                wrong.append(("received", got, n))
    return wrong


def exchange(session, trials):
    """raft's send_recv protocol: every rank sends to and receives from every other."""
    h = local_handle(session)
    for trial in range(trials):
        got = [np.full(3, -1) for _ in range(h.size)]
        requests = [h.irecv(got[r], r, trial) for r in range(h.size) if r != h.rank]
        requests += [h.isend(np.full(3, h.rank * 10 + trial), r, trial) for r in range(h.size) if r != h.rank]
        millstream.waitall(requests, 300)
        if any(list(got[r]) != [r * 10 + trial] * 3 for r in range(h.size) if r != h.rank):
            return False
    return True


def ring(session, trials):
    h = local_handle(session)
    x, y = np.array([h.rank]), np.array([0])
    for _ in range(trials):
        h.sendrecv(x, (h.rank + 1) % h.size, y, (h.rank - 1) % h.size)
        x, y = y, x
    return int(x[0]) == (h.rank - trials) % h.size


def split(session):
    h = local_handle(session)
    sub = h.split(h.rank % 2, key=-h.rank)
    total = int(sub.allreduce(np.array([h.rank]))[0])
    result = (sub.rank, sub.size, total)
    sub.destroy()
    raised = False
    try:
        sub.barrier()
    except millstream.CommsError as e:
        raised = "destroyed" in str(e)
    alone = h.split(-1 if h.rank else 0)
    if alone is not None:
        alone.destroy()
    return (*result, raised, alone is None)


def bad(session):
    """Arguments that are wrong on rank 1 only: the exceptions of this rank."""
    h, texts = local_handle(session), []

    def attempt(call, *args, **kwargs):
        try:
            call(*args, **kwargs)
            texts.append("no error")
        except Exception as e:  # noqa: BLE001
            texts.append(f"{type(e).__name__}: {e}")

    x, one = np.arange(8.0), h.rank == 1
    attempt(h.allreduce, x[::2] if one else x[:4])
    attempt(h.allreduce, x.astype(complex) if one else x)
    attempt(h.allreduce, x.astype(">f8") if one else x)
    attempt(h.bcast, [1, 2] if one else np.array([1, 2]))
    attempt(h.allreduce, x, out=np.empty(3) if one else np.empty(8))
    attempt(h.allreduce, x, "median" if one else "sum")
    attempt(h.allreduce, x[:3] if one else x)
    attempt(h.allgather if one else h.allreduce, x)
    h.barrier()  # the communicator is usable
    if one:
        attempt(h.send, x[::2], 0)
        attempt(h.send, x, 0, tag=-1)
        attempt(h.send, x, 99)
    return texts


def check_bad(comms, client):
    by_rank = on_ranks(client, comms, bad)
    mine, other = by_rank[1], by_rank[0]
    for i, (kind, text) in enumerate([
        ("ValueError", "is not contiguous"), ("TypeError", "dtype <c16 is not supported"), ("TypeError", "dtype >f8 is not supported"),
        ("TypeError", "want a numpy or CuPy array, got list"), ("ValueError", "3 elements, want 8"), ("ValueError", "op 'median'"),
    ]):
        check(f"bad {text}: on the rank", mine[i], lambda got: got.startswith(kind) and text in got)  # noqa: B023
        check(f"bad {text}: on the others", other[i], lambda got: got.startswith("MismatchError") and "rank 1" in got and text in got)  # noqa: B023
    check("mismatch of sizes", [by_rank[r][6].startswith("MismatchError") for r in range(comms_size(comms))], lambda got: all(got))
    check("mismatch of calls", [by_rank[r][7].startswith("MismatchError") for r in range(comms_size(comms))], lambda got: all(got))
    check("bad messages", mine[8:], lambda got: "not contiguous" in got[0] and "tag -1" in got[1] and "no rank 99" in got[2])
    check("all others have the same", all(by_rank[r] == other for r in range(2, comms_size(comms))))


def comms_size(comms):
    return len(comms.workers)


def raft_cases(client):
    workers = sorted(client.ncores())
    # test_comms_init_no_p2p, test_handles, test_version
    comms = Comms(client)
    comms.init()
    check("workers", sorted(comms.workers), workers)
    check("worker_info", comms.worker_info(), {w: {"rank": i} for i, w in enumerate(comms.workers)})
    check("worker_info of some", comms.worker_info(comms.workers[1:2]), {comms.workers[1]: {"rank": 1}})
    check("order", comms.workers, workers)  # by host and address on one machine
    check("ranks", on_ranks(client, comms, lambda s: (local_handle(s).rank, local_handle(s).size)), [(i, 4) for i in range(4)])
    check("backend", on_ranks(client, comms, lambda s: local_handle(s).backend), ["shm+tcp"] * 4)
    check("names", on_ranks(client, comms, lambda s: local_handle(s).name(3)), [comms.workers[3]] * 4)
    check("release", on_ranks(client, comms, lambda s: millstream._library.load().release()), lambda got: all(got))
    # test_collectives, test_comm_split, test_send_recv_protocol, test_device_sendrecv, test_device_multicast_sendrecv
    check("collectives", on_ranks(client, comms, matrix, DTYPES, [0, 1, 17, 1 << 20]), [[]] * 4)
    for trials in (1, 5):
        check(f"send_recv {trials}", on_ranks(client, comms, exchange, trials), [True] * 4)
        check(f"sendrecv {trials}", on_ranks(client, comms, ring, trials), [True] * 4)
    check("comm_split", on_ranks(client, comms, split), [(1, 2, 2, True, False), (1, 2, 4, True, True), (0, 2, 2, True, True), (0, 2, 4, True, True)])
    check_bad(comms, client)
    session = comms.session
    comms.destroy()
    comms.destroy()
    unknown = client.submit(local_handle, session, workers=[workers[0]], pure=False)
    raises("destroyed", ValueError, unknown.result, f"has no communicator '{session}'")
    # test_comm_init_worker_subset
    for some in (workers[:3], workers[1:], workers[1:2]):
        with Comms(client, some) as c:
            check(f"subset of {len(some)}", sorted(on_ranks(client, c, lambda s: int(local_handle(s).allreduce(np.array([1]))[0]))), [len(some)] * len(some))
    # test_nccl_root_placement: there is no root; a task of a worker can form a communicator, too
    check("formed by a task", client.submit(form_in_task, workers[:2], workers=[workers[3]], pure=False).result(), [2, 2])


def form_in_task(workers):
    with distributed.worker_client() as client, Comms(client, workers) as c:
        futures = [client.submit(lambda s: int(local_handle(s).allreduce(np.array([1]))[0]), c.session, workers=[w], pure=False) for w in c.workers]
        return client.gather(futures)


def init_errors(client):
    workers = sorted(client.ncores())
    raises("unknown worker", ValueError, Comms(client, ["tcp://127.0.0.1:1"]).init, "no such workers: tcp://127.0.0.1:1")
    raises("unknown backend", ValueError, Comms(client, backend="pigeon").init, "pigeon")
    path = client.run(set_library, "/nowhere/libmillstream.so", workers=[workers[1]])[workers[1]]
    e = raises("library missing", millstream.LibraryError, Comms(client).init, "/nowhere/libmillstream.so")
    check("the worker is named", str(e), lambda got: workers[1] in got and workers[0] not in got)
    client.run(set_library, path, workers=[workers[1]])
    check("nothing is left", client.run(lambda: len(millstream.comms._opened)), dict.fromkeys(workers, 0))
    comms = Comms(client)
    comms.init()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        comms.init()
    check("second init warns", [str(w.message) for w in seen], lambda got: any("was called before" in text for text in got))
    comms.destroy()
    received = []
    signal.signal(signal.SIGUSR1, lambda n, _: received.append(n))
    millstream._library.load()
    signal.raise_signal(signal.SIGUSR1)
    check("signal handlers stay", received, [signal.SIGUSR1])


def set_library(path):
    old = os.environ["MILLSTREAM_LIBRARY"]
    os.environ["MILLSTREAM_LIBRARY"] = path
    return old


def resources():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def rounds(client, n):
    def one():
        with Comms(client) as c:
            on_ranks(client, c, lambda s: local_handle(s).barrier())

    for _ in range(3):
        one()
    before = client.run(resources)
    for _ in range(n):
        one()
    after = client.run(resources)
    # Dask's own connections and threads vary; a leak would be one or more for each round.
    for i, what in enumerate(["descriptors", "threads"]):
        check(f"{what} after {n} rounds", {w: after[w][i] - before[w][i] for w in before}, lambda got: all(d < n for d in got.values()))


def until_lost(session, dies):
    """Rank `dies` is killed; the others return their error."""
    h = local_handle(session)
    try:
        h.barrier()  # the rank may have ended before the others leave it
        if h.rank == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            h.allreduce(np.arange(1000.0))
    except millstream.RankError as e:
        return e.rank, str(e)


def killed(client):
    comms = Comms(client)
    comms.init()
    dead = comms.workers[2]
    futures = [client.submit(until_lost, comms.session, 2, workers=[w], pure=False) for w in comms.workers]
    for r in (0, 1, 3):
        check(f"rank {r} gets the error", futures[r].result(), lambda got: got[0] == 2 and f"rank 2 ({dead})" in got[1])
    futures[2].cancel()
    comms.destroy()
    limit = time.monotonic() + 300
    while dead in client.ncores() and time.monotonic() < limit:
        time.sleep(0.05)
    with Comms(client) as c:
        check("formed again", on_ranks(client, c, lambda s: local_handle(s).allgather(np.array([1])).shape), [(3, 1)] * 3)


def everything(client):
    client.wait_for_workers(4)
    raft_cases(client)
    init_errors(client)
    rounds(client, 20)
    killed(client)


def short(client):
    client.wait_for_workers(2)
    with Comms(client, deterministic=True) as c:
        check("collectives", on_ranks(client, c, matrix, ["int32", "float64"], [0, 17, 1 << 20]), [[]] * 2)
    e = raises("without init", ValueError, client.submit(local_handle, "nothing", pure=False).result, "has no communicator 'nothing'")
    check("the worker is named", str(e), lambda got: "tcp://" in got or "tls://" in got)


if __name__ == "__main__":
    run({"everything": everything, "short": short}[sys.argv[2]])
