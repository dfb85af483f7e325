"""Plugins, functions and files for the nanny of one worker, which is Dask's or Go's."""

import os
import sys
import zipfile

from checks import check, raises, run
from distributed.diagnostics.plugin import NannyPlugin, PipInstall, UploadDirectory


class Mark(NannyPlugin):
    name = "mark"

    def setup(self, nanny):
        nanny.marked = nanny.worker_address
        nanny.env["MARK"] = "set"

    def teardown(self, nanny):
        del nanny.marked


class Failing(NannyPlugin):
    name = "failing"

    def setup(self, nanny):
        raise ValueError("cannot be set up")


def values(replies):
    return list(replies.values())


def main(client):
    folder = sys.argv[2]
    [worker] = client.scheduler_info()["workers"]
    nanny = client.scheduler_info()["workers"][worker]["nanny"]
    pid = values(client.run(os.getpid))[0]

    def describe(dask_worker):
        n = dask_worker
        import distributed

        return {
            "nanny": isinstance(n, distributed.Nanny), "address": n.address, "worker": n.worker_address, "name": n.name,
            "threads": n.nthreads, "status": n.status.name, "alive": n.is_alive(), "preloaded": n.preloaded,
            "scheduler": n.scheduler.address, "ip": n.ip, "plugins": sorted(n.plugins),
        }  # fmt: skip

    check("run(nanny=True)", values(client.run(describe, nanny=True))[0], {
        "nanny": True, "address": nanny, "worker": worker, "name": "w", "threads": 1, "status": "running", "alive": True,
        "preloaded": 7, "scheduler": client.scheduler.address, "ip": "127.0.0.1", "plugins": [],
    })  # fmt: skip

    async def coroutine(x, dask_worker):
        return x + (await dask_worker.scheduler.identity())["type"]

    check("a coroutine", values(client.run(coroutine, "of ", nanny=True)), ["of Scheduler"])
    raises("an exception", ZeroDivisionError, lambda: client.run(lambda: 1 / 0, nanny=True))
    check("variables of the preload", values(client.run(lambda: [os.environ.get(k) for k in ("FROM_PRELOAD", "FROM_ENVIRON")])), [["7", "yes"]])

    check("register_plugin", [r["status"] for r in values(client.register_plugin(Mark()))], ["OK"])
    check("setup", values(client.run(lambda dask_worker: dask_worker.marked, nanny=True)), [worker])
    check("no restart", values(client.run(os.getpid)), [pid])
    raises("a failing plugin", ValueError, lambda: client.register_plugin(Failing()), "cannot be set up")
    client.unregister_worker_plugin("mark", nanny=True)
    check("teardown", values(client.run(lambda dask_worker: hasattr(dask_worker, "marked"), nanny=True)), [False])

    source = os.path.join(folder, "uploaded_source")
    os.makedirs(os.path.join(source, "of_directory"))
    with open(os.path.join(source, "of_directory", "__init__.py"), "w") as f:
        f.write("x = 123\n")
    client.register_plugin(UploadDirectory(source, update_path=True))
    target = os.path.join(folder, "target")
    options = ["--no-index", "--no-deps", "--target", target]
    client.register_plugin(PipInstall([write_wheel(folder)], pip_options=options, restart_workers=True))
    check("PipInstall", sorted(n for n in os.listdir(target) if n.startswith("of_")), ["of_wheel-1.0.dist-info", "of_wheel.py"])
    client.wait_for_workers(1)
    check("restart", pid not in values(client.run(os.getpid)))
    check("variable of a plugin", values(client.run(lambda: os.environ.get("MARK"))), ["set"])
    check("UploadDirectory", values(client.run(lambda: __import__("of_directory").x)), [123])
    check("in tasks", client.submit(lambda: __import__("of_directory").x).result(60), 123)
    check("logs", [len(r) > 0 for r in values(client.get_worker_logs(nanny=True))], [True])
    client.shutdown()


def write_wheel(folder):
    name = os.path.join(folder, "of_wheel-1.0-py3-none-any.whl")
    with zipfile.ZipFile(name, "w") as z:
        z.writestr("of_wheel.py", "y = 5\n")
        z.writestr("of_wheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: of_wheel\nVersion: 1.0\n")
        z.writestr("of_wheel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("of_wheel-1.0.dist-info/RECORD", "")
    return name


if __name__ == "__main__":
    run(main)
