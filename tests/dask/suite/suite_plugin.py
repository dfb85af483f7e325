"""Pytest plugin of a shard: it keeps a client of the shard's cluster as default scheduler, runs only the selected
tests, and records the result and the number of tasks of each."""

import inspect
import json
import os
import re
import time

import pytest
import suite_patch


class Recorder:
    """Writes results to a file, one line of JSON for each test, immediately."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, **entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()


class Plugin:
    """One call of pytest: some tests of one file."""

    def __init__(self, shard, recorder, wanted, slow):
        self.shard = shard  # has a cluster and a client, or neither
        self.recorder = recorder
        self.wanted = wanted
        self.slow = slow
        self.reports = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        keep = [i for i in items if i.nodeid in self.wanted] if self.wanted is not None else items[:]
        items[:] = keep
        if not self.slow:
            for item in items:
                if item.get_closest_marker("slow"):
                    item.add_marker(pytest.mark.skip(reason="slow"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.reports = {"outcome": None, "text": ""}
        self.recorder.write(start=item.nodeid)
        before = self.shard.before()
        clusters = suite_patch.clusters
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            seconds = time.monotonic() - begin
            tasks, healthy = self.shard.after(before)
            used = suite_patch.clusters > clusters
            self.recorder.write(
                id=item.nodeid, outcome=self.reports["outcome"] or "none", tasks=tasks, cluster=used, seconds=round(seconds, 3),
                text=self.reports["text"][-1500:],
            )
            if not healthy:
                self.shard.renew()

    def pytest_runtest_logreport(self, report):
        r = self.reports
        if report.failed:
            # The first failure counts: the teardown of a test may fail because the test did.
            if r["outcome"] != "failed":
                r["outcome"] = "failed"
                r["text"] = report.when + ": " + str(report.longrepr)
        elif report.skipped:
            if r["outcome"] is None:
                r["outcome"] = "xfailed" if hasattr(report, "wasxfail") else "skipped"
                r["text"] = str(report.longrepr)[-300:]
        elif report.when == "call" and r["outcome"] is None:
            r["outcome"] = "passed"


def external(item):
    """Report whether a test of distributed, or of test_distributed.py, uses a cluster in other processes; the others run
    Dask schedulers in their own process. All tests of dask count."""
    if "distributed" not in item.nodeid:
        return True
    if {"cluster_fixture", "tls_cluster"} & set(item.fixturenames):
        return True
    try:
        return re.search(r"(?<![\w.])cluster\(", inspect.getsource(item.function)) is not None
    except (OSError, TypeError):
        return False


def fixtures(file):
    """Return arguments that load the fixtures of distributed, as the conftest.py of its repository does."""
    return ["-p", "distributed.utils_test"] if "/distributed/tests/" in file else []


def collect(files, ini, root):
    """Return the ids of all tests of some files."""

    class Collector:
        ids = []
        broken = []

        def pytest_collection_finish(self, session):
            self.ids = [i.nodeid for i in session.items if external(i)]

        def pytest_collectreport(self, report):
            if report.failed:
                self.broken.append((report.nodeid, str(report.longrepr)[-500:]))

    c = Collector()
    pytest.main([*files, *fixtures(files[0]), "--collect-only", "-qq", "-c", ini, "--rootdir", root, "-p", "no:cacheprovider", "--capture=no"], plugins=[c])
    return c.ids, c.broken


def run(file, wanted, shard, recorder, ini, root, timeout, slow):
    """Run tests of a file in this process."""
    args = [
        file, *fixtures(file), "-c", ini, "--rootdir", root, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", f"--timeout={timeout}",
        "--timeout-method=signal", "--basetemp", os.path.join(os.environ["SUITE_TEMP"], "t"),
    ]
    return pytest.main(args, plugins=[Plugin(shard, recorder, wanted, slow)])
