"""Arguments of collectives: arrays in host and device memory as pointers, without copies."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from . import _library
from ._library import DTYPES, OPS

if TYPE_CHECKING:
    from .handle import Handle

_codes: dict[Any, int] = {}  # numbers of the numpy dtypes that were used, because the name of a dtype is slow
_ndarray: Any = type(None)  # numpy.ndarray once an array was used: the package does not import numpy
_addressof = ctypes.addressof
_byte = ctypes.c_char.from_buffer


def _numpy() -> Any:
    global _ndarray
    import numpy

    _ndarray = numpy.ndarray
    return numpy


def address(array: Any) -> int | None:
    """Return the address of an array, which must be kept until the end of the operation."""
    if type(array) is not _ndarray:
        if array is None:
            return None
        if isinstance(array, DeviceArray):
            return array.pointer
    try:
        return _addressof(_byte(array))
    except (TypeError, ValueError, BufferError):  # read-only, empty, or a dtype that the buffer protocol does not have
        return array.__array_interface__["data"][0]


def code_of(dtype: Any, name: str) -> int:
    """Return the number of a dtype, which is kept."""
    code = DTYPES.get(dtype.name)
    if code is None or not dtype.isnative:
        raise TypeError(f"{name}: dtype {dtype.str if dtype.kind != 'V' else dtype} is not supported; use one of "
                        f"{', '.join(DTYPES)} in native byte order")
    _codes[dtype] = code
    return code


class DeviceArray:
    """An array in device memory, by `__cuda_array_interface__`. It has the attributes of a numpy array that are used here."""

    __slots__ = ("owner", "pointer", "shape", "size", "dtype", "contiguous", "writeable", "stream", "strides")

    def __init__(self, name: str, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.pointer, readonly = interface["data"]
        self.shape: tuple[int, ...] = tuple(interface["shape"])
        self.writeable = not readonly
        self.size = 1
        for n in self.shape:
            self.size *= n
        self.dtype = getattr(owner, "dtype", None)
        if not hasattr(self.dtype, "isnative"):  # that of torch, for example
            self.dtype = _numpy().dtype(interface["typestr"])
        self.strides = interface.get("strides")
        self.contiguous = self.strides is None or self.size == 0 or _packed(self.shape, self.strides, self.dtype.itemsize)
        self.stream: int | None = interface.get("stream")
        if interface.get("mask") is not None:
            raise TypeError(f"{name}: masked arrays are not supported")

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


def _packed(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != itemsize:
            return False
        itemsize *= n
    return True


def stream_of(array: DeviceArray) -> int | None:
    """Return the CUDA stream that orders an array: CuPy's current one if CuPy is loaded, else that of its producer."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and (array.stream is None or isinstance(array.owner, cupy.ndarray)):
        return cupy.cuda.get_current_stream().ptr or None
    return array.stream


class Arguments:
    """Checks the arguments of one call. As a context manager it reports invalid ones of a collective to all ranks."""

    __slots__ = ("handle", "operation", "what", "dtype", "type", "device")

    def __init__(self, handle: Handle, operation: int, what: str) -> None:
        self.handle, self.operation, self.what = handle, operation, what
        self.dtype = 0
        self.type: Any = None
        self.device: DeviceArray | None = None  # the first array, if that is in device memory

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
        """Return x as a numpy array or a DeviceArray that shares its memory."""
        if type(x) is _ndarray:
            a, device = x, None
            contiguous, writeable = a.flags.c_contiguous, a.flags.writeable
        else:
            a = _array(name, x, writable)
            device = a if isinstance(a, DeviceArray) else None
            flags = a.flags if device is None else None
            contiguous = device.contiguous if device else flags.c_contiguous
            writeable = device.writeable if device else flags.writeable
        dtype = a.dtype
        code = _codes.get(dtype) or code_of(dtype, name)
        if not contiguous:
            raise ValueError(f"{name}: an array of shape {a.shape} with strides {a.strides} is not contiguous; pass "
                             f"{'cupy' if device else 'numpy'}.ascontiguousarray(array)")
        if writable and not writeable:
            raise ValueError(f"{name}: the array is read-only")
        if size is not None and a.size != size:
            raise ValueError(f"{name}: {a.size} elements, want {size}")
        if self.dtype == 0:
            self.dtype, self.type, self.device = code, dtype, device
        elif self.dtype != code:
            raise TypeError(f"{name}: dtype {dtype}, but the other array has {self.type}")
        elif (self.device is None) != (device is None):
            raise TypeError(f"{name}: {type(x).__name__} is in {'device' if device else 'host'} memory, the other array is in "
                            f"{'host' if device else 'device'} memory")
        return a

    def out(self, out: Any, like: Any, shape: tuple[int, ...]) -> Any:
        """Return the array of the result, and what the caller gets for it."""
        if out is None:
            if self.device is None:
                made = _numpy().empty(shape, like.dtype)
                return made, made
            made = _empty(shape, like)
            return self.array("out", made, writable=True), made
        size = 1
        for n in shape:
            size *= n
        return self.array("out", out, writable=True, size=size), out

    def op(self, op: str) -> int:
        """Return the number of a reduction."""
        code = OPS.get(op)
        if code is None:
            raise ValueError(f"op {op!r}: want one of {', '.join(OPS)}")
        return code

    def counts(self, name: str, counts: Any) -> Any:
        """Return numbers of elements, one for each rank, in memory for the library."""
        counts = [int(n) for n in counts]
        if len(counts) != self.handle.size or min(counts) < 0:
            raise ValueError(f"{name}: {counts}: want {self.handle.size} numbers, one for each rank")
        return (ctypes.c_uint64 * len(counts))(*counts)


def _empty(shape: tuple[int, ...], like: DeviceArray) -> Any:
    try:
        import cupy
    except ImportError:
        raise TypeError(f"out: an array for the result of {type(like.owner).__name__} needs CuPy; pass out") from None
    return cupy.empty(shape, like.dtype)


def _array(name: str, x: Any, writable: bool) -> Any:
    """Return an object that is not exactly a numpy array as one or as a DeviceArray, without a copy."""
    np = _numpy()
    if isinstance(x, np.ndarray):
        return x
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return DeviceArray(name, x, interface)
    if hasattr(x, "__array_interface__") or hasattr(x, "__array__"):
        if not (writable and isinstance(x, np.generic)):
            return np.asarray(x)
    elif hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        kind = int(x.__dlpack_device__()[0])
        if kind == 1:  # kDLCPU
            return np.from_dlpack(x)
        if kind in (2, 13):  # kDLCUDA, kDLCUDAManaged
            try:
                import cupy
            except ImportError:
                raise TypeError(f"{name}: {type(x).__name__} is in device memory, which needs CuPy for DLPack") from None
            y = cupy.from_dlpack(x)
            return DeviceArray(name, y, y.__cuda_array_interface__)
        raise TypeError(f"{name}: {type(x).__name__} is on a device of kind {kind}, which is not supported")
    raise TypeError(f"{name}: want a numpy or CuPy array, got {type(x).__name__}")
