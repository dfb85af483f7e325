"""What the dashboard of a Millstream scheduler shows of two Dask workers."""

import json
import sys
import urllib.parse
import urllib.request

# Modules of the tests are not on the path of workers and helpers.
import cloudpickle
from checks import attempt, check, run, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(client):
    client.wait_for_workers(2)
    a, b = sorted(client.nthreads())
    base = urllib.parse.urljoin(client.dashboard_link, "/")

    def page(path):
        with urllib.request.urlopen(base + path) as r:
            return json.load(r)

    def fail():
        raise ValueError("on purpose")

    x = client.submit(lambda: b"x" * 3_000_000, key="make-0", workers=[a])
    y = client.submit(len, x, key="measure-0", workers=[b])
    z = client.submit(fail, key="fail-0")
    check("result", y.result(), 3_000_000)
    attempt("error", lambda: isinstance(z.exception(), ValueError), True)

    found = {}

    def complete():
        """Read the spans that are in the history so far, by name and key, with their rows."""
        rows = page("millstream/rows.json")
        for s in page("millstream/spans.json")["spans"]:
            if s["cat"] < len(rows["names"]) and s["row"] < len(rows["rows"]):
                found[rows["names"][s["cat"]], s.get("key", "")] = s | {"of": rows["rows"][s["row"]]}
        return {("make", "make-0"), ("measure", "measure-0"), ("error", "fail-0"), ("transfer", "")} <= set(found)

    until("spans", complete)
    for name, key, worker in (("make", "make-0", a), ("measure", "measure-0", b), ("error", "fail-0", None)):
        s = found.get((name, key))
        check(f"span of {key}", s is not None and s["stop"] >= s["start"], True)
        if worker and s:
            check(f"worker of {key}", s["of"]["worker"], worker)
            check(f"row of {key}", s["of"]["kind"], "thread")
    moved = found.get(("transfer", ""))
    check("transfer", moved is not None and moved["peer"], a)
    check("row of the transfer", moved and moved["of"]["worker"], b)

    counts = page("json/counts.json")
    progress = page("millstream/progress.json")["prefixes"]
    states = ("waiting", "queued", "no_worker", "processing", "memory", "erred", "released")
    check("tasks", sum(p[state] for p in progress for state in states), counts["tasks"])
    check("erred", sum(p["erred"] for p in progress), counts["erred"])
    until("memory is known", lambda: all(w["memory"]["rss"] > 0 for w in page("millstream/workers.json")["workers"]))
    workers = {w["address"]: w for w in page("millstream/workers.json")["workers"]}
    check("workers", sorted(workers), [a, b])
    check("threads", sum(w["threads"] for w in workers.values()), counts["cores"])
    failed = lambda: [f["key"] for f in page("millstream/failures.json")["failures"] if f["kind"] == "task-erred"]  # noqa: E731
    until("failure", lambda: failed() == ["fail-0"])
    check("story", page("millstream/story.json?key=measure-0")["events"][-1]["to"], "memory")
    check("pairs", [(p["from"], p["to"]) for p in page("millstream/bandwidth.json")["pairs"]], [(a, b)])
    check("log of a worker", len(page("millstream/logs.json?worker=" + urllib.parse.quote(a))["lines"]) > 0, True)
    kinds = {f["kind"] for f in page("millstream/why.json")["findings"]}
    check("critical path", "critical-path" in kinds, True)


run(main)
