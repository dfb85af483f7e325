"""Fetches every path of the dashboard of Dask's scheduler from the scheduler of a client, and tells what it is."""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

import cloudpickle
from checks import check, run, tell, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args, **kwargs):
        return None


def fetch(url, data=None, opener=urllib.request.build_opener()):
    """Status, content type, redirect and body."""
    try:
        with opener.open(urllib.request.Request(url, data=data), timeout=60) as r:
            return r.status, r.headers.get_content_type(), r.url, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers.get_content_type(), e.headers.get("Location", ""), e.read().decode()


def shape(text, kind):
    """The keys of a JSON object, those of names replaced; None for other texts."""
    if kind != "application/json":
        return None
    value = json.loads(text)
    return sorted("ADDRESS" if "://" in k else k for k in value) if isinstance(value, dict) else type(value).__name__


def fail():
    raise ValueError("<b>failed</b>")


def wait(name):
    from distributed import Event

    Event(name).wait(60)


def main(client):
    import distributed.dashboard.scheduler as dashboard
    from distributed import Event

    client.wait_for_workers(1)
    (worker,) = client.scheduler_info(n_workers=-1)["workers"]
    done = client.submit(int, 42, key="done-1")
    done.result()
    erred = client.submit(fail, key="erred-1")
    erred.exception()
    tuple_key = client.get({("pair", 0): (int, 1)}, ("pair", 0), sync=False)
    tuple_key.result()
    waiting = client.submit(wait, "go", key="waiting-1")
    until("a task runs", lambda: any(client.processing().values()))

    link = client.dashboard_link
    check("dashboard_link", link, lambda g: re.fullmatch(r"http://127\.0\.0\.1:\d+/status", g))
    check("html", client._repr_html_(), lambda g: f'href="{link}"' in g)
    base = link[: -len("/status")]
    follow, stay = urllib.request.build_opener(), urllib.request.build_opener(Stay)

    out = {}
    escaped = urllib.parse.quote(worker, safe="")
    paths = {path: path for path in dashboard.applications}
    paths |= {p: p for p in ["/", "/info", "/info/main/workers.html", "/info/main/exceptions.html", "/info/main/logs.html",
                             "/info/task/done-1.html", "/info/task/erred-1.html", "/info/task/none.html",
                             "/info/task/%28%27pair%27%2C%200%29.html",
                             "/info/call-stack/waiting-1.html", "/info/worker/none.html", "/info/logs/none.html",
                             "/info/call-stacks/none.html", "/individual-plots.json", "/json/counts.json",
                             "/json/identity.json", "/json/index.html", "/health", "/metrics", "/sitemap.json",
                             "/api/v1", "/api/v1/get_workers", "/api/v1/adaptive_target",
                             "/api/v1/check_idle", "/api/v1/retire_workers", "/nothing"]}
    paths |= {f"/info/{kind}/ADDRESS.html": f"/info/{kind}/{escaped}.html" for kind in ("worker", "logs", "call-stacks")}
    for name, path in paths.items():
        status, kind, location, text = fetch(base + path, opener=stay)
        final = status
        if status in (301, 302):
            final, kind, _, text = fetch(base + path, opener=follow)
        out[name] = {"status": status, "final": final, "kind": kind, "shape": shape(text, kind),
                     "location": location if status in (301, 302) else "", "page": text[:200000]}
    post = "/api/v1/retire_workers"
    for body in ({}, {"workers": []}, {"workers": ["tcp://none:1"]}, "broken"):
        status, kind, _, text = fetch(base + post, json.dumps(body).encode() if body != "broken" else b"broken")
        out[f"POST {post} {json.dumps(body)}"] = {"status": status, "final": status, "kind": kind, "location": "",
                                                  "shape": shape(text, kind), "page": text}
    tell("worker", worker)
    tell("paths", out)
    Event("go").set()
    waiting.result()
    del done, erred, waiting, tuple_key  # data that cannot be moved keeps a worker
    until("results are forgotten", lambda: not client.who_has())
    status, kind, _, text = fetch(base + post, json.dumps({"n": 1}).encode())
    check("retire_workers", (status, list(json.loads(text))), (200, [worker]))
    check("name in the answer", json.loads(text)[worker]["name"], lambda g: g is not None)
    until("the worker is gone", lambda: not client.scheduler_info(n_workers=-1)["workers"])


run(main)
