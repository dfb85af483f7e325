"""Sends /json/counts.json and the records of the task stream of a scheduler with one Dask worker to the test."""

import json
import urllib.request

from checks import check, run, tell, until
from distributed import Event, get_client, wait


KEPT_AS_TEXT = ("exception", "traceback")  # Millstream keeps exception_text and traceback_text


def inc(x):
    return x + 1


def fail(x):
    raise ValueError("wrong")


def block(x):
    client = get_client()
    Event("running", client=client).set()
    Event("end", client=client).wait(120)
    return x


def describe(record, workers):
    """A record without times and other values that differ from run to run."""
    out = {name: record.get(name) for name in ("key", "status", "nbytes", "typename", "metadata", "exception_text", "cause")}
    out["fields"] = sorted(name for name in record if name not in KEPT_AS_TEXT)
    out["type"], out["worker"] = str(record.get("type")), record["worker"] in workers
    # A Dask worker that pauses for 5 ms next to its data reports an access to the disk.
    out["actions"] = [s["action"] for s in record["startstops"] if s["action"] not in ("disk-read", "disk-write")]
    return out


def main(client):
    client.get_task_stream()  # Dask records from the first call on
    a = client.submit(inc, 1, key="a")
    b = client.submit(inc, a, key="b")
    failed = client.submit(fail, a, key="failed")
    after = client.submit(inc, failed, key="after")
    wait([a, b, failed, after])
    unrunnable = client.submit(inc, 5, key="unrunnable", resources={"NONE": 1})
    running = client.submit(block, a, key="running")
    waiting = client.submit(inc, running, key="waiting")
    check("running", Event("running").wait(60))
    states = {"unrunnable": "no-worker", "running": "processing", "waiting": "waiting"}
    until("states", lambda: client.sync(client.scheduler.get_task_status, keys=list(states)) == states)
    port = client.scheduler_info()["services"]["dashboard"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/counts.json") as f:
        counts = json.load(f)
    # It is 2 once a heartbeat says that the blocked task has run for more than 2.25 s.
    counts["desired_workers"] = min(counts["desired_workers"], 1)
    tell("counts", counts)
    workers = client.scheduler_info()["workers"]
    tell("records", [describe(r, workers) for r in sorted(client.get_task_stream(), key=lambda r: r["key"])])
    Event("end").set()
    check("end", waiting.result(60), 3)
    del unrunnable


if __name__ == "__main__":
    run(main)
