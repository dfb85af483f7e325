"""Runs the program on standard input with a client of the scheduler at the address in the first argument."""

import importlib
import operator
import re
import sys
import time

import dask
import distributed
from checks import attempt, check, connect, raises, tell, until
from distributed import wait

# Imported only if the program uses them: they are slow.
MODULES = {
    "da": "dask.array",
    "dd": "dask.dataframe",
    "db": "dask.bag",
    "np": "numpy",
    "pd": "pandas",
    "pa": "pyarrow",
    "millstream": "millstream",
}

if __name__ == "__main__":
    source = sys.stdin.read()
    with connect() as client:
        names = {
            "__name__": "__main__", "client": client, "check": check, "raises": raises, "tell": tell, "until": until,
            "attempt": attempt, "connect": connect, "wait": wait, "args": sys.argv[2:], "dask": dask,
            "distributed": distributed, "operator": operator, "time": time, "sys": sys,
        }
        for name, module in MODULES.items():
            if re.search(rf"\b{name}\.", source):
                names[name] = importlib.import_module(module)
        if "pa" in names:
            importlib.import_module("pyarrow.fs")  # Dask 2025.4 uses it without importing it
        exec(compile(source, "<test>", "exec"), names)
