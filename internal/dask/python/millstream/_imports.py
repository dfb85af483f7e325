"""Thread-safe imports of packages.

Python returns a submodule, such as dask.array.core, as soon as it is initialized, even if another thread is still
running the __init__ of its package. Code that registers itself at the end of that __init__ (dispatch tables, codecs,
backends) is then missing for the first thread. Threads that unpickle tasks are affected at the first import of every
package.

install() makes the threads that run tasks, handlers and the event loop wait for the packages of a submodule first.
"""

import builtins
import functools
import importlib
import sys
import threading

# Parts of the names of threads that wait: the main thread and the executors of Dask workers and of _child. Other threads
# are started by user code, possibly by an import that waits for them: those must not wait for that import.
THREADS = ("MainThread", "Dask-", "millstream")


def install():
    """Replace builtins.__import__, which import statements, __import__ and unpickling call, and importlib.import_module."""
    inner, by_name = builtins.__import__, importlib.import_module

    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        if level == 0 and "." in name:
            load_packages(name, inner)
        return inner(name, globals, locals, fromlist, level)

    @functools.wraps(by_name)
    def import_module(name, package=None):
        if "." in name[1:] and name[:1] != ".":
            load_packages(name, inner)
        return by_name(name, package)

    builtins.__import__ = __import__
    importlib.import_module = import_module


def load_packages(name, load):
    """Import the packages of a module from the top, and wait for those that another thread is initializing.

    Python locks the module before its package: a thread that initializes the package and imports the module then fails
    with a deadlock. Two packages that import each other in two threads behave as in Python: one thread continues with a
    partially initialized package.
    """
    at = name.find(".")
    while at > 0:
        package = name[:at]
        if not_ready(package) and must_wait(threading.current_thread().name):
            load(package)  # returns immediately if this thread is initializing it
        at = name.find(".", at + 1)


def must_wait(thread):
    """Report whether the thread with this name has to wait."""
    return any(part in thread for part in THREADS)


def not_ready(name):
    """Report whether a package is not imported yet, or its __init__ is running."""
    module = sys.modules.get(name)
    return module is None or getattr(getattr(module, "__spec__", None), "_initializing", False)
