"""Communicators among the Python workers of a Dask cluster, in the form of raft-dask's Comms.

::

    from millstream import Comms, local_handle

    def total(session, part):
        handle = local_handle(session)
        return handle.allreduce(part)                   # a numpy array

    with Comms(client) as comms:                        # all workers, each of which needs this package and libmillstream.so
        futures = [client.submit(total, comms.session, part, workers=[w]) for w, part in zip(comms.workers, parts)]
        client.gather(futures)

The scheduler of the cluster may be that of Dask or of Millstream.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from . import _rank
from ._library import CommsError, LibraryError
from .handle import Handle
from .request import in_thread


class Comms:
    """A communicator of workers of a running cluster: `init` forms it, tasks use :func:`local_handle`, `destroy` ends it.

    `client` is a `distributed.Client` (default: the current one); with an asynchronous one, await `init`, `reform` and
    `destroy`.
    `workers` are addresses (default: all workers of the cluster). `backend` is "comm" for connections like those of the
    workers, "ucx", "nccl" for NCCL on device memory, or "" for UCX where every rank has it and NCCL where every rank has it
    and a GPU; ranks on one machine use shared memory in any case. With `deterministic` reductions have the same bits on every
    backend. `timeout`, in seconds, limits `init`. `device` is the number of the GPU in the processes of the workers, for NCCL
    (default 0 with "nccl": the workers of dask-cuda see their own GPU first).
    """

    def __init__(
        self,
        client: Any = None,
        workers: Iterable[str] | None = None,
        *,
        backend: str = "comm",
        deterministic: bool = False,
        timeout: float = 30,
        device: int | None = None,
    ) -> None:
        if client is None:
            from distributed import get_client

            client = get_client()
        self.client = client
        self.session: str = uuid.uuid4().hex  #: argument of tasks for local_handle
        self.workers: list[str] = []  #: addresses of the workers in the order of ranks, after init
        self._wanted = None if workers is None else list(dict.fromkeys(workers))
        self._options = {"backend": backend, "deterministic": deterministic, "timeout": float(timeout), "device": device}

    @property
    def sessionId(self) -> str:  # noqa: N802 - the name in raft-dask
        """The same as `session`."""
        return self.session

    @property
    def worker_addresses(self) -> list[str]:
        """The same as `workers`."""
        return self.workers

    def __repr__(self) -> str:
        return f"<Comms {self.session}: {len(self.workers)} ranks>"

    def init(self, workers: Iterable[str] | None = None) -> Any:
        """Form the communicator. A second call warns and does nothing."""
        if self.workers:
            warnings.warn("Comms.init was called before: the communicator is kept", stacklevel=2)
            return self.client.sync(_nothing)
        if workers is not None:
            self._wanted = list(dict.fromkeys(workers))
        return self.client.sync(self._init)

    async def _init(self) -> None:
        known = list(await self.client.scheduler.ncores())
        wanted = known if self._wanted is None else self._wanted
        missing = [w for w in wanted if w not in known]
        if missing:
            raise ValueError(f"no such workers: {', '.join(missing)}; the cluster has {', '.join(sorted(known)) or 'none'}")
        if not wanted:
            raise ValueError("the cluster has no workers yet: call client.wait_for_workers")
        try:
            contacts = await self._run(_open, wanted, self.session, self._options)
            ranks = await self._run(_join, wanted, self.session, list(contacts.values()))
        except BaseException:
            await self.client._run(_close, self.session, workers=wanted, on_error="ignore")
            raise
        self.workers = sorted(wanted, key=ranks.__getitem__)

    async def _run(self, function: Callable, workers: list[str], *args: Any) -> dict:
        """Run a function on workers, outside their tasks, and return the results by address."""
        replies = await self.client._run(function, *args, workers=workers, on_error="return")
        failed = {w: replies.get(w, CommsError("no reply")) for w in workers}
        failed = {w: e for w, e in failed.items() if isinstance(e, BaseException)}
        if not failed:
            return replies
        texts: dict[str, list[str]] = {}
        for w in sorted(failed):
            texts.setdefault(_explain(failed[w]), []).append(w)
        message = "; ".join(f"{', '.join(on)}: {text}" for text, on in texts.items())
        first = next(iter(failed.values()))
        kind = type(first) if type(first) in (ValueError, LibraryError) else CommsError
        raise kind(f"Comms.init: {message}") from first

    def reform(self, replace: bool = False, timeout: float = 30) -> Any:
        """Form the communicator again after a worker was lost: with another `session`, and the workers that are left.

        With `replace` it waits until the cluster has as many workers as the communicator had, for at most `timeout` seconds,
        and takes new ones, such as those that a nanny has started, for those that were lost.
        """
        return self.client.sync(self._reform, replace, timeout)

    async def _reform(self, replace: bool, timeout: float) -> None:
        old, size = self.workers or self._wanted or [], len(self.workers or self._wanted or [])
        if not old:
            raise ValueError("Comms.reform: the communicator was never formed; call init")
        loop = asyncio.get_running_loop()
        limit = loop.time() + timeout
        while True:
            replies = await self.client._run(_alive, on_error="return")
            there = [w for w, e in replies.items() if e is True]
            left = [w for w in old if w in there]
            chosen = left + [w for w in sorted(there) if w not in old][: size - len(left)] if replace else left
            if chosen and (not replace or len(chosen) == size):
                break
            if loop.time() > limit:
                raise TimeoutError(f"Comms.reform: {len(chosen)} of {size} workers after {timeout} s; the cluster has "
                                   f"{', '.join(sorted(there)) or 'none'}")
            await asyncio.sleep(0.02)
        await self.client._run(_close, self.session, workers=left, on_error="ignore")
        self.workers, self._wanted, self.session = [], chosen, uuid.uuid4().hex
        await self._init()

    def worker_info(self, workers: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        """Return {address: {"rank": number}} of the workers, after init."""
        ranks = {w: {"rank": i} for i, w in enumerate(self.workers)}
        return ranks if workers is None else {w: ranks[w] for w in workers}

    def destroy(self) -> Any:
        """Destroy the communicator on all workers that are still in the cluster. It may be called twice."""
        return self.client.sync(self._destroy)

    async def _destroy(self) -> None:
        workers, self.workers = self.workers, []
        there = await self.client.scheduler.ncores() if workers else ()
        left = [w for w in workers if w in there]
        if left:
            await self.client._run(_close, self.session, workers=left, on_error="ignore")

    def __enter__(self) -> Comms:
        self.init()
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    async def __aenter__(self) -> Comms:
        await self._init()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._destroy()


async def _nothing() -> None:
    pass


def _explain(e: BaseException) -> str:
    if isinstance(e, ModuleNotFoundError) and (e.name or "").startswith("millstream"):
        return f"{e}: install the Python package millstream on the workers"
    return str(e) or repr(e)


# The rest runs in the processes of workers.

_lock = threading.Lock()
_opened: dict[tuple[str, str], _rank.Opened] = {}  # ranks by session and worker
_handles: dict[tuple[str, str], Handle] = {}  # those that have joined


def _listen_address(dask_worker: Any) -> str:
    """Return where this rank listens: the interface of the worker, and its protocol if that is tls."""
    from distributed.comm.addressing import get_address_host, parse_address

    scheme, _ = parse_address(dask_worker.address)
    host = get_address_host(dask_worker.address)
    if scheme == "inproc":
        host = "127.0.0.1"
    if ":" in host:
        host = f"[{host}]"
    return f"{'tls' if scheme == 'tls' else 'tcp'}://{host}:0"


async def _alive() -> bool:
    return True


async def _open(session: str, options: dict, dask_worker: Any = None) -> str:
    """Open the listener of a rank and return its contact."""
    return await in_thread(lambda: _open_now(session, options, dask_worker))


def _open_now(session: str, options: dict, dask_worker: Any) -> str:
    listen, files = _listen_address(dask_worker), (None, None, None)
    security = getattr(dask_worker, "security", None)
    if security is not None and listen.startswith("tls://"):
        files = security.tls_ca_file, security.tls_worker_cert, security.tls_worker_key
    opened = _rank.open(session, dask_worker.address, listen, files=files, **options)
    with _lock:
        _opened[session, dask_worker.address] = opened
    return opened.contact


async def _join(session: str, contacts: list[str], dask_worker: Any = None) -> int:
    """Connect a rank to the others and return its number."""
    return await in_thread(lambda: _join_now(session, contacts, dask_worker.address))


def _join_now(session: str, contacts: list[str], worker: str) -> int:
    with _lock:
        opened = _opened[session, worker]
    handle = opened.join(contacts)
    with _lock:
        if _opened.get((session, worker)) is not opened:
            raise CommsError("the communicator was destroyed while it was formed")
        _handles[session, worker] = handle
    return handle.rank


async def _close(session: str, dask_worker: Any = None) -> None:
    """Destroy the communicator of a rank, if there is one."""
    key = session, dask_worker.address
    with _lock:
        opened, handle = _opened.pop(key, None), _handles.pop(key, None)
    if handle is not None:
        await in_thread(handle.destroy)
    elif opened is not None:
        await in_thread(opened.close)


def local_handle(session: str, dask_worker: Any = None) -> Handle:
    """Return the :class:`Handle` of this worker in the communicator `Comms.session`. Call it in a task of the worker."""
    if dask_worker is None:
        from distributed import get_worker

        dask_worker = get_worker()
    with _lock:
        handle = _handles.get((session, dask_worker.address))
    if handle is None:
        raise ValueError(f"worker {dask_worker.address} (process {os.getpid()}) has no communicator {session!r}: it is not one of "
                         f"its workers, or the communicator was destroyed")
    return handle
