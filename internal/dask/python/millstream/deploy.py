"""Clusters of distributed.deploy with a Millstream scheduler.

    from distributed import SpecCluster
    from millstream.deploy import LocalCluster, Scheduler

    LocalCluster(n_workers=4)
    SpecCluster(scheduler={"cls": Scheduler, "options": {"host": "127.0.0.1"}}, workers=…)

The scheduler is a child process, the program millstream on PATH or in MILLSTREAM_COMMAND.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from typing import Any

import distributed
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface

START_TIMEOUT = 60  # seconds until the scheduler listens
CLOSE_TIMEOUT = 60  # seconds for the end of a scheduler that was asked to close

# Options of distributed.Scheduler that have no meaning for a child process.
IGNORED = frozenset({"services", "service_kwargs", "loop", "allowed_failures", "dashboard_prefix", "http_prefix"})


class Scheduler(ProcessInterface):
    """A Millstream scheduler for SpecCluster and the clusters that are built on it, such as those of dask-jobqueue.

    Options are those of distributed.Scheduler. In addition: command is the program, python the interpreter for graphs of
    clients (default: this one), insecure allows connections from other hosts without encryption, and args are further
    flags of millstream scheduler. An unknown option raises a TypeError.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int = 0,
        protocol: str | None = None,
        interface: str | None = None,
        dashboard: bool = True,
        dashboard_address: str | int | None = None,
        contact_address: str | None = None,
        security: Any = None,
        idle_timeout: Any = None,
        blocked_handlers: Any = None,
        preload: Any = None,
        preload_argv: Any = None,
        command: str | None = None,
        python: str | None = None,
        insecure: bool = False,
        args: Any = (),
        **options: Any,
    ) -> None:
        super().__init__()
        unknown = sorted(name for name, value in options.items() if value and name not in IGNORED)
        if unknown:
            raise TypeError(f"millstream.deploy.Scheduler: options not supported: {', '.join(unknown)}")
        self.command = command or os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
        if not self.command:
            raise FileNotFoundError("millstream.deploy.Scheduler: no program millstream on PATH; set command or MILLSTREAM_COMMAND")
        flags = ["scheduler", "--port", str(port or 0), "--python", python or sys.executable]
        for name, value in (
            ("--host", host), ("--protocol", (protocol or "").removesuffix("://")), ("--interface", interface),
            ("--contact-address", contact_address), ("--idle-timeout", idle_timeout),
        ):  # fmt: skip
            if value:
                flags += [name, str(value)]
        if not dashboard:
            flags.append("--no-dashboard")
        elif dashboard_address is not None:
            flags += ["--dashboard-address", f":{dashboard_address}" if isinstance(dashboard_address, int) else str(dashboard_address)]
        for name in [preload] if isinstance(preload, str) else preload or ():
            flags += ["--preload", name]
        for text in preload_argv or ():
            flags.append(f"--preload-argv={text}")
        if insecure:
            flags.append("--insecure")
        self.flags = [*flags, *map(str, args)]
        self.env = {**os.environ, **environment(security, blocked_handlers)}
        self.process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            self.command, *self.flags, env=self.env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        try:
            self.address = await asyncio.wait_for(self._listening(), START_TIMEOUT)
        except BaseException:
            await self._end()
            raise
        self._output = asyncio.create_task(self._drain())
        await super().start()

    async def _listening(self) -> str:
        """Read the address that the scheduler prints."""
        assert self.process is not None and self.process.stdout is not None
        while line := await self.process.stdout.readline():
            text = line.decode(errors="replace").strip()
            if text.startswith("scheduler at "):
                return text.removeprefix("scheduler at ")
        raise RuntimeError(f"millstream.deploy.Scheduler: {self.command} scheduler ended with code {await self.process.wait()}; its log has the cause")

    async def _drain(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        while line := await self.process.stdout.readline():
            sys.stderr.write(line.decode(errors="replace"))

    async def close(self) -> None:
        if self.status != Status.closed:
            await self._end()
        await super().close()

    async def _end(self) -> None:
        """Wait for the end of the process, which a cluster has asked to terminate; then end it."""
        process = self.process
        if process is None:
            return
        for signal in (lambda: None if self.status == Status.running else process.terminate(), process.terminate, process.kill):
            if process.returncode is None:
                try:
                    signal()
                except ProcessLookupError:
                    pass
                try:
                    await asyncio.wait_for(process.wait(), CLOSE_TIMEOUT)
                except asyncio.TimeoutError:
                    continue
            break
        if self._output is not None:
            await self._output

    def __repr__(self) -> str:
        return f"<millstream.deploy.Scheduler {self.address!r}, status: {self.status.name}>"


def environment(security: Any, blocked_handlers: Any) -> dict[str, str]:
    """Return the settings of a scheduler that have no flags, as configuration variables of Dask."""
    env = {}
    if blocked_handlers:
        env["DASK_DISTRIBUTED__SCHEDULER__BLOCKED_HANDLERS"] = json.dumps(list(blocked_handlers))
    if security is not None and getattr(security, "require_encryption", False):
        tls = security.get_tls_config_for_role("scheduler")
        names = {"ca_file": "CA_FILE", "cert": "SCHEDULER__CERT", "key": "SCHEDULER__KEY"}
        env.update({f"DASK_DISTRIBUTED__COMM__TLS__{names[k]}": str(v) for k, v in tls.items() if k in names and v})
        env["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "True"
    return env


class LocalCluster(distributed.LocalCluster):
    """distributed.LocalCluster with a Millstream scheduler. Further options of Scheduler are scheduler_kwargs."""

    def __init__(self, *args: Any, scheduler_class: Any = Scheduler, **kwargs: Any) -> None:
        self.scheduler_class = scheduler_class
        if not kwargs.get("processes", True):
            kwargs.setdefault("protocol", "tcp://")  # the scheduler is another process
        super().__init__(*args, **kwargs)

    async def _start(self) -> None:
        self.scheduler_spec = {**self.scheduler_spec, "cls": self.scheduler_class}
        await super()._start()
