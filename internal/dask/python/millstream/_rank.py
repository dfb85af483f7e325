"""Ranks of communicators in this process, by the library: open a listener, then join with the contacts of all ranks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from . import _library
from .handle import Handle


class Opened:
    """A rank that listens. `contact` is its text for the other ranks; `join` or `close` must be called."""

    def __init__(self, lib: _library.Library, comm: int, contact: str) -> None:
        self.lib, self.comm, self.contact = lib, comm, contact

    def join(self, contacts: Sequence[str]) -> Handle:
        """Connect to the other ranks, whose contacts may be in any order, and wait for them."""
        lib = self.lib
        texts = (ctypes.c_char_p * len(contacts))(*(c.encode() for c in contacts))
        p = ctypes.c_void_p()
        ticket = lib.text(lib.ticket(texts, len(contacts), ctypes.byref(p)), p)
        lib.check(lib.join(self.comm, ticket.encode()))
        return Handle(lib, self.comm)

    def close(self) -> None:
        """Destroy the communicator. Use the method of the handle after `join`."""
        self.lib.check(self.lib.destroy(self.comm))


def open(  # noqa: A001 - as millstream_v1_open
    session: str,
    name: str,
    listen: str,
    *,
    backend: str = "comm",
    deterministic: bool = False,
    timeout: float = 30,
    device: int | None = None,
    files: Sequence[str | None] = (None, None, None),
) -> Opened:
    """Open the listener of a rank.

    `device` is the number of its GPU in this process, which the backend "nccl" needs (default 0 for that backend). `files` are
    the certificates of the CA and of this rank and its key, for tls:// addresses.
    """
    lib = _library.load()
    o = _library.Options(
        size=ctypes.sizeof(_library.Options), deterministic=bool(deterministic), id=session.encode(), name=name.encode(),
        listen=listen.encode(), backend=backend.encode(), timeout=timeout,
    )
    if device is None and backend == "nccl":
        device = 0
    o.device = None if device is None else str(device).encode()
    o.ca_file, o.cert_file, o.key_file = (f.encode() if f else None for f in files)
    comm, contact = ctypes.c_uint64(), ctypes.c_void_p()
    text = lib.text(lib.open(ctypes.byref(o), ctypes.byref(comm), ctypes.byref(contact)), contact)
    return Opened(lib, comm.value, text)
