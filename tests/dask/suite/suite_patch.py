"""Replaces the scheduler of the suites: `assert_eq` does not use the synchronous one, and
distributed.utils_test.cluster() starts that of Millstream."""

import os
import subprocess
import tempfile
import threading

from suite_cluster import die_with_parent, scheduler_args

# Number of calls of cluster(): a test that changes it has used an external cluster.
clusters = 0


def patch_assert_eq():
    """Make every `assert_eq` that defaults to the synchronous scheduler use the default one."""
    import importlib

    patched = []
    for name in (
        "dask.array.utils", "dask.bag.utils", "dask.dataframe.utils", "dask.dataframe.dask_expr.tests._util", "dask.array._array_expr._utils",
    ):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        function = getattr(module, "assert_eq", None)
        if function is None or not getattr(function, "__defaults__", None):
            continue
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = list(function.__defaults__)
        first = len(names) - len(defaults)
        for i, value in enumerate(defaults):
            if names[first + i] == "scheduler" and value in ("sync", "synchronous"):
                defaults[i] = None
                patched.append(name)
        function.__defaults__ = tuple(defaults)
    return patched


def hide_runner():
    """Remove the frames of the runner from the source code that clients send with graphs, and keep those of the tests,
    one of which checks it."""
    import dask
    import distributed  # noqa: F401  its defaults

    name = "distributed.diagnostics.computations.ignore-modules"
    ignored = [r"distributed(?!\.tests)" if m == "distributed" else m for m in dask.config.get(name)]
    dask.config.set({name: [*ignored, "suite_", "__main__"]})


def patch_cluster(ours):
    """Count the calls of cluster(), and with ours make it start the Millstream scheduler."""
    from distributed import utils_test

    original = utils_test.run_scheduler

    def counting(*args, **kwargs):
        global clusters
        clusters += 1
        return whole(*args, **kwargs)

    whole = utils_test.cluster
    utils_test.cluster = counting
    if ours:
        assert original.__name__ == "run_scheduler"
        utils_test.run_scheduler = run_scheduler


def run_scheduler(q, nputs, config, port=0, **kwargs):
    """Replacement of distributed.utils_test.run_scheduler, in a process that cluster() started."""
    die_with_parent()
    try:
        address = _start(config, kwargs)
    except Exception as e:  # noqa: BLE001
        for _ in range(nputs):
            q.put(RuntimeError(f"millstream scheduler: {e}"))
        return
    for _ in range(nputs):
        q.put(address)
    threading.Event().wait()  # cluster() kills this process, which ends the scheduler


def _start(config, kwargs):
    import yaml

    folder = tempfile.mkdtemp(prefix="suite-")
    env = dict(os.environ)
    env.pop("DASK_INTERNAL_INHERIT_CONFIG", None)
    # The settings of config_for_cluster_tests, and those of the test.
    settings = {"distributed.admin.tick.interval": "500 ms", **config}
    nested = {}
    for key, value in settings.items():
        at = nested
        *path, last = key.replace("__", ".").split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    with open(os.path.join(folder, "test.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump(nested, f)
    env["DASK_CONFIG"] = folder
    args = scheduler_args(True, os.environ["SUITE_MILLSTREAM"], os.environ["SUITE_PYTHON"])
    if "dashboard_address" in kwargs:
        args += ["--dashboard-address", "127.0.0.1:" + str(kwargs["dashboard_address"]).rpartition(":")[2]]  # the last one counts
    security = kwargs.get("security")
    if security is not None:
        args += ["--protocol", "tls", "--tls-ca-file", security.tls_ca_file, "--tls-cert", security.tls_scheduler_cert]
        args += ["--tls-key", security.tls_scheduler_key]
    log = open(os.path.join(os.environ.get("SUITE_LOGS", folder), "clusters.log"), "ab")  # noqa: SIM115
    p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=env, preexec_fn=die_with_parent, text=True)
    for line in p.stdout:
        if line.startswith("scheduler at "):
            threading.Thread(target=p.stdout.read, daemon=True).start()
            return line.split()[2]
    raise RuntimeError(f"scheduler exited with {p.wait()}; its log is {log.name}")
