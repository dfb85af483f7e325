"""Runs the code cells of a notebook, in order and in one namespace, against the scheduler at the address in the first
argument; the second is the notebook. A cell that raises fails the test, and so does a notebook without code."""

import json
import os
import sys

from checks import check

if __name__ == "__main__":
    os.environ["SCHEDULER_ADDRESS"] = sys.argv[1]
    with open(sys.argv[2]) as f:
        notebook = json.load(f)
    check("format", (notebook["nbformat"], bool(notebook["metadata"])), (4, True))
    names = {"__name__": "__main__"}
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    for i, source in enumerate(cells):
        try:
            exec(compile(source, f"<cell {i}>", "exec"), names)
        except Exception as e:  # noqa: BLE001 - reported with the cell that raised it
            check(f"cell {i}", f"{type(e).__name__}: {e}", "no exception")
            raise
    check("cells", len(cells) > 3, True)
    check("outputs are not kept", [c.get("outputs") for c in notebook["cells"] if c.get("outputs")], [])
