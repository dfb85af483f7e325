"""Checks the installed Python peers: import, versions, one round trip of 1 MiB over the loopback interface."""

import asyncio
import importlib.metadata
import os

os.environ.setdefault("UCX_WARN_UNUSED_ENV_VARS", "n")

import distributed_ucxx  # noqa: E402, F401  (the import is the check)
import numpy as np  # noqa: E402
import ucxx  # noqa: E402

SIZE = 1 << 20


async def round_trip() -> None:
    served = asyncio.get_running_loop().create_future()

    async def serve(ep) -> None:
        data = np.empty(SIZE, dtype="u1")
        await ep.recv(data)
        await ep.send(data)
        await ep.close()
        served.set_result(None)

    listener = ucxx.create_listener(serve, 0)
    ep = await ucxx.create_endpoint("127.0.0.1", listener.port)
    sent = np.random.default_rng(1).integers(0, 256, SIZE, dtype="u1")
    got = np.zeros_like(sent)
    await ep.send(sent)
    await ep.recv(got)
    if not np.array_equal(sent, got):
        raise SystemExit("ucxx: received bytes differ from those sent")
    await served
    await ep.close()
    # The task of the handler must end before its listener.
    while listener.active_clients:
        await asyncio.sleep(0.01)
    listener.close()


def main() -> None:
    asyncio.run(asyncio.wait_for(round_trip(), 60))
    versions = {p: importlib.metadata.version(p) for p in ("ucxx-cu12", "distributed-ucxx-cu12", "distributed")}
    ucx = ".".join(map(str, ucxx.get_ucx_version()))
    print("ok:", f"ucx {ucx},", ", ".join(f"{p} {v}" for p, v in versions.items()))


if __name__ == "__main__":
    main()
