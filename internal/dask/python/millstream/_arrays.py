"""Arguments of collectives: arrays as pointers, without copies."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _library
from ._library import DTYPES, OPS

if TYPE_CHECKING:
    from .handle import Handle

_codes: dict[Any, int] = {}  # numbers of the numpy dtypes that were used, because the name of a dtype is slow
_ndarray: Any = type(None)  # numpy.ndarray once an array was used: the package does not import numpy
_Bytes = ctypes.c_char * 1


def _numpy() -> Any:
    global _ndarray
    import numpy

    _ndarray = numpy.ndarray
    return numpy


def at(array: Any) -> Any:
    """Return the address of an array for ctypes. The array must be kept until the end of the call."""
    if array is None:
        return None
    try:
        return _Bytes.from_buffer(array)
    except (TypeError, ValueError, BufferError):  # read-only, empty, or a dtype that the buffer protocol does not have
        return address(array)


def address(array: Any) -> int:
    """Return the address of an array."""
    return array.__array_interface__["data"][0]


def code_of(dtype: Any, name: str) -> int:
    """Return the number of a dtype, which is kept."""
    code = DTYPES.get(dtype.name)
    if code is None or not dtype.isnative:
        raise TypeError(f"{name}: dtype {dtype.str if dtype.kind != 'V' else dtype} is not supported; use one of "
                        f"{', '.join(DTYPES)} in native byte order")
    _codes[dtype] = code
    return code


class Arguments:
    """Checks the arguments of one call. As a context manager it reports invalid ones of a collective to all ranks."""

    __slots__ = ("handle", "operation", "what", "dtype", "type")

    def __init__(self, handle: Handle, operation: int, what: str) -> None:
        self.handle, self.operation, self.what = handle, operation, what
        self.dtype, self.type = 0, None

    def __enter__(self) -> Arguments:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if kind is None or not isinstance(error, (TypeError, ValueError)):
            return
        h = self.handle
        code = h._lib.reject(h._comm, self.operation, str(error).encode()[:400])
        if code != _library.MISMATCH:
            h._check(code)

    def array(self, name: str, x: Any, writable: bool = False, size: int | None = None) -> Any:
        """Return x as an array that shares its memory."""
        a = x if type(x) is _ndarray else _array(name, x, writable)
        dtype, flags = a.dtype, a.flags
        code = _codes.get(dtype) or code_of(dtype, name)
        if not flags.c_contiguous:
            raise ValueError(f"{name}: an array of shape {a.shape} with strides {a.strides} is not contiguous; pass "
                             f"numpy.ascontiguousarray(array)")
        if writable and not flags.writeable:
            raise ValueError(f"{name}: the array is read-only")
        if size is not None and a.size != size:
            raise ValueError(f"{name}: {a.size} elements, want {size}")
        if self.dtype == 0:
            self.dtype, self.type = code, dtype
        elif self.dtype != code:
            raise TypeError(f"{name}: dtype {dtype}, but the other array has {self.type}")
        return a

    def out(self, out: Any, like: Any, shape: tuple) -> Any:
        """Return the array of the result."""
        if out is None:
            return _numpy().empty(shape, like.dtype)
        size = 1
        for n in shape:
            size *= n
        return self.array("out", out, writable=True, size=size)

    def op(self, op: str) -> int:
        """Return the number of a reduction."""
        code = OPS.get(op)
        if code is None:
            raise ValueError(f"op {op!r}: want one of {', '.join(OPS)}")
        return code


def _array(name: str, x: Any, writable: bool) -> Any:
    """Return an object that is not exactly a numpy array as one, without a copy."""
    np = _numpy()
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__cuda_array_interface__"):
        raise TypeError(f"{name}: {type(x).__name__} is in device memory, which Comms does not support; copy it to the host")
    if not (hasattr(x, "__array_interface__") or hasattr(x, "__array__")) or writable and isinstance(x, np.generic):
        raise TypeError(f"{name}: want a numpy array, got {type(x).__name__}")
    return np.asarray(x)
