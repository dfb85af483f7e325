"""First program of every Python child: python -c THIS MODULE SETTINGS.

It reads the millstream package from standard input into memory, so that nothing is written to disk, isolates itself,
and runs millstream._child.
"""

import sys


def load():
    import importlib.abc
    import importlib.util
    import json
    import os

    modules = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    packages = {name.rpartition(".")[0] for name in modules} | {"millstream"}

    class Loader(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
        """Import the received modules. It is first on sys.meta_path, so that it precedes an installed millstream."""

        def find_spec(self, name, path=None, target=None):
            if name not in modules:
                return None
            return importlib.util.spec_from_loader(name, self, origin=self.get_filename(name), is_package=name in packages)

        def get_filename(self, name):
            return "<millstream>/" + name.replace(".", "/") + ".py"

        def get_source(self, name):
            return modules[name]

        def get_code(self, name):
            return compile(modules[name], self.get_filename(name), "exec", dont_inherit=True)

        def is_package(self, name):
            return name in packages

    if sys.path and sys.path[0] == "":
        del sys.path[0]  # python -c adds the working directory
    sys.meta_path.insert(0, Loader())


def start():
    import json

    load()
    from millstream import _child

    _child.main(sys.argv[1], json.loads(sys.argv[2]))


if __name__ == "__main__":
    start()
