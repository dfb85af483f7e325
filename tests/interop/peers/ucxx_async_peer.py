"""UCXX peer with the asyncio API, driven by JSON lines (see peerlib).

    python ucxx_async_peer.py [--progress-mode thread] [--python-future]

Operations (arguments; reply), where ep is the name of an endpoint:
    info            (; ucxx, ucx, pid, progress_mode)
    listen          (port=0; port), then events accepted (ep, send_tag, recv_tag)
    close_listener  ()
    connect         (host, port, timeout=5; ep, send_tag, recv_tag)
    address         (; address in hex)
    connect_address (address; ep) - such an endpoint has no tags: use force_tag
    send            (ep, data, tag, force_tag, kind)
    recv            (ep, size, tag, force_tag, kind; size, sha256)
    worker_recv     (size, tag; size, sha256)
    send_obj        (ep, data, tag)          recv_obj (ep, tag; size, sha256)
    send_multi      (ep, frames=[data], tag, force_tag)
    recv_multi      (ep, tag, force_tag, careful; frames=[{size, sha256}]) - careful
                    is needed for more than 100 frames, see recv_multi_careful
    am_send         (ep, data)               am_recv (ep; size, sha256)
    echo            (ep, count, size) - receives and sends back on the default tag
    probe           (ep, tag, force_tag; matched, length)
    alive           (ep; alive)
    wait_closed     (ep, timeout=10; closed)
    close, abort    (ep)
    quit            ()
"""

import argparse
import asyncio
import os

import peerlib

OUT = peerlib.take_stdout()

import ucxx  # noqa: E402
from ucxx._lib_async.utils import hash64bits  # noqa: E402
from ucxx.types import Tag, TagMaskFull  # noqa: E402


class Peer:
    def __init__(self, lines, mode):
        self.lines = lines
        self.mode = mode
        self.endpoints = {}
        self.closed = {}
        self.listener = None
        self.tasks = set()

    def keep(self, ep):
        """Name an endpoint and keep it: UCXX closes endpoints without references."""
        name = f"ep{len(self.closed) + 1}"
        self.endpoints[name] = ep
        self.closed[name] = asyncio.Event()
        loop = asyncio.get_running_loop()
        ep.set_close_callback(lambda: loop.call_soon_threadsafe(self.on_closed, name))
        tags = ep._tags or {}
        return {
            "ep": name,
            "send_tag": tags.get("msg_send"),
            "recv_tag": tags.get("msg_recv"),
        }

    def on_closed(self, name):
        self.closed[name].set()
        self.lines.event("closed", ep=name)

    async def accepted(self, ep):
        self.lines.event("accepted", **self.keep(ep))

    async def op_info(self, c):
        return {
            "ucxx": ucxx.__version__,
            "ucx": ucxx.__ucx_version__,
            "pid": os.getpid(),
            "progress_mode": self.mode,
        }

    async def op_listen(self, c):
        self.listener = ucxx.create_listener(self.accepted, port=c.get("port", 0))
        return {"port": self.listener.port}

    async def op_close_listener(self, c):
        self.listener.close()
        self.listener = None

    async def op_connect(self, c):
        timeout = c.get("timeout", 5.0)
        ep = await ucxx.create_endpoint(c["host"], c["port"], connect_timeout=timeout)
        return self.keep(ep)

    async def op_address(self, c):
        return {"address": bytes(ucxx.get_worker_address()).hex()}

    async def op_connect_address(self, c):
        address = ucxx.get_ucx_address_from_buffer(bytes.fromhex(c["address"]))
        return self.keep(await ucxx.create_endpoint_from_worker_address(address))

    def tag(self, c):
        return {"tag": c.get("tag"), "force_tag": c.get("force_tag", False)}

    async def op_send(self, c):
        data = peerlib.make_data(c["data"], c.get("kind", "numpy"))
        await self.endpoints[c["ep"]].send(data, **self.tag(c))

    async def op_recv(self, c):
        room = peerlib.make_room(c["size"], c.get("kind", "numpy"))
        await self.endpoints[c["ep"]].recv(room, **self.tag(c))
        return peerlib.describe(room)

    async def op_worker_recv(self, c):
        room = peerlib.make_room(c["size"])
        await ucxx.recv(room, tag=c["tag"])
        return peerlib.describe(room)

    async def op_send_obj(self, c):
        await self.endpoints[c["ep"]].send_obj(
            peerlib.make_data(c["data"]), tag=c.get("tag")
        )

    async def op_recv_obj(self, c):
        data = await self.endpoints[c["ep"]].recv_obj(tag=c.get("tag"))
        return peerlib.describe(data)

    async def op_send_multi(self, c):
        frames = [peerlib.make_data(f) for f in c["frames"]]
        await self.endpoints[c["ep"]].send_multi(frames, **self.tag(c))

    async def op_recv_multi(self, c):
        ep = self.endpoints[c["ep"]]
        if c.get("careful", False):
            frames = await self.recv_multi_careful(ep, **self.tag(c))
        else:
            frames = await ep.recv_multi(**self.tag(c))
        return {"frames": [peerlib.describe(f) for f in frames]}

    async def recv_multi_careful(self, ep, tag, force_tag):
        """Receive more than 100 frames with UCXX 0.52.

        Its receive counts the frames of each header in turn and completes when as many
        frames have arrived as it has counted so far: if those of the first header have
        arrived already, recv_multi returns before the others, which are then written
        through a stale pointer. So this waits for every part.
        """
        if tag is None:
            tag = ep._tags["msg_recv"]
        elif not force_tag:
            tag = hash64bits(ep._tags["msg_recv"], hash(tag))
        request = ep._ep.tag_recv_multi(Tag(tag), TagMaskFull)
        while not request.all_completed:
            await asyncio.sleep(0)
        for part in request.requests:
            part.check_error()
        return request.py_buffers

    async def op_am_send(self, c):
        await self.endpoints[c["ep"]].am_send(peerlib.make_data(c["data"]))

    async def op_am_recv(self, c):
        return peerlib.describe(await self.endpoints[c["ep"]].am_recv())

    async def op_echo(self, c):
        ep, room = self.endpoints[c["ep"]], peerlib.make_room(c["size"])
        for _ in range(c["count"]):
            await ep.recv(room)
            await ep.send(room)

    async def op_probe(self, c):
        found = self.endpoints[c["ep"]].tag_probe(**self.tag(c))
        return {
            "matched": found.matched,
            "length": found.length if found.matched else None,
        }

    async def op_alive(self, c):
        return {"alive": not self.endpoints[c["ep"]].closed}

    async def op_wait_closed(self, c):
        # The close callback runs only while UCX makes progress; in polling and
        # blocking mode the loop does that during this wait.
        try:
            await asyncio.wait_for(self.closed[c["ep"]].wait(), c.get("timeout", 10))
        except asyncio.TimeoutError:
            return {"closed": False}
        return {"closed": True}

    async def op_close(self, c):
        await self.endpoints[c["ep"]].close()

    async def op_abort(self, c):
        self.endpoints[c["ep"]].abort()

    async def run_one(self, c):
        try:
            op = getattr(self, "op_" + c["op"])
            result = await op(c)
        except Exception as e:
            self.lines.fail(c, e)
        else:
            self.lines.answer(c, **(result or {}))

    async def run(self):
        loop = asyncio.get_running_loop()
        queue = asyncio.Queue()
        peerlib.read_commands(lambda c: loop.call_soon_threadsafe(queue.put_nowait, c))
        while True:
            c = await queue.get()
            if c is None:
                return
            if c["op"] == "quit":
                self.lines.answer(c)
                return
            # Each in its own task: a receive must not block a send.
            task = asyncio.create_task(self.run_one(c))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--progress-mode", default="thread")
    parser.add_argument("--python-future", action="store_true")
    args = parser.parse_args()

    async def start():
        # Inside the loop: UCXX binds its progress to the running loop.
        ucxx.init(
            progress_mode=args.progress_mode, enable_python_future=args.python_future
        )
        await Peer(peerlib.Lines(OUT), args.progress_mode).run()
        peerlib.leave()

    asyncio.run(start())


if __name__ == "__main__":
    main()
