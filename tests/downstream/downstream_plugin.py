"""Pytest plugin of run.py: tests that start a cluster get the one at DOWNSTREAM_ADDRESS, and the result of each test is
written to DOWNSTREAM_RESULTS, one line of JSON each."""

import contextlib
import inspect
import json
import os
import re

import pytest

ADDRESS = os.environ["DOWNSTREAM_ADDRESS"]
# Tests that need a scheduler in their own process, or workers that they start: they do not use this cluster.
OWN_CLUSTER = re.compile(r"LocalCluster|gen_cluster|processes=False|InProcCluster")


def forget():
    """Clear the transition log of the scheduler: tests that read it expect that of a new cluster."""
    from distributed import Client

    with Client(ADDRESS, timeout="60s", set_as_default=False) as client:
        client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_log.clear())


def pytest_configure(config):
    from distributed import Client, utils_test

    with Client(ADDRESS, timeout="60s", set_as_default=False) as client:
        workers = [{"address": a} for a in client.scheduler_info(n_workers=-1)["workers"]]

    @contextlib.contextmanager
    def cluster(*args, **kwargs):
        forget()
        yield {"address": ADDRESS}, workers

    utils_test.cluster = cluster


def pytest_collection_modifyitems(config, items):
    def wanted(item):
        source = inspect.getsource(item.function)
        decorators = "".join(str(m) for m in getattr(item.function, "pytestmark", ()))
        return not OWN_CLUSTER.search(source + decorators)

    items[:] = [i for i in items if wanted(i)]


@pytest.fixture
def client():
    """A client of the cluster, for the tests of this folder; those of packages have their own."""
    from distributed import Client

    with Client(ADDRESS, timeout="60s") as c:
        yield c


outcome = {}


def pytest_runtest_logreport(report):
    if report.failed and outcome.get(report.nodeid, ("",))[0] != "failed":
        outcome[report.nodeid] = "failed", report.when + ": " + str(report.longrepr)[-1500:]
    elif report.skipped and report.nodeid not in outcome:
        outcome[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else "skipped", str(report.longrepr)[-300:]
    elif report.when == "call" and report.nodeid not in outcome:
        outcome[report.nodeid] = "passed", ""
    if report.when == "teardown":
        result, text = outcome.get(report.nodeid, ("none", ""))
        with open(os.environ["DOWNSTREAM_RESULTS"], "a", encoding="utf-8") as f:
            f.write(json.dumps({"id": report.nodeid, "outcome": result, "text": text}) + "\n")
