"""One shard of the suite: a process with its own cluster and client that reads units of work from standard input, a
JSON line each, and replies "done" after each."""

import json
import os
import sys
import threading
import traceback

import suite_patch
import suite_plugin
from suite_cluster import Cluster

RENEW = 60  # seconds that a client may take to reply before its cluster is replaced


class Shard:
    """The cluster and the client of this process."""

    def __init__(self, settings):
        self.settings = settings
        self.cluster = self.client = None
        self.generation = 0

    def open(self):
        from distributed import Client

        s = self.settings
        self.generation += 1
        folder = os.path.join(s["folder"], f"cluster-{self.generation}")
        self.cluster = Cluster(s["mode"], s["millstream"], folder, s["python"], s["workers"], s["threads"])
        self.client = Client(self.cluster.address, timeout=60)
        self.client.wait_for_workers(s["workers"], timeout=60)

    def close(self):
        client, cluster, self.client, self.cluster = self.client, self.cluster, None, None
        if client is not None:
            within(10, client.close)
        if cluster is not None:
            cluster.close()

    def renew(self):
        """Replace the cluster after a test that broke it."""
        if self.client is None:
            return
        self.close()
        self.open()

    def before(self):
        if self.client is None:
            return None
        ok, count = within(RENEW, lambda: self.cluster.count(self.client))
        if not ok:
            self.renew()
            count = self.cluster.count(self.client)
        return count

    def after(self, before):
        """Return the number of tasks since the last call, and whether the cluster is unchanged."""
        if before is None:
            return 0, True
        import dask
        from distributed import default_client

        ok, tasks = within(RENEW, lambda: self.cluster.count(self.client) - before)
        if not ok:
            return 0, False
        try:
            same = default_client() is self.client
        except ValueError:
            same = False
        healthy = same and self.client.status == "running" and self.cluster.alive() and dask.config.get("scheduler", None) == "dask.distributed"
        if healthy and len(self.client.scheduler_info()["workers"]) < self.settings["workers"]:
            within(10, lambda: self.client.wait_for_workers(self.settings["workers"], timeout=8))
            healthy = len(self.client.scheduler_info()["workers"]) >= self.settings["workers"]
        return tasks, healthy


def within(seconds, function):
    """Return (True, result) of a function that returns in time, else (False, None)."""
    box = []

    def call():
        try:
            box.append(function())
        except BaseException:  # noqa: BLE001
            traceback.print_exc()

    t = threading.Thread(target=call, daemon=True)
    t.start()
    t.join(seconds)
    return (True, box[0]) if box else (False, None)


def main():
    settings = json.loads(sys.argv[1])
    os.environ["SUITE_MILLSTREAM"] = settings["millstream"]
    os.environ["SUITE_PYTHON"] = settings["python"]
    os.environ["SUITE_LOGS"] = settings["folder"]
    os.environ["SUITE_TEMP"] = settings["folder"]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of tests must not be taken for a reply
    suite_patch.patch_assert_eq()
    suite_patch.hide_runner()
    suite_patch.patch_cluster(settings["mode"] != "dask")
    recorder = suite_plugin.Recorder(settings["results"])
    shard = Shard(settings)
    try:
        for line in sys.stdin:
            unit = json.loads(line)
            if unit["client"] and shard.client is None:
                shard.open()
            elif not unit["client"] and shard.client is not None:
                shard.close()
            suite_plugin.run(
                unit["file"], set(unit["ids"]), shard, recorder, settings["ini"], settings["root"], settings["timeout"], settings["slow"]
            )
            print("done", file=answers, flush=True)
    finally:
        shard.close()


if __name__ == "__main__":
    main()
