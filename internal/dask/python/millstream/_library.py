"""libmillstream by ctypes: see include/millstream.h."""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

ABI = 1
VARIABLE = "MILLSTREAM_LIBRARY"

MISMATCH, RANK, TIMEOUT, INVALID, CLOSED, TRUNCATED, FORKED = range(2, 9)

(BARRIER, ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, GATHER, SCATTER, REDUCESCATTER, ALLTOALL, SEND, RECV, SENDRECV, ALLGATHERV, GATHERV,
 SCATTERV, ALLTOALLV) = range(1, 17)

HOST, DEVICE = 1, 2

OPS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5}

DTYPES = {
    "int8": 1, "int16": 2, "int32": 3, "int64": 4, "uint8": 5, "uint16": 6, "uint32": 7, "uint64": 8,
    "float16": 9, "bfloat16": 10, "float32": 11, "float64": 12,
}


class Options(ctypes.Structure):
    """millstream_v1_options."""

    _fields_ = [
        ("size", c_uint32), ("deterministic", c_int32), ("id", c_char_p), ("name", c_char_p), ("listen", c_char_p),
        ("backend", c_char_p), ("timeout", c_double), ("ca_file", c_char_p), ("cert_file", c_char_p), ("key_file", c_char_p),
        ("device", c_char_p),
    ]


class Call(ctypes.Structure):
    """millstream_v1_call."""

    _fields_ = [
        ("size", c_uint32), ("operation", c_int32), ("dtype", c_int32), ("op", c_int32), ("peer", c_int32), ("source", c_int32),
        ("count", c_uint64), ("recvcount", c_uint64), ("tag", c_uint64), ("recvtag", c_uint64), ("send", c_void_p),
        ("recv", c_void_p), ("memory", c_int32), ("reserved", c_int32), ("stream", c_void_p), ("counts", c_void_p),
        ("recvcounts", c_void_p),
    ]


class CommsError(RuntimeError):
    """An operation of a communicator failed."""


class LibraryError(CommsError):
    """libmillstream.so is missing, or is of another version."""


class RankError(CommsError):
    """A rank was lost or has aborted, which ended the communicator. `rank` is its number."""

    def __init__(self, message: str, rank: int = -1) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple:
        return (type(self), (self.args[0], self.rank))


class MismatchError(CommsError, ValueError):
    """The calls of the ranks differ, or one is invalid. All ranks get the error, and the communicator remains usable."""


class TruncatedError(CommsError, ValueError):
    """A message was longer than the array of its receiver."""


ERRORS = {MISMATCH: MismatchError, TRUNCATED: TruncatedError, TIMEOUT: TimeoutError, INVALID: ValueError}

_H, _P, _U, _I = c_uint64, c_void_p, c_uint64, c_int

SIGNATURES = {
    "open": (POINTER(Options), POINTER(_H), POINTER(c_void_p)),
    "ticket": (POINTER(c_char_p), c_size_t, POINTER(c_void_p)),
    "join": (_H, c_char_p),
    "destroy": (_H,),
    "abort": (_H, c_char_p),
    "rank": (_H, POINTER(c_int), POINTER(c_int)),
    "name": (_H, _I, POINTER(c_void_p)),
    "backend": (_H, POINTER(c_void_p)),
    "failed_rank": (_H, POINTER(c_int)),
    "set_timeout": (_H, c_double),
    "split": (_H, _I, _I, POINTER(_H)),
    "dup": (_H, POINTER(_H)),
    "reform": (_H, c_double, POINTER(_H)),
    "set_stream": (_H, c_void_p),
    "sync_stream": (_H, c_void_p),
    "device_backend": (_H, POINTER(c_void_p)),
    "nccl_comm": (_H, POINTER(c_void_p), POINTER(c_void_p)),
    "group_start": (_H,),
    "group_end": (_H,),
    "multicast_sendrecv": (_H, _P, _P, _P, _P, c_size_t, _P, _P, _P, _P, c_size_t, _I, _U),
    "barrier": (_H,),
    "run": (_H, POINTER(Call), POINTER(c_uint64)),
    "start": (_H, POINTER(Call), POINTER(_H)),
    "wait": (_H, c_double, POINTER(c_uint64)),
    "reject": (_H, _I, c_char_p),
}


class Library:
    """The functions of the library, without their prefix. They raise an exception if the result is not MILLSTREAM_OK."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.dll = ctypes.CDLL(path)
        except OSError as e:
            raise LibraryError(f"libmillstream.so cannot be loaded: {e}; build it with `make library` or install the wheel, and set "
                               f"{VARIABLE} to its path") from None
        try:
            abi = self.dll.millstream_v1_abi()
        except AttributeError:
            raise LibraryError(f"{path} is not libmillstream, or is too old: it has no millstream_v1_abi") from None
        if abi < ABI:
            raise LibraryError(f"{path} has version {abi} of the interface, this package needs {ABI}; use the same release")
        self.dll.millstream_v1_last_error.restype = c_char_p
        self.dll.millstream_v1_release.restype = c_char_p
        self.dll.millstream_v1_free.argtypes = [c_void_p]
        self.dll.millstream_v1_free.restype = None
        for name, arguments in SIGNATURES.items():
            f = getattr(self.dll, "millstream_v1_" + name)
            f.argtypes, f.restype = list(arguments), c_int
            setattr(self, name, f)

    def release(self) -> str:
        """Return the release of the library."""
        return self.dll.millstream_v1_release().decode()

    def error(self, code: int, comm: int = 0) -> Exception:
        """Return the exception of the last error of this thread."""
        text = self.dll.millstream_v1_last_error().decode(errors="replace")
        if code == RANK:
            rank = c_int(-1)
            if comm:
                self.failed_rank(comm, ctypes.byref(rank))
            return RankError(text, rank.value)
        return ERRORS.get(code, CommsError)(text)

    def check(self, code: int, comm: int = 0) -> None:
        """Raise the exception of a code."""
        if code:
            raise self.error(code, comm)

    def text(self, code: int, p: c_void_p, comm: int = 0) -> str:
        """Return a text that a function has stored in p, and free it."""
        self.check(code, comm)
        try:
            return ctypes.string_at(p.value).decode()
        finally:
            self.dll.millstream_v1_free(p)


_lock = threading.Lock()
_loaded: dict[str, Library] = {}


def find() -> str:
    """Return the path of the library: MILLSTREAM_LIBRARY, the folder of this package, or the name for the system's search."""
    path = os.environ.get(VARIABLE)
    if path:
        return path
    here = pathlib.Path(__file__).with_name("libmillstream.so")
    return str(here) if here.is_file() else "libmillstream.so"


def load() -> Library:
    """Return the library, which is loaded the first time."""
    path = find()
    with _lock:
        if path not in _loaded:
            _loaded[path] = Library(path)
        return _loaded[path]
