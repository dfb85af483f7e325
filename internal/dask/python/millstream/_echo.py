"""Smallest module of a child, for tests and to check whether a child can be started."""

import os
import socket
import struct
import time

from millstream._child import Reply


def setup(peer):
    peer.handle("echo", lambda body, frames: Reply(body, frames))
    peer.handle("inline", lambda body, frames: Reply(body, frames), inline=True)
    peer.handle("back", lambda body, frames: peer.call("echo", body, frames))
    peer.handle("fail", fail)
    peer.handle("sleep", lambda body, frames: time.sleep(body))
    peer.handle("exit", lambda body, frames: os._exit(body))
    peer.handle("say", lambda body, frames: print(body, flush=True))
    peer.handle("break", lambda body, frames: misbehave(peer, body))
    peer.handle("allocate", lambda body, frames: len(bytearray(body)))
    peer.handle("shapes", lambda body, frames: Reply(None, shapes()))
    peer.handle("state", lambda body, frames: state())
    peer.handle("exec", lambda body, frames: execute(body))


def shapes():
    """Return frames in every form that a buffer can have: b"abcdef" at the end, or nothing."""
    import array
    import ctypes

    six = memoryview(b"abcdef")
    letters = memoryview(b"a.b.c.d.e.f.")
    return [
        six,
        six.cast("B", (2, 3)),
        six.cast("c"),
        letters[::2],
        bytearray(b"abcdef"),
        b"",
        memoryview(array.array("d")),
        six[:0],
        memoryview((ctypes.c_double * 3 * 0)()),
    ]


def execute(source):
    """Run a program of a test and return its result."""
    names = {"__name__": "program"}
    exec(compile(source, "<test>", "exec"), names)
    return names.get("result")


def fail(body, frames):
    raise ValueError(body)


def misbehave(peer, how):
    """Violate the protocol."""
    if how == "frames":
        peer.sock.sendall(bytes(8))
    elif how == "size":
        peer.sock.sendall(struct.pack("<3Q", 2, 10, 1 << 40))
    elif how == "nothing":
        peer.sock.sendall(struct.pack("<2Q", 1, 1) + b"\x80")
    elif how == "calls":
        for _ in range(10):
            peer.call_soon("hold")
    elif how == "close":
        os._exit = lambda status: time.sleep(1000)  # as the reader does
        peer.sock.shutdown(2)
    time.sleep(1000)


def state():
    """Return what the process can see of its host."""
    return {
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "uid": os.getuid(),
        "pid": os.getpid(),
        "network": network(),
        "fds": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    }


def network():
    """Report whether any network address can be reached."""
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", 0))
        s.listen()
        socket.create_connection(s.getsockname(), timeout=5).close()
        return True
    except OSError:
        return False
    finally:
        s.close()
