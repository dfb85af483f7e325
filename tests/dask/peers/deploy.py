"""millstream.deploy: clusters of distributed.deploy that start a Millstream scheduler. Arguments: modules, command, certificates."""

import os
import sys

import distributed
from checks import check, raises, until
from distributed.core import Status
from distributed.deploy.spec import SpecCluster


def main(modules, command, certs):
    sys.path.insert(0, modules)
    os.environ["MILLSTREAM_COMMAND"] = command
    from millstream import deploy

    spec(deploy)
    local(deploy)
    tls(deploy, certs)
    failures(deploy)


def spec(deploy):
    worker = {"cls": distributed.Worker, "options": {"nthreads": 1, "dashboard": False}}
    scheduler = {"cls": deploy.Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}}
    with SpecCluster(scheduler=scheduler, worker=worker, workers={}, name="spec") as cluster:
        with distributed.Client(cluster) as client:
            check("a Millstream scheduler", "millstream" in client.sync(client.scheduler.identity))
            cluster.scale(2)
            client.wait_for_workers(2, timeout=60)
            check("results", client.gather(client.map(lambda x: x + 1, range(10))), list(range(1, 11)))
            until("workers", lambda: len(cluster.scheduler_info["workers"]) == 2)
            check("status", cluster.scheduler.status, Status.running)
        process = cluster.scheduler.process
    check("closed", (cluster.status, cluster.scheduler.status), (Status.closed, Status.closed))
    check("exit code", process.returncode, 0)


def local(deploy):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "host": "127.0.0.1", "dashboard_address": None}
    with deploy.LocalCluster(**options, scheduler_kwargs={"blocked_handlers": ["benchmark_hardware"]}) as cluster:
        with distributed.Client(cluster) as client:
            check("LocalCluster", client.submit(sum, [1, 2, 3]).result(60), 6)
            check("class of the scheduler", type(cluster.scheduler), deploy.Scheduler)
            raises("blocked handler", ValueError, lambda: client.sync(client.scheduler.benchmark_hardware), "explicitly disallowed")
    with deploy.LocalCluster(**options, scheduler_class=distributed.Scheduler) as cluster:
        check("another class", type(cluster.scheduler), distributed.Scheduler)


def tls(deploy, certs):
    files = {f"tls_{role}_{part}": f"{certs}/{role}-{part}.pem" for role in ("scheduler", "worker", "client") for part in ("cert", "key")}
    security = distributed.Security(tls_ca_file=f"{certs}/ca.pem", require_encryption=True, **files)
    options = {"n_workers": 1, "processes": False, "host": "tls://127.0.0.1", "protocol": "tls://", "dashboard_address": None}
    with deploy.LocalCluster(**options, security=security) as cluster:
        with distributed.Client(cluster, security=security) as client:
            check("encrypted", (cluster.scheduler.address[:6], client.submit(lambda: 1).result(60)), ("tls://", 1))


def failures(deploy):
    raises("unknown option", TypeError, lambda: deploy.Scheduler(command="millstream", color="red"), "color")
    del os.environ["MILLSTREAM_COMMAND"]
    path, os.environ["PATH"] = os.environ["PATH"], "/nonexistent"
    raises("no program", FileNotFoundError, deploy.Scheduler, "MILLSTREAM_COMMAND")
    os.environ["PATH"] = path

    def start():
        scheduler = {"cls": deploy.Scheduler, "options": {"command": "/bin/false"}}
        SpecCluster(scheduler=scheduler, worker=None, workers={})

    raises("a program that ends", RuntimeError, start, "ended with code 1")


if __name__ == "__main__":
    main(*sys.argv[2:])
