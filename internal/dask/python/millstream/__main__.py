"""Runs a Dask program on a cluster of this machine: python -m millstream PROGRAM.py [ARGUMENTS].

The program is not changed: Client() connects to DASK_SCHEDULER_ADDRESS, which names a Millstream scheduler with one
worker process for every four processors. Both end with the program.
"""

import contextlib
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

START_TIMEOUT = 60.0  # seconds until the scheduler must have written its address


def executable():
    """Returns the path of the millstream command: next to this interpreter, or on PATH."""
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        found = shutil.which("millstream", path=folder)
        if found:
            return found
    found = shutil.which("millstream")
    if not found:
        raise FileNotFoundError("millstream: no millstream command in this environment or on PATH; "
                                "install the wheel with the program, or build it with make build")
    return found


def _address(file, process):
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return json.loads(file.read_text(encoding="utf-8"))["address"]
        time.sleep(0.01)
    raise RuntimeError(f"millstream: the scheduler did not start (exit code {process.poll()}); read its messages above")


def _stop(process):
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster():
    """Starts a scheduler and workers, yields the address of the scheduler, and stops them."""
    command = executable()
    environment = {**os.environ, "MILLSTREAM_PYTHON": os.environ.get("MILLSTREAM_PYTHON") or sys.executable}
    with tempfile.TemporaryDirectory(prefix="millstream-") as folder, contextlib.ExitStack() as stack:
        file = pathlib.Path(folder) / "scheduler.json"

        def start(*arguments):
            process = subprocess.Popen([command, *arguments, "--log-level", "warning"], env=environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            stack.callback(_stop, process)
            return process

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0",
                          "--scheduler-file", str(file))
        address = _address(file, scheduler)
        start("worker", address, "--host", "127.0.0.1", "--nworkers", str(max(1, (os.cpu_count() or 1) // 4)))
        yield address


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m millstream PROGRAM.py [ARGUMENTS]\n\n" + __doc__.split("\n\n", 1)[1].strip())
    program = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    with cluster() as address:
        os.environ["DASK_SCHEDULER_ADDRESS"] = address
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
