"""Cliques: Go functions that run on several Millstream workers at once and communicate by collectives.

::

    import millstream

    with millstream.clique(client) as q:              # all Millstream workers of the cluster
        totals = q.run("total", parts)                # one part for each rank, one result from each

The scheduler of the cluster may be that of Millstream or of Dask. A worker of the clique coordinates its formation; this
package only has a record of the members.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .stubs import GoFunction, go

_LEAD = "millstream.clique.lead."


class CliqueError(RuntimeError):
    """A clique could not be formed, or a function failed on some ranks.

    `ranks` has the exception of each failed rank by number; `dead` are the ranks whose workers were lost.
    """

    def __init__(self, message: str, ranks: dict[int, BaseException] | None = None, dead: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks or {}
        self.dead = tuple(dead)


@dataclass(frozen=True)
class Member:
    """One rank: its number, its worker and the location of the worker."""

    rank: int
    worker: str
    name: str
    host: str
    hostname: str
    gpu: int  #: the first number in the worker's CUDA_VISIBLE_DEVICES, -1 if there is none


def _spec(name: str, argument: str) -> bytes:
    """Return a call of a Go function with one str argument, encoded as in internal/task/spec.go."""
    from msgpack import packb as pack

    return b"MS\x01" + pack(name) + pack([]) + pack(1) + b"\x00" + pack(argument.encode())


class Clique:
    """Workers that communicate by collectives. Created by :func:`clique`.

    Ranks are ordered by host, GPU and address. The end of a `with` block dissolves the clique.
    """

    def __init__(self, client: Any, record: dict) -> None:
        self._client = client
        self._record = record
        self._rounds = 0
        self.id: str = record["id"]
        self.backend: str = record["carrier"]  #: transport of host memory, such as "ucx" or "tls"
        self.devices: str = record.get("devices", "")  #: transport of device memory: "nccl", "ucx" or "comm"
        self.devices_why: str = record.get("why", "")  #: reason for that choice
        self.members = tuple(
            Member(m["rank"], m["worker"], m.get("name", ""), m["host"], m.get("hostname", ""), m["gpu"])
            for m in record["members"]
        )

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.members)

    @property
    def workers(self) -> list[str]:
        """Addresses of the ranks' workers, in the order of ranks."""
        return [m.worker for m in self.members]

    def __repr__(self) -> str:
        return f"<Clique {self.id}: {self.size} ranks over {self.backend}>"

    def ticket(self) -> str:
        """Return a ticket for one round of tasks, for Go functions that are not submitted with `submit`."""
        self._rounds += 1
        return f"{self.id}.{self._rounds - 1:x}"

    def submit(self, function: str | GoFunction, inputs: Sequence[Any], *more: Any) -> list:
        """Run a function of ranks (`clique.Func` in Go) on all ranks and return their futures in the order of ranks.

        `inputs` has one argument for each rank, a value or a future; `more` are arguments for all ranks, which precede it.
        """
        inputs = list(inputs)
        if len(inputs) != self.size:
            raise ValueError(f"{len(inputs)} inputs for {self.size} ranks: want one for each")
        if not isinstance(function, GoFunction):
            function = go(function)
        ticket, run = self.ticket(), uuid.uuid4().hex
        return [
            self._client.submit(
                function, ticket, *more, x, key=f"{function.__name__}-{run}-{m.rank}", workers=[m.worker],
                allow_other_workers=False, pure=False,
            )
            for m, x in zip(self.members, inputs)
        ]

    def run(self, function: str | GoFunction, inputs: Sequence[Any], *more: Any, timeout: float | None = None) -> list:
        """Run a function on all ranks and return its results, in the order of ranks: :meth:`submit`, then gather.

        Raise :class:`CliqueError` if a rank fails. It does not wait for ranks whose workers were lost.
        """
        if self._client.asynchronous:
            raise TypeError("run blocks and cannot be used with an asynchronous client: use submit and await the futures")
        futures = self.submit(function, inputs, *more)
        self._wait(function, futures, timeout)
        return self._client.gather(futures)

    def _wait(self, function: str | GoFunction, futures: list, timeout: float | None) -> None:
        from distributed import wait
        from distributed.utils import TimeoutError as DaskTimeout

        end = None if timeout is None else time.monotonic() + timeout
        dead: list[int] = []
        while True:
            pending = [f for i, f in enumerate(futures) if i not in dead and not f.done()]
            if not pending:
                break
            try:
                wait(pending, timeout=0.5)
                continue
            except (DaskTimeout, TimeoutError):
                pass
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{_name(function)} on clique {self.id}: {len(pending)} ranks have not ended")
            there = self._client.ncores()
            for m in self.members:
                if m.worker not in there and not futures[m.rank].done():
                    dead.append(m.rank)
                    futures[m.rank].cancel()
        failed: dict[int, BaseException] = {}
        for i, f in enumerate(futures):
            if i in dead:
                failed[i] = RuntimeError(f"rank {i} ({self.members[i].worker}): worker lost")
            elif f.status != "finished":
                failed[i] = f.exception() if f.status == "error" else RuntimeError(f"rank {i}: {f.status}")
        if failed:
            texts = "; ".join(sorted({f"rank {i}: {e}" for i, e in failed.items()}))
            raise CliqueError(f"clique {self.id}: {_name(function)}: {texts}", failed, dead)

    def reform(self, add: Iterable[str] = (), size: int = 0) -> Any:
        """Form a clique of the remaining workers, with additional ones if wanted; the old clique is dissolved.

        `add` are workers to add; with `size`, other workers of the cluster are added up to this number of ranks.
        """
        request = {**self._record, "add": list(add), "size": size}
        return self._client.sync(self._lead, "reform", request)

    def dissolve(self) -> Any:
        """Dissolve the clique and release its resources on the workers."""
        return self._client.sync(self._lead, "dissolve", self._record)

    async def _lead(self, what: str, request: dict) -> Any:
        there = await self._client.scheduler.ncores()
        alive = [w for w in self.workers if w in there] or await _go_workers(self._client)
        reply = await _request(self._client, alive, what, request)
        return Clique(self._client, reply) if "id" in reply else None

    def __enter__(self) -> Clique:
        return self

    def __exit__(self, *_: Any) -> None:
        self.dissolve()


def _name(function: str | GoFunction) -> str:
    return function if isinstance(function, str) else function.__name__


async def _go_workers(client: Any) -> list[str]:
    """Return the Millstream workers of a cluster, which have registries of functions."""
    identity = await client.scheduler.identity(n_workers=-1)
    return sorted(
        w for w, a in identity.get("workers", {}).items()
        if _LEAD + "form" in ((a.get("millstream") or {}).get("functions") or ())
    )


async def _request(client: Any, leaders: list[str], what: str, request: dict) -> dict:
    """Request the formation from the first worker that replies."""
    error: BaseException | None = None
    for leader in leaders:
        msg = {"op": "run", "function": _spec(_LEAD + what, json.dumps(request)), "args": None, "kwargs": None, "wait": True}
        try:
            reply = (await client.scheduler.broadcast(msg=msg, workers=[leader]))[leader]
        except OSError as e:  # the worker was lost
            error = e
            continue
        if reply.get("status") != "OK":
            raise CliqueError(f"worker {leader}: {_text(reply)}")
        return json.loads(reply["result"])
    raise CliqueError(f"no Millstream worker replies: {error}" if error else "the cluster has no Millstream worker with cliques")


def _text(reply: dict) -> str:
    """Return the error in a reply of a worker."""
    from distributed.core import clean_exception

    try:
        _, exception, _ = clean_exception(**{k: reply.get(k) for k in ("exception", "traceback")})
        return str(exception)
    except Exception:  # noqa: BLE001 - fall back to the text
        return str(reply.get("exception_text") or reply)


def clique(
    client: Any = None,
    workers: Iterable[str] | None = None,
    *,
    name: str = "",
    backend: str = "",
    deterministic: bool = False,
    timeout: float = 30,
    idle: float = 3600,
) -> Any:
    """Form a clique of Millstream workers of a running cluster, by default of all of them.

    `client` is a `distributed.Client` (default: the current one); with an asynchronous one await the result. `backend`
    is "nccl" (for device memory), "ucx", "comm", or "" for the best that all ranks support. With `deterministic`
    reductions have the same bits on every backend. `timeout`, in seconds, limits the formation; a clique that is not used
    for `idle` seconds is dissolved.
    """
    if client is None:
        from distributed import get_client

        client = get_client()
    options = {"name": name, "backend": backend, "deterministic": deterministic, "timeout": timeout, "idle": idle}
    return client.sync(_form, client, None if workers is None else list(workers), options)


async def _form(client: Any, workers: list[str] | None, options: dict) -> Clique:
    leaders = await _go_workers(client)
    if workers is None:
        workers = leaders
    if not workers:
        raise CliqueError("the cluster has no Millstream worker with cliques, or the list of workers is empty")
    return Clique(client, await _request(client, leaders, "form", {**options, "workers": workers}))
