"""UCXX peer with the core API (no asyncio), driven by JSON lines (see peerlib).

    python ucxx_core_peer.py

One thread makes all UCX calls: it progresses the worker and resumes each command
when its requests have completed. Nothing is exchanged without a command; in
particular, endpoints have no handshake.

Operations (arguments; reply), where ep is the name of an endpoint:
    info            (; ucxx, ucx, pid)
    address         (; address in hex)
    listen          (port=0, error_handling=true; port), then events accepted (ep)
    connect         (host, port, error_handling=true; ep)
    connect_address (address, error_handling=true; ep)
    peer_info       (ep, tag, listener; tag of the other side) - UCXX's handshake
    tag_send        (ep, tag, data)
    tag_recv        (ep or none for the worker, tag, mask=all ones, size; size, sha256)
    tag_probe       (tag, mask, remove=false; matched, sender_tag, length)
    tag_recv_probed ( ; size, sha256) - the message that the last probe with remove took
    tag_send_multi  (ep, tag, frames=[data])
    tag_recv_multi  (ep, tag, mask; frames=[{size, sha256}])
    stream_send     (ep, data)               stream_recv (ep, size; size, sha256)
    am_send         (ep, data)               am_recv (ep; size, sha256)
    alive           (ep; alive)
    close           (ep)
    quit            ()
"""

import os
import queue
import struct
import time

import peerlib

OUT = peerlib.take_stdout()

import ucxx  # noqa: E402
from ucxx._lib import libucxx as core  # noqa: E402
from ucxx._lib.arr import Array  # noqa: E402
from ucxx._lib_async.utils import hash64bits  # noqa: E402

ALL_ONES = (1 << 64) - 1


def wait(*requests):
    """Yield to the main loop until the requests have completed, then check them."""
    while not all(r.completed for r in requests):
        yield
    for r in requests:
        r.check_error()


class Peer:
    def __init__(self, lines):
        self.lines = lines
        self.context = core.UCXContext()
        self.worker = core.UCXWorker(self.context)
        self.endpoints = {}
        self.listener = None
        self.probed = None
        self.made = 0

    def keep(self, ep):
        self.made += 1
        name = f"ep{self.made}"
        self.endpoints[name] = ep
        ep.set_close_callback(lambda: self.lines.event("closed", ep=name))
        return {"ep": name}

    # Each operation is a generator: it yields while it waits and returns its reply.

    def op_info(self, c):
        return {
            "ucxx": ucxx.__version__,
            "ucx": ucxx.__ucx_version__,
            "pid": os.getpid(),
        }
        yield

    def op_address(self, c):
        return {"address": bytes(self.worker.address).hex()}
        yield

    def op_listen(self, c):
        errors = c.get("error_handling", True)

        def accept(request):
            # Created here: UCX withdraws the request when the callback returns.
            ep = self.listener.create_endpoint_from_conn_request(request, errors)
            self.lines.event("accepted", **self.keep(ep))

        self.listener = core.UCXListener.create(
            worker=self.worker, port=c.get("port", 0), cb_func=accept
        )
        return {"port": self.listener.port}
        yield

    def op_connect(self, c):
        ep = core.UCXEndpoint.create(
            self.worker, c["host"], c["port"], c.get("error_handling", True)
        )
        return self.keep(ep)
        yield

    def op_connect_address(self, c):
        address = core.UCXAddress.create_from_buffer(bytes.fromhex(c["address"]))
        ep = core.UCXEndpoint.create_from_worker_address(
            self.worker, address, c.get("error_handling", True)
        )
        return self.keep(ep)
        yield

    def op_peer_info(self, c):
        ep, theirs = self.endpoints[c["ep"]], bytearray(16)
        mine = struct.pack("QQ", c["tag"], hash64bits(c["tag"]))
        if c["listener"]:
            yield from wait(ep.stream_send(Array(mine)))
            yield from wait(ep.stream_recv(Array(theirs)))
        else:
            yield from wait(ep.stream_recv(Array(theirs)))
            yield from wait(ep.stream_send(Array(mine)))
        tag, check = struct.unpack("QQ", theirs)
        if check != hash64bits(tag):
            raise RuntimeError(f"check of tag {tag:#x} is {check:#x}")
        return {"tag": tag}

    def tag_and_mask(self, c):
        return core.UCXXTag(c["tag"]), core.UCXXTagMask(c.get("mask", ALL_ONES))

    def op_tag_send(self, c):
        data = Array(peerlib.make_data(c["data"]))
        yield from wait(
            self.endpoints[c["ep"]].tag_send(data, core.UCXXTag(c["tag"]))
        )

    def op_tag_recv(self, c):
        room = peerlib.make_room(c["size"])
        on = self.endpoints[c["ep"]] if "ep" in c else self.worker
        yield from wait(on.tag_recv(Array(room), *self.tag_and_mask(c)))
        return peerlib.describe(room)

    def op_tag_probe(self, c):
        self.worker.progress()
        found = self.worker.tag_probe(
            *self.tag_and_mask(c), remove=c.get("remove", False)
        )
        if not found.matched:
            return {"matched": False}
        if c.get("remove", False):
            self.probed = found
        return {
            "matched": True,
            "sender_tag": found.sender_tag.value,
            "length": found.length,
        }
        yield

    def op_tag_recv_probed(self, c):
        found, self.probed = self.probed, None
        room = peerlib.make_room(found.length)
        yield from wait(self.worker.tag_recv_with_handle(Array(room), found))
        return peerlib.describe(room)

    def op_tag_send_multi(self, c):
        frames = tuple(Array(peerlib.make_data(f)) for f in c["frames"])
        yield from wait(
            self.endpoints[c["ep"]].tag_send_multi(frames, core.UCXXTag(c["tag"]))
        )

    def op_tag_recv_multi(self, c):
        request = self.endpoints[c["ep"]].tag_recv_multi(*self.tag_and_mask(c))
        # Not completed: with more than 100 frames UCXX 0.52 may set it too early
        # (see recv_multi_careful in ucxx_async_peer.py).
        while not request.all_completed:
            yield
        for part in request.requests:
            part.check_error()
        return {"frames": [peerlib.describe(f) for f in request.py_buffers]}

    def op_stream_send(self, c):
        data = Array(peerlib.make_data(c["data"]))
        yield from wait(self.endpoints[c["ep"]].stream_send(data))

    def op_stream_recv(self, c):
        room = peerlib.make_room(c["size"])
        yield from wait(self.endpoints[c["ep"]].stream_recv(Array(room)))
        return peerlib.describe(room)

    def op_am_send(self, c):
        data = Array(peerlib.make_data(c["data"]))
        yield from wait(self.endpoints[c["ep"]].am_send(data))

    def op_am_recv(self, c):
        request = self.endpoints[c["ep"]].am_recv()
        yield from wait(request)
        return peerlib.describe(request.recv_buffer)

    def op_alive(self, c):
        return {"alive": self.endpoints[c["ep"]].alive}
        yield

    def op_close(self, c):
        yield from wait(self.endpoints[c["ep"]].close())

    def start(self, c):
        """Return the running generator of a command, or None if it failed."""
        try:
            return getattr(self, "op_" + c["op"])(c)
        except Exception as e:
            self.lines.fail(c, e)
            return None

    def resume(self, c, gen):
        """Resume a command; return whether it is still running."""
        try:
            next(gen)
        except StopIteration as end:
            self.lines.answer(c, **(end.value or {}))
            return False
        except Exception as e:
            self.lines.fail(c, e)
            return False
        return True

    def run(self):
        commands = queue.SimpleQueue()
        peerlib.read_commands(commands.put)
        pending = []
        self.worker.init_blocking_progress_mode()
        while True:
            self.worker.progress()
            try:
                # When idle, poll the worker often enough for a listener.
                c = commands.get(timeout=0.001) if not pending else commands.get_nowait()
            except queue.Empty:
                if pending:
                    time.sleep(0)
            else:
                if c is None or c["op"] == "quit":
                    if c is not None:
                        self.lines.answer(c)
                    return
                gen = self.start(c)
                if gen is not None:
                    pending.append((c, gen))
            pending = [p for p in pending if self.resume(*p)]


if __name__ == "__main__":
    Peer(peerlib.Lines(OUT)).run()
    peerlib.leave()
