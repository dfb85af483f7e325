"""Cluster managers of distributed.deploy with an external scheduler, as in cloud and job-queue clusters."""

import sys

import distributed
from checks import check, until
from distributed.core import Status, rpc
from distributed.deploy.spec import ProcessInterface, SpecCluster


class Remote(ProcessInterface):
    """The scheduler with a known address; it is closed over the network."""

    def __init__(self, address, **kwargs):
        super().__init__()
        self.given = address

    async def start(self):
        self.address = self.given
        await super().start()

    async def close(self):
        if self.status != Status.closed:
            async with rpc(self.given) as scheduler:
                await scheduler.terminate()
        await super().close()


def main(address):
    worker = {"cls": distributed.Worker, "options": {"nthreads": 1, "dashboard": False}}
    with SpecCluster(scheduler={"cls": Remote, "options": {"address": address}}, worker=worker, workers={}, name="spec") as cluster:
        with distributed.Client(cluster) as client:
            def known():
                return set(cluster.scheduler_info["workers"])

            cluster.scale(2)
            client.wait_for_workers(2, timeout=60)
            until("two workers are visible", lambda: len(known()) == 2)
            check("they compute", client.gather(client.map(lambda x: x + 1, range(10))), list(range(1, 11)))
            seen = list(cluster.scheduler_info["workers"].values())
            check("information about them", [(w["nthreads"], w["type"]) for w in seen], [(1, "Worker")] * 2)
            check("the watcher has no error", cluster._watch_worker_status_task.done(), False)
            cluster.scale(1)
            until("one has left", lambda: len(known()) == 1)
            check("the other has the work", client.submit(lambda: 7).result(60), 7)
            cluster.adapt(minimum=0, maximum=2, interval="100ms", wait_count=2)
            futures = client.map(lambda x: x * 2, range(20))
            check("adaptive results", client.gather(futures), [2 * x for x in range(20)])
            del futures
            until("adapts down to none", lambda: len(known()) == 0)
            check("adapts up again", client.submit(lambda: 8).result(60), 8)
            check("the watcher still has no error", cluster._watch_worker_status_task.done(), False)
            check("repr", "spec" in repr(cluster))
            cluster._repr_html_()
    check("closed without an error", cluster.status, Status.closed)


if __name__ == "__main__":
    main(sys.argv[1])
