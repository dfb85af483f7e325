"""Shuts a child in before it touches anything that came from outside.

enter(settings) returns what is in force, for the log and for `millstream doctor`. What Go has done before the
program started (another user id, namespaces made by root) is only reported.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000


def enter(settings):
    libc = ctypes.CDLL(None, use_errno=True)
    report = {"uid": os.getuid(), "gid": os.getgid()}
    if settings.get("namespaces"):
        namespaces(libc)
    for name, key in (("AS", "memory"), ("CPU", "cpu"), ("NOFILE", "files"), ("CORE", "core"), ("FSIZE", "file_size")):
        if (limit := settings.get(key)) is not None:
            which = getattr(resource, "RLIMIT_" + name)
            hard = resource.getrlimit(which)[1]
            if hard != resource.RLIM_INFINITY:
                limit = min(limit, hard)
            resource.setrlimit(which, (limit, limit))
    os.closerange(4, 1 << 16)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    report["no_new_privs"] = True
    for name in ("user", "pid", "net", "ipc"):
        try:
            report[name] = os.readlink("/proc/self/ns/" + name)
        except OSError:
            report[name] = None
    return report


def namespaces(libc):
    """Go into user, pid, net and ipc namespaces of our own; goes on in a child, which is number 1 in there."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC) != 0:
        raise OSError(ctypes.get_errno(), "unshare: user namespaces are not allowed here")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open("/proc/self/" + name, "w") as f:
            f.write(text)
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != 0 and os.getppid() != 1:  # another namespace's parent reads as 0
            os._exit(1)
        return
    os.closerange(3, 1 << 16)  # only the child speaks
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
