"""All-reduce of numpy arrays among Python processes, for `millstream bench allreduce`.

millstream|mpi4py RANKS SECONDS SIZE...: prints one line of JSON for each size from rank 0. mpirun starts the ranks of mpi4py;
rank 0 of Millstream starts the others and passes the contacts.
"""

import json
import os
import subprocess
import sys
import time
import uuid

import numpy as np


def measure(rank, ranks, seconds, sizes, allreduce, bcast, barrier, transport):
    def calls(x, y, k):
        barrier()
        begin = time.perf_counter()
        for _ in range(k):
            allreduce(x, y)
        return time.perf_counter() - begin

    for size in sizes:
        x = np.full(size // 4, rank + 1, np.float32)
        y = np.zeros_like(x)
        calls(x, y, 2)
        warm = calls(x, y, 5)
        k = np.array([max(int(5 * seconds / (warm + 1e-9)), 3)])
        bcast(k)
        k = int(k[0])
        took = calls(x, y, k)
        want = ranks * (ranks + 1) // 2
        assert y[0] == want and y[-1] == want, f"wrong result: {y[0]}, want {want}"
        if rank == 0:
            print(json.dumps({"size": size, "us": took / k * 1e6, "transport": transport}), flush=True)
    barrier()


def mpi4py(seconds, sizes):
    from mpi4py import MPI

    c = MPI.COMM_WORLD
    measure(c.rank, c.size, seconds, sizes, c.Allreduce, c.Bcast, c.Barrier, "")


def rank_of_millstream(session, number, ranks, seconds, sizes, exchange):
    from millstream import _rank

    opened = _rank.open(session, f"bench/{number}", "tcp://127.0.0.1:0", backend="comm", timeout=60)
    h = opened.join(exchange(opened.contact))
    measure(h.rank, ranks, seconds, sizes, lambda x, y: h.allreduce(x, out=y), h.bcast, h.barrier, h.backend)
    h.destroy()


def child(session, number, ranks, seconds, sizes):
    def exchange(contact):
        print(json.dumps(contact), flush=True)
        return json.loads(sys.stdin.readline())

    rank_of_millstream(session, number, ranks, seconds, sizes, exchange)


def millstream(ranks, seconds, sizes):
    session = uuid.uuid4().hex
    others = [
        subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, COLLBENCH_RANK=f"{session} {r}"), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        for r in range(1, ranks)
    ]

    def exchange(contact):
        contacts = [contact, *(json.loads(p.stdout.readline()) for p in others)]
        for p in others:
            p.stdin.write(json.dumps(contacts) + "\n")
            p.stdin.flush()
        return contacts

    try:
        rank_of_millstream(session, 0, ranks, seconds, sizes, exchange)
        return max([p.wait() for p in others], default=0)
    finally:
        for p in others:
            p.kill()


if __name__ == "__main__":
    ranks, seconds, sizes = int(sys.argv[2]), float(sys.argv[3]), [int(s) for s in sys.argv[4:]]
    if sys.argv[1] == "mpi4py":
        sys.exit(mpi4py(seconds, sizes))
    if "COLLBENCH_RANK" in os.environ:
        session, number = os.environ["COLLBENCH_RANK"].split()
        sys.exit(child(session, int(number), ranks, seconds, sizes))
    sys.exit(millstream(ranks, seconds, sizes))
