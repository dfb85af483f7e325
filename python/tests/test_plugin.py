"""The scheduler plugin on a Dask scheduler in this process, with workers that only claim to be Go workers."""

import time
import unittest

import millstream
from distributed import Client, Event, LocalCluster, wait
from millstream.plugin import NO_GO_WORKER, GoPlugin


class Place(unittest.TestCase):
    def setUp(self):
        self.cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
        )
        self.client = Client(self.cluster)
        self.addCleanup(self.cluster.close)
        self.addCleanup(self.client.close)
        self.address = next(iter(self.cluster.workers.values())).address

    @property
    def scheduler(self):
        return self.cluster.scheduler

    def pretend(self, own):
        """Mark the worker as a Go worker for the plugin: a task that is sent to it still runs in Python."""
        self.scheduler.workers[self.address].extra["millstream"] = own

    def until(self, true):
        limit = time.monotonic() + 60
        while not true():
            self.assertLess(time.monotonic(), limit, "condition not met in time")
            time.sleep(0.01)

    def waits(self, future):
        """Return the state of a task without a worker."""
        self.until(lambda: getattr(self.scheduler.tasks.get(future.key), "state", None) == "no-worker")
        return self.scheduler.tasks[future.key]

    def test_python_stays_off(self):
        self.pretend({"functions": ["f"], "python": False})
        done = millstream.install(self.client)
        self.assertEqual((done.changed, done.without_python, done.functions), (True, (self.address,), ("f",)))
        self.assertFalse(millstream.install(self.client).changed)
        future = self.client.submit(max, 1, 2)
        self.waits(future)
        self.cluster.scale(2)  # a Python worker
        self.assertEqual(future.result(timeout=60), 2)
        self.assertNotIn(self.address, self.client.who_has(future)[future.key])

    def test_go_goes_to_go(self):
        self.pretend({"functions": ["f"], "python": True})
        millstream.install(self.client)
        f, g = self.client.submit(millstream.go("f"), 1), self.client.submit(millstream.go("g"), 1)
        wait(f)  # the stub ran in Python, which raises
        self.assertRegex(str(f.exception()), "Millstream worker")
        self.assertEqual(self.waits(g).worker_restrictions, {NO_GO_WORKER})
        self.assertEqual(self.client.submit(max, 1, 2).result(), 2)
        self.assertFalse(self.scheduler.tasks[f.key].worker_restrictions - {self.address})

    def test_first_without_python_comes_late(self):
        millstream.install(self.client)
        event = Event("go on")
        slow = self.client.map(lambda i, e: e.wait(), range(50), e=event, pure=False)
        self.until(lambda: self.scheduler.queued)
        self.pretend({"functions": [], "python": False})
        self.client.run_on_scheduler(reregister)
        self.assertFalse(self.scheduler.queued)
        self.scheduler.workers[self.address].extra.clear()
        event.set()
        for s in slow:
            s.cancel()

    def test_nothing_to_do(self):
        plugin = GoPlugin()
        plugin.scheduler = self.scheduler
        self.assertFalse(plugin.without_python)
        plugin.remove_worker(self.scheduler, "tcp://127.0.0.1:1")


def reregister(dask_scheduler):
    scheduler = dask_scheduler
    [address] = list(scheduler.workers)
    plugin = scheduler.plugins["millstream"]
    plugin.remove_worker(scheduler, address)
    plugin.add_worker(scheduler, address)


if __name__ == "__main__":
    unittest.main()
