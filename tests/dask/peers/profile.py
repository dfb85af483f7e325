"""Profiles and call stacks of a client, on a Dask worker, a Go worker that runs Python tasks, and Go functions.

Arguments: the scheduler's address, the kind of the scheduler ("dask" or "millstream"), and the addresses of the Dask
worker and of the Go worker.
"""

import os
import sys
import tempfile
import time

import millstream
from checks import attempt, check, raises, run, until
from distributed import Event, get_task_stream, profile

NODE = {"count", "children", "identifier", "description"}
FRAME = {"filename", "name", "line_number", "line"}


def is_tree(state, identifier="root"):
    """Report whether a profile has the form of distributed.profile, with counts that add up."""
    if set(state) != NODE or set(state["description"]) != FRAME or state["identifier"] != identifier:
        return False
    d = state["description"]
    if [type(d[k]) for k in ("filename", "name", "line_number", "line")] != [str, str, int, str]:
        return False
    children = state["children"]
    return sum(c["count"] for c in children.values()) <= state["count"] and all(is_tree(c, k) for k, c in children.items())


def names(state):
    out = {state["description"]["name"]}
    for child in state["children"].values():
        out |= names(child)
    return out


def is_stack(lines):
    return len(lines) > 0 and all(line.startswith('  File "') and ", line " in line and ", in " in line for line in lines)


def hold(name):
    Event(name + "-begun").set()
    Event(name + "-end").wait(60)


def busy_function(seconds):
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        n += 1
    return n


def main(client):
    kind, py, go = sys.argv[2:5]
    client.wait_for_workers(2, timeout=60)
    check("empty", client.profile(key="no-such-prefix"), profile.create())
    profiles(client, kind, py, go)
    stacks(client, kind, py, go)
    if kind == "millstream":
        files(client)


def profiles(client, kind, py, go):
    before = time.time()
    until("tasks of the Dask worker", lambda: sampled(client, py, lambda: client.submit(busy_function, 0.5, workers=[py], pure=False), "busy_function"))
    until("Python tasks of the Go worker", lambda: sampled(client, go, lambda: client.submit(busy_function, 0.5, workers=[go], pure=False), "busy_function"))
    pause = lambda: client.submit(millstream.go("pause"), 0.5, [1.0], workers=[go], pure=False)  # noqa: E731
    until("Go tasks", lambda: sampled(client, go, pause, lambda names: any("dask.init" in n for n in names)))
    both = client.profile()
    check("form", is_tree(both))
    check("count", both["count"] > 0)
    check("no servers", [n for n in names(both) if "childproc" in n or "pyproc" in n], [])
    check("merged", "busy_function" in names(both) and any("dask.init" in n for n in names(both)))
    one = client.profile(workers=[py])
    check("one worker", is_tree(one) and not any("dask.init" in n for n in names(one)))
    by_worker = client.profile(merge_workers=False)
    check("by worker", set(by_worker), {py, go})
    check("forms by worker", [is_tree(t) for t in by_worker.values()], [True, True])
    check("key", "busy_function" in names(client.profile(key="busy_function")))
    check("another key", "busy_function" not in names(client.profile(key="pause")))
    check("from the start", "busy_function" in names(client.profile(start=before - 1)))
    check("after now", client.profile(start=time.time() + 100)["count"], 0)
    check("before the start", client.profile(stop=before - 100, workers=[go])["count"], 0)
    check("server", is_tree(client.profile(server=True)))
    until("scheduler", lambda: is_tree(client.profile(scheduler=True)) and (kind == "dask" or client.profile(scheduler=True)["count"] > 0))
    check("data of a plot", len(profile.plot_data(both)["name"]) > 2)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "profile.html")
        state, _ = client.profile(filename=path)
        check("file", is_tree(state) and "busy_function" in open(path).read())


def sampled(client, worker, submit, want):
    """Run a task, and report whether its function is in the profile of its worker."""
    submit().result(60)
    got = names(client.profile(workers=[worker]))
    return want(got) if callable(want) else want in got


def stacks(client, kind, py, go):
    futures = [client.submit(hold, n, key=f"hold-{n}", workers=[w]) for n, w in (("a", py), ("b", go))]
    for n in "ab":
        Event(n + "-begun").wait(60)
    paused = client.submit(millstream.go("pause"), 600, [1.0], key="pause-c", workers=[go])
    keys = lambda s: {(w, k) for w, d in s.items() for k in d}  # noqa: E731
    until("call_stack", lambda: keys(client.call_stack()) == {(py, "hold-a"), (go, "hold-b"), (go, "pause-c")})
    got = client.call_stack()
    check("lines", [is_stack(lines) for d in got.values() for lines in d.values()], [True] * 3)
    check("Python function", "in hold" in "".join(got[go]["hold-b"]) and "in wait" in "".join(got[go]["hold-b"]))
    check("Go function", "worker_go_test.go" in "".join(got[go]["pause-c"]))
    check("of futures", keys(client.call_stack([futures[1], paused])), {(go, "hold-b"), (go, "pause-c")})
    after = client.submit(lambda x: x, futures[0])

    def dependencies():
        try:
            return keys(client.call_stack([after]))
        except KeyError:  # the scheduler has not received the graph yet
            return None

    until("of what a future waits for", lambda: dependencies() == {(py, "hold-a")})
    check("of keys", keys(client.call_stack(keys=["pause-c"])), {(go, "pause-c")})
    if kind == "millstream":
        raises("of an unknown key", KeyError, lambda: client.call_stack(keys=["unknown"]), "unknown")
    paused.cancel()
    for n in "ab":
        Event(n + "-end").set()
    after.result(60)
    until("nothing runs", lambda: client.call_stack() == {})


def files(client):
    client.submit(busy_function, 0.1, pure=False).result(60)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "stream.html")
        with get_task_stream(client, plot="save", filename=path) as stream:
            client.submit(busy_function, 0.01, pure=False).result(60)
        check("get_task_stream", [t["key"].split("-")[0] for t in stream.data], ["busy_function"])
        check("its file", "busy_function" in open(path).read())
        with millstream.get_task_stream(client, filename=path) as stream:
            client.submit(busy_function, 0.01, pure=False).result(60)
        check("get_task_stream of Millstream", [t["key"].split("-")[0] for t in stream.data], ["busy_function"])
        text = open(path).read()
        check("its file is self-contained", 'id="data"' in text and "https://" not in text and "<script src" not in text)
        with millstream.get_task_stream(client) as stream:
            pass
        check("nothing ran", stream.data, [])
    attempt("get_worker_logs", lambda: client.get_worker_logs(), lambda g: len(g) == 2)
    attempt("get_events", lambda: client.get_events("all"), lambda g: len(g) > 0)


run(main)
