"""Stubs for Go functions: `@millstream.go("name")`.

A stub is an object that represents a function in the registry of a Go worker. It can be used wherever Dask takes a
function: `Client.submit`, `Client.map`, `dask.delayed`, graphs written by hand. Millstream workers and schedulers read
the name from the pickle and never call it; a call in Python raises an error.

Neither Dask schedulers nor Dask workers need this package. The stub is pickled as a call of `eval` with SOURCE, an
expression whose value is an object that pickles itself in the same way. (A function that is pickled with its code would
work, too, but takes ten times as long to pickle, and again for each task.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")

# internal/dask/gotask/stub.py in the Go source of Millstream has the same text; a test compares them.
SOURCE = (
    "type('GoFunction', (), {"
    "'__module__': 'millstream', "
    "'__name__': millstream_go, "
    "'__millstream_go__': millstream_go, "
    "'__reduce__': lambda self: (eval, (source, {'millstream_go': millstream_go, 'params': params, 'source': source})), "
    "'__repr__': lambda self: '<Go function %s>' % millstream_go, "
    "'__dask_tokenize__': lambda self: ('millstream_go', millstream_go), "
    "'__call__': lambda self, *args, **kwargs: (_ for _ in ()).throw(RuntimeError("
    "'Go function %s needs a Millstream worker, and this process runs Python only: "
    "give the task resources={\"go\": 1}, or call millstream.install(client) once' % millstream_go))"
    "})()"
)

_MAX_NAME = 1024


class GoFunction(Generic[P, R]):
    """A Go function, by its name in the registry of the worker.

    Created by :func:`go`. `params` are the names of its parameters if the stub declares them: arguments may then be
    passed by name, and extra or unknown ones are rejected before anything is sent.
    """

    def __init__(self, name: str, declared: Callable[..., Any] | None = None) -> None:
        if not isinstance(name, str) or not name or len(name.encode()) > _MAX_NAME:
            raise ValueError(f"the name of a Go function is a str of 1 to {_MAX_NAME} bytes, not {name!r}")
        self.__name__ = name
        self.__millstream_go__ = name
        self.__doc__ = getattr(declared, "__doc__", None)
        self._params = None
        if declared is not None:
            self._params = _params(name, declared)
            self.__signature__ = inspect.signature(declared)
            self.__wrapped__ = declared

    @property
    def params(self) -> tuple[str, ...] | None:
        """Names of the parameters, None if the stub does not declare them."""
        return self._params

    def __reduce__(self) -> Any:
        return eval, (SOURCE, {"millstream_go": self.__name__, "params": self._params, "source": SOURCE})

    def __dask_tokenize__(self) -> Any:
        return ("millstream_go", self.__name__)

    def __eq__(self, other: Any) -> bool:
        return getattr(other, "__millstream_go__", None) == self.__name__

    def __hash__(self) -> int:
        return hash(("millstream_go", self.__name__))

    def __repr__(self) -> str:
        return f"<Go function {self.__name__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Raise an error, unless used as a decorator: there is no Go without a cluster."""
        if self._params is None and len(args) == 1 and not kwargs and inspect.isfunction(args[0]):
            return GoFunction(self.__name__, args[0])  # type: ignore[return-value]
        raise RuntimeError(
            f"Go function {self.__name__} runs on Millstream workers only: pass it to client.submit, client.map or "
            "dask.delayed instead of calling it"
        )


def _params(name: str, declared: Callable[..., Any]) -> tuple[str, ...]:
    kinds = inspect.Parameter
    out = []
    for p in inspect.signature(declared).parameters.values():
        if p.kind not in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            raise TypeError(
                f"stub of Go function {name}: parameter {p.name} is not positional: Go functions have positional arguments only"
            )
        if p.default is not kinds.empty:
            raise TypeError(f"stub of Go function {name}: parameter {p.name} has a default value, which Go does not support")
        out.append(p.name)
    return tuple(out)


@overload
def go(name: str) -> GoFunction[..., Any]: ...
@overload
def go(name: str, declared: Callable[P, R]) -> GoFunction[P, R]: ...


def go(name: str, declared: Callable[..., Any] | None = None) -> GoFunction[..., Any]:
    """Return a stub for the Go function with this name.

    Without parameters::

        sumsq = millstream.go("sumsq")
        client.submit(sumsq, 3.0, 4.0)

    or with parameters, so that they can be passed by name and are known to type checkers::

        @millstream.go("sumsq")
        def sumsq(x: float, y: float) -> float: ...

        client.submit(sumsq, 3.0, y=4.0)
    """
    return GoFunction(name, declared)


def go_name(task: Any, annotations: Any = None, weak: bool = False) -> str | None:
    """Return the name of the Go function that a task of a graph calls, None for a Python task.

    `task` is a node of a graph (a Dask Task), `annotations` its annotations. With `weak` a function of `__main__` whose
    name begins with `go_` counts, too. internal/dask/gotask in the Go source reads pickles by the same rules.
    """
    named = annotations.get("go") if isinstance(annotations, dict) else None
    if isinstance(named, dict):
        named = named.get("fn")
    if isinstance(named, str) and named:
        return named
    func = getattr(task, "func", None)
    args = getattr(task, "args", None) or ()
    kwargs = getattr(task, "kwargs", None) or {}
    if getattr(func, "__module__", None) == "dask.utils" and getattr(func, "__name__", None) == "apply" and args:
        func, args, kwargs = args[0], (), _items(args[2]) if len(args) > 2 else {}
    elif getattr(func, "__module__", None) == "dask.delayed" and getattr(func, "__name__", None) == "_apply2" and args:
        func, args, kwargs = args[0], args[1:], _items(kwargs.get("dask_kwargs"))  # dask.delayed before 2025.7
    if func is None:
        return None
    name = getattr(func, "__millstream_go__", None)
    if isinstance(name, str):
        return name
    if func is exec:
        return _encoded(args)
    module, name = getattr(func, "__module__", None), getattr(func, "__name__", None)
    if module == "types" and name == "SimpleNamespace":
        name = kwargs.get("go") if isinstance(kwargs, dict) else None
        return name if isinstance(name, str) else None
    if module == "gotask" and isinstance(name, str):
        return name
    if weak and inspect.isfunction(func) and func.__name__.startswith("go_"):
        return func.__name__[3:] or None
    return None


def _items(node: Any) -> dict:
    """Return the items of a dict, or of a Dask Dict container."""
    if isinstance(node, dict):
        return node
    flat = getattr(node, "args", None)
    if type(node).__name__ != "Dict" or not isinstance(flat, (tuple, list)):
        return {}
    out = {}
    for k, v in zip(flat[::2], flat[1::2]):
        try:
            out[k] = v
        except TypeError:  # not a valid key: not a stub
            return {}
    return out


def _encoded(args: Any) -> str | None:
    """Return the name in a call that the Go client encoded: exec(text, {"millstream_go": b"MS…"})."""
    if len(args) != 2:
        return None
    spec = _items(args[1]).get("millstream_go")
    spec = getattr(spec, "value", spec)
    if not isinstance(spec, bytes) or spec[:2] != b"MS" or len(spec) < 5:
        return None
    first = spec[3]
    if 0xA0 <= first <= 0xBF:
        start, size = 4, first & 0x1F
    elif first == 0xD9:
        start, size = 5, spec[4]
    elif first == 0xDA:
        start, size = 6, int.from_bytes(spec[4:6], "big")
    else:
        return None
    return spec[start : start + size].decode(errors="replace") or None
