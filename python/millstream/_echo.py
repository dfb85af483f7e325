"""The smallest module of a child: for tests, and to see whether one can be started."""

import os
import time

from millstream._child import Reply


def setup(peer):
    peer.handle("echo", lambda body, frames: Reply(body, frames))
    peer.handle("inline", lambda body, frames: Reply(body, frames), inline=True)
    peer.handle("back", lambda body, frames: peer.call("echo", body, frames))
    peer.handle("fail", fail)
    peer.handle("sleep", lambda body, frames: time.sleep(body))
    peer.handle("exit", lambda body, frames: os._exit(body))
    peer.handle("state", lambda body, frames: state())


def fail(body, frames):
    raise ValueError(body)


def state():
    """What the process can see of the world."""
    return {
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "uid": os.getuid(),
        "pid": os.getpid(),
        "fds": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    }
