"""Starts the cluster of a shard of the suite, on the loopback interface.

Modes:
    dask         Dask scheduler, Dask workers
    ours-python  Millstream scheduler, Dask workers
    ours-go      Millstream scheduler, Millstream workers that run Python in sidecars
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

MODES = ("dask", "ours-python", "ours-go")
START = 90  # seconds until a process must be ready


def die_with_parent():
    """Make the kernel end this child when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Process:
    """A process whose output is written to a file and searched for a line that reports that it is ready."""

    def __init__(self, name, args, log, ready, env=None):
        self.name = name
        self.log = open(log, "ab")  # noqa: SIM115
        self.found = None
        self._ready = threading.Event()
        self._pattern = re.compile(ready)
        self.popen = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, preexec_fn=die_with_parent
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.popen.stdout:
            self.log.write(line)
            self.log.flush()
            m = self._pattern.search(line.decode(errors="replace"))
            if m and not self._ready.is_set():
                self.found = m.group(1)
                self._ready.set()
        self._ready.set()

    def wait(self):
        if not self._ready.wait(START) or self.found is None:
            self.end()
            raise RuntimeError(f"{self.name} did not start; its log is {self.log.name}")
        return self.found

    def cpu(self):
        """Return the CPU seconds of the process and its live children."""
        import psutil

        total = 0.0
        me = psutil.Process(self.popen.pid)
        for p in [me, *me.children(recursive=True)]:
            try:
                t = p.cpu_times()
                total += t.user + t.system
            except psutil.Error:
                pass
        return total

    def end(self):
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.log.close()


def scheduler_args(ours, millstream, python):
    if ours:
        return [millstream, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--python", python]
    return [
        python, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--no-show",
    ]


def worker_args(go, address, millstream, python, threads):
    if go:
        return [
            millstream, "worker", address, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--nthreads", str(threads),
            "--no-nanny", "--memory-limit", "0", "--data-connections", "none", "--python", python,
        ]
    return [
        python, "-m", "distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--nthreads",
        str(threads), "--no-nanny", "--memory-limit", "0",
    ]


class Cluster:
    """A scheduler and its workers. Processes that end are not restarted: the shard creates a new cluster."""

    def __init__(self, mode, millstream, folder, python=sys.executable, workers=2, threads=2, env=None):
        if mode not in MODES:
            raise ValueError(f"mode {mode}: want one of {', '.join(MODES)}")
        self.mode = mode
        self.ours = mode != "dask"
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1", "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false", **(env or {})}
        os.makedirs(folder, exist_ok=True)
        self.processes = []
        try:
            self.address, self.http = self._scheduler(millstream, python, folder)
            for i in range(workers):
                args = worker_args(mode == "ours-go", self.address, millstream, python, threads)
                ready = r"worker .*at (\S+) pid" if mode == "ours-go" else r"Registered to:\s*(\S+)"
                self.processes.append(Process(f"worker {i}", args, os.path.join(folder, f"worker-{i}.log"), ready, self.env))
            for p in self.processes[1:]:
                p.wait()
        except BaseException:
            self.close()
            raise

    def _scheduler(self, millstream, python, folder):
        log = os.path.join(folder, "scheduler.log")
        ready = r"dashboard at http://(\S+?)/?\s*$" if self.ours else r"dashboard at:\s*http://(\S+?)/status"
        p = Process("scheduler", scheduler_args(self.ours, millstream, python), log, ready, self.env)
        self.processes.append(p)
        http = p.wait()
        with open(log, encoding="utf-8", errors="replace") as f:
            address = re.findall(r"[Ss]cheduler at:?\s*(tcp://\S+)", f.read())[-1]
        return address, http

    def alive(self):
        return all(p.popen.poll() is None for p in self.processes)

    def count(self, client):
        """Return the number of finished tasks or transitions of the scheduler: an increase shows that it was used."""
        if self.ours:
            with urllib.request.urlopen(f"http://{self.http}/millstream/tasks?since=0&count=1", timeout=30) as r:
                return json.load(r)["next"]
        return client.run_on_scheduler(_transitions)

    def close(self):
        for p in reversed(self.processes):
            p.end()


def _transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def wait_until(what, seconds=60):
    limit = time.monotonic() + seconds
    while not what():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True
