"""Reads the results of runs and compares two of them."""

import glob
import json
import os
import re


def load(folder):
    """Return {id: entry} of a run; the last result of a test counts. A test that was running when a run was stopped has
    none."""
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl")), key=os.path.getmtime):
        for entry in entries(path):
            if "id" in entry:
                out[entry["id"]] = entry
    return out


def entries(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            try:
                yield json.loads(line)
            except ValueError:
                continue  # truncated because its writer was killed


def crashed(path):
    """Record that the running test crashed a shard that ended or hung."""
    started = None
    if os.path.exists(path):
        for entry in entries(path):
            started = entry.get("start", None)
    if started is None:
        return
    entry = {"id": started, "outcome": "crashed", "tasks": 0, "cluster": True, "seconds": 0, "text": "its process ended or hung"}
    with open(path, "a", encoding="utf-8") as f:
        f.write("\n" + json.dumps(entry) + "\n")


def reasons(path, mode):
    """Return [(pattern, reason)] of a file of reasons for a mode."""
    import tomllib

    if not os.path.exists(path):
        return []
    with open(path, "rb") as f:
        entries = tomllib.load(f).get("difference", [])
    return [(re.compile(e["test"]), e["reason"]) for e in entries if mode in e.get("modes", [mode])]


PASSED = ("passed",)


def compare(dask, ours, known, suite):
    """Compare only tests that reached the scheduler. Return a dict of what to print."""
    reached = []
    for id in sorted(dask):
        a, b = dask[id], ours.get(id)
        if b is None:
            continue
        # A test that fails before its first task on one side has reached the other.
        if a["tasks"] or b["tasks"] or a["cluster"] or b["cluster"] or "crashed" in (a["outcome"], b["outcome"]):
            reached.append(id)
    differences, better = [], []
    for id in reached:
        a, b = dask[id]["outcome"], ours[id]["outcome"]
        if a in PASSED and b not in PASSED:
            reason = next((r for p, r in known if p.search(id)), None)
            differences.append((id, b, reason, ours[id]["text"]))
        elif b in PASSED and a not in PASSED:
            better.append((id, a, dask[id]["text"]))
    count = lambda run: sum(1 for id in reached if run[id]["outcome"] in PASSED)  # noqa: E731
    return {
        "suite": suite, "run": len(dask), "both": len(set(dask) & set(ours)), "reached": len(reached), "dask": count(dask), "ours": count(ours),
        "tasks": sum(ours[id]["tasks"] for id in reached), "differences": differences, "better": better,
    }


def show(mode, c, verbose=True):
    print(f"{c['suite']}, {mode}: {c['both']} tests were run on both schedulers, {c['reached']} reached them ({c['tasks']} tasks on ours)")
    print(f"  passed with the Dask scheduler  {c['dask']}")
    print(f"  passed with ours                {c['ours']}")
    print(f"  pass with Dask and not with ours: {len(c['differences'])}; vice versa: {len(c['better'])}")
    for id, outcome, reason, text in c["differences"]:
        print(f"  {outcome:8} {id}")
        print(f"           reason: {reason or 'UNEXPLAINED'}")
        if verbose and not reason:
            last = [line for line in text.strip().splitlines() if line.strip()]
            for line in last[-3:]:
                print(f"           | {line.strip()[:180]}")
    unexplained = [d for d in c["differences"] if not d[2]]
    print(f"  unexplained differences: {len(unexplained)}")
    return len(unexplained)
