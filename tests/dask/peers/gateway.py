"""A server of dask-gateway, with its proxy, that starts Millstream schedulers. Arguments: command, folder."""

import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from checks import check, until

CONFIG = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address = "127.0.0.1:{api}"
c.Proxy.address = "127.0.0.1:{proxy}"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.ClusterConfig.scheduler_cmd = {scheduler!r}
c.ClusterConfig.worker_cmd = {worker!r}
c.ClusterConfig.cluster_start_timeout = 120
c.ClusterConfig.worker_start_timeout = 120
c.ClusterConfig.adaptive_period = 0.5
c.DBBackendBase.cluster_heartbeat_period = 2
c.DBBackendBase.cluster_heartbeat_timeout = 120
c.LocalBackend.clusters_directory = {folder!r}
c.LocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "HOME"]
"""


def main(command, folder):
    server, proxy = start(command, folder)
    try:
        run(proxy)
    finally:
        server.terminate()
        check("exit code of the server", server.wait(120), lambda code: code in (0, -15))


def start(command, folder):
    """Start a server; another one with other ports if these are in use by then."""
    for attempt in range(5):
        api, proxy = free_ports(2)
        config = os.path.join(folder, f"config-{attempt}.py")
        with open(config, "w") as f:
            f.write(CONFIG.format(
                api=api, proxy=proxy, folder=os.path.join(folder, "clusters"), scheduler=[command, "scheduler", "--python", sys.executable],
                worker=[sys.executable, "-m", "distributed.cli.dask_worker"],
            ))  # fmt: skip
        server = subprocess.Popen([sys.executable, "-m", "dask_gateway_server", "-f", config], stdout=sys.stderr, cwd=folder)
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{proxy}/api/health", timeout=5).read()
                return server, proxy
            except urllib.error.HTTPError as e:
                e.close()
                if e.code != 404:  # the proxy has no route yet
                    return server, proxy
            except OSError:
                pass
            time.sleep(0.2)
    raise RuntimeError("the server of dask-gateway did not start")


def free_ports(n):
    """Return ports below those that the system assigns, so that other processes do not take them before the server does."""
    ports = set()
    while len(ports) < n:
        port = random.randrange(10240, 32768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.add(port)
    return sorted(ports)


def run(proxy):
    from dask_gateway import BasicAuth, Gateway

    with Gateway(f"http://127.0.0.1:{proxy}", proxy_address=f"tls://127.0.0.1:{proxy}", auth=BasicAuth("user")) as gateway:
        with gateway.new_cluster() as cluster, cluster.get_client() as client:
            check("a Millstream scheduler", "millstream" in client.sync(client.scheduler.identity))
            cluster.scale(2)
            client.wait_for_workers(2, timeout=120)
            check("results", client.gather(client.map(lambda x: x * 2, range(10))), [2 * x for x in range(10)])
            cluster.scale(1)
            until("one worker less", lambda: len(client.scheduler_info()["workers"]) == 1, 120)
            check("results again", client.submit(sum, [1, 2, 3]).result(120), 6)
            cluster.adapt(minimum=0, maximum=2)
            until("no worker without tasks", lambda: not client.scheduler_info()["workers"], 120)
            check("a worker for a task", client.submit(lambda: 1).result(120), 1)
            check("clusters", [c.status.name for c in gateway.list_clusters()], ["RUNNING"])
        until("no cluster", lambda: not gateway.list_clusters(), 120)


if __name__ == "__main__":
    main(*sys.argv[2:])
