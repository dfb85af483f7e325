"""Fetches the paths of the dashboard of Dask's worker from all workers of a scheduler, and tells what they are."""

import urllib.error
import urllib.request

from checks import check, run, tell


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as r:
            return r.status, r.headers.get_content_type(), r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers.get_content_type(), e.read().decode()


def main(client):
    import distributed.dashboard.worker as dashboard

    client.wait_for_workers(2)
    paths = {}
    for address, info in client.scheduler_info(n_workers=-1)["workers"].items():
        base = f"http://{info['host']}:{info['services']['dashboard']}"
        out = paths.setdefault(info["name"], {})
        for path in [*dashboard.applications, "/health", "/metrics", "/sitemap.json", "/nothing"]:
            out[path] = dict(zip(("status", "kind", "page"), fetch(base + path)))
        if info["name"] == "go":
            check("address on the page", address in out["/status"]["page"])
    tell("paths", paths)


run(main)
