"""SLURMCluster of dask-jobqueue with a Millstream scheduler and a queue of this machine. Arguments: command, folder."""

import glob
import os
import sys

from checks import check, until

SBATCH = """#!/bin/sh
for script; do :; done
cp "$script" {folder}/job.$$.sh
setsid sh {folder}/job.$$.sh >{folder}/job.$$.log 2>&1 </dev/null &
echo $! >{folder}/job.$$.pid
echo "Submitted batch job $$"
"""
SCANCEL = """#!/bin/sh
for job; do kill -- -$(cat {folder}/job.$job.pid); done
"""


def main(command, folder):
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write(text.format(folder=folder))
        os.chmod(path, 0o755)
    os.environ["PATH"] = folder + ":" + os.environ["PATH"]
    os.environ["MILLSTREAM_COMMAND"] = command
    from dask_jobqueue import SLURMCluster
    from distributed import Client
    from millstream.deploy import Scheduler

    options = {
        "cores": 1, "memory": "1GB", "processes": 1, "scheduler_cls": Scheduler, "worker_extra_args": ["--host", "127.0.0.1"],
        "scheduler_options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}, "local_directory": folder,
    }  # fmt: skip
    with SLURMCluster(**options) as cluster, Client(cluster) as client:
        check("a Millstream scheduler", "millstream" in client.sync(client.scheduler.identity))
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        check("results", client.gather(client.map(lambda x: x + 1, range(10))), list(range(1, 11)))
        cluster.scale(jobs=1)
        until("one job less", lambda: len(client.scheduler_info()["workers"]) == 1, 120)
        check("results again", client.submit(sum, [1, 2, 3]).result(120), 6)
        cluster.adapt(minimum_jobs=0, maximum_jobs=2, interval="100ms", wait_count=1)
        until("no job without tasks", lambda: not client.scheduler_info()["workers"], 120)
        check("a job for a task", client.submit(lambda: 1).result(120), 1)
        process = cluster.scheduler.process
    check("exit code of the scheduler", process.returncode, 0)
    pids = [int(open(os.path.join(folder, f)).read()) for f in os.listdir(folder) if f.endswith(".pid")]
    check("jobs", len(pids), lambda n: n >= 3)
    until("all jobs have ended", lambda: not any(running(pid) for pid in pids), 120)


def running(group):
    """Return whether a process group has a process that has not ended."""
    for name in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(name) as f:
                state, _, pgrp = f.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in "ZX":
            return True
    return False


if __name__ == "__main__":
    main(*sys.argv[2:])
