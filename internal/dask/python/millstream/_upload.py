"""Files that clients uploaded (Client.upload_file), for the imports of functions and graphs.

Nothing is written to disk: a module is imported from memory, an archive from an anonymous file.
"""

import importlib
import importlib.abc
import importlib.util
import os
import sys


class Uploaded(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports uploaded modules."""

    def __init__(self):
        self.sources = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return importlib.util.spec_from_loader(name, self, origin=f"<uploaded>/{name}.py")

    def get_source(self, name):
        return importlib.util.decode_source(self.sources[name])

    def get_code(self, name):
        return compile(self.sources[name], f"<uploaded>/{name}.py", "exec", dont_inherit=True)


finder = Uploaded()
archives = {}  # file name -> descriptor


def setup(peer):
    """Register the op with which the scheduler sends files."""
    peer.handle("upload-file", lambda body, frames: install(body["filename"], bytes(frames[0]), body.get("load", True)))


def install(filename, data, load=True):
    """Make a file importable, and import it if load is set, as Dask servers do."""
    name, ext = os.path.splitext(os.path.basename(filename))
    names = []
    if ext == ".py":
        finder.sources[name] = data
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)
        names = [name]
    elif ext in (".egg", ".zip", ".pyz"):
        import pkgutil

        old = archives.pop(filename, None)
        if old is not None:
            sys.path.remove(f"/proc/self/fd/{old}")
        fd = os.memfd_create(filename)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        archives[filename] = fd
        path = f"/proc/self/fd/{fd}"
        sys.path.insert(0, path)
        importlib.invalidate_caches()
        names = [m.name for m in pkgutil.iter_modules([path])]
    if load:
        for n in names:
            sys.modules.pop(n, None)  # uploaded earlier
            importlib.import_module(n)
    return {"status": "OK", "nbytes": len(data)}
