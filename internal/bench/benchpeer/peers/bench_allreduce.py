"""All-reduce of Gloo, through torch, for `millstream bench allreduce`.

RANKS SECONDS SIZE...: starts the other ranks and prints one line of JSON for each size from rank 0.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def main(rank, ranks, store, seconds, sizes):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)

    def calls(x, k):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(k):
            dist.all_reduce(x)
        return time.perf_counter() - begin

    for size in sizes:
        x = torch.full((size // 4,), float(rank + 1))
        dist.all_reduce(x)
        want = float(ranks * (ranks + 1) // 2)
        assert x[0] == want and x[-1] == want, f"wrong result: {x[0]}, want {want}"
        x.zero_()  # reset: the reduction is in place, and values would grow
        calls(x, 2)
        warm = calls(x, 5)
        k = torch.tensor([max(int(5 * seconds / (warm + 1e-9)), 3)])
        dist.broadcast(k, 0)
        k = int(k)
        took = calls(x, k)
        if rank == 0:
            print(json.dumps({"size": size, "us": took / k * 1e6}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, seconds, sizes = int(sys.argv[1]), float(sys.argv[2]), [int(s) for s in sys.argv[3:]]
    if "COLLBENCH_RANK" in os.environ:
        main(int(os.environ["COLLBENCH_RANK"]), ranks, os.environ["COLLBENCH_STORE"], seconds, sizes)
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, COLLBENCH_STORE=os.path.join(folder, "store"))
        others = [
            subprocess.Popen([sys.executable, *sys.argv], env=dict(env, COLLBENCH_RANK=str(r))) for r in range(1, ranks)
        ]
        try:
            main(0, ranks, env["COLLBENCH_STORE"], seconds, sizes)
            codes = [p.wait() for p in others]
        finally:
            for p in others:
                p.kill()
        sys.exit(max(codes, default=0))
