"""The commands dask-scheduler and dask-worker, run by Millstream: pip install millstream[dask-names]."""

import os
import shutil
import sys
import sysconfig


def _run(command):
    program = shutil.which("millstream", path=sysconfig.get_path("scripts")) or shutil.which("millstream")
    if program is None:
        sys.exit("millstream_dask_names: no millstream command in this environment or on PATH; pip install millstream")
    os.environ.setdefault("MILLSTREAM_PYTHON", sys.executable)
    os.execv(program, [program, command, *sys.argv[1:]])


def scheduler():
    _run("scheduler")


def worker():
    _run("worker")
