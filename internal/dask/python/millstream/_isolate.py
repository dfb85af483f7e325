"""Isolates a helper before it reads any external input.

enter(settings) returns what is in force and what is not, for the log and for `millstream doctor`. Isolation that Go set
up before the program started (namespaces created by root) is only reported.
"""

import ctypes
import os
import resource
import signal
import struct

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
LIMITS = (("CPU", "cpu"), ("NOFILE", "files"), ("CORE", "core"), ("FSIZE", "file_size"))
# Folders that packages write to, below the private folder of the helper.
FOLDERS = (".cache/numba", ".cupy/kernel_cache", ".config/matplotlib", ".local/share", ".local/state", ".nv/ComputeCache", ".run", "tmp")


def enter(settings):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    in_force, missing = [], []
    uid, gid = settings.get("uid"), settings.get("gid")
    other = uid is not None
    network = settings.get("network", False)
    if settings.get("userns"):
        namespaces(libc, network)
    for name, key in LIMITS:
        limit(name, settings.get(key))
    os.closerange(4, 1 << 16)
    private, hide, mounts = settings["private"], settings.get("hide") or [], bool(settings.get("mounts"))
    if mounts:
        from millstream import _mounts

        view = _mounts.View(libc, uid if other else os.getuid(), gid if other else os.getgid())
        view.make(private, settings["disk"], hide, home="" if other else settings.get("home") or "")
        missing += view.missing
        in_force.append("read-only file system")
    for name in FOLDERS:
        os.makedirs(os.path.join(private, name), 0o700, exist_ok=True)
    in_force.append("private home and /tmp in memory" if mounts else "private home")
    if other:
        for folder, _, _ in os.walk(private):
            os.chown(folder, uid, gid)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise /proc/self belongs to root
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        in_force.append(f"user id {uid}")
    bound_processes(libc, settings, in_force, missing)
    drop_capabilities(libc)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    locked = landlock(libc, private, hide, mounts, network, in_force, missing)
    apart = "net" in namespaces_here(settings)
    filtered = seccomp(libc, network or apart, in_force, missing)
    if not network:
        (in_force if apart or filtered else missing).append("no network")
    limit("DATA", settings.get("memory"))
    return {
        "uid": os.getuid(), "gid": os.getgid(), "no_new_privs": True, "mounts": mounts, "landlock": locked, "links": links(),
        "in_force": in_force, "missing": missing,
    }  # fmt: skip


def check(result, what):
    if result != 0:
        n = ctypes.get_errno()
        raise OSError(n, f"{what}: {os.strerror(n)}")


def limit(name, value):
    if value is None:
        return
    which = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def links():
    out = {}
    for name in ("user", "pid", "net", "ipc", "mnt"):
        try:
            out[name] = os.readlink("/proc/self/ns/" + name)
        except OSError:
            out[name] = ""
    return out


def namespaces_here(settings):
    """Return the namespaces that differ from those of the scheduler, whose links are in settings."""
    outer = settings.get("outer") or {}
    return [name for name, link in links().items() if link and outer.get(name) and outer[name] != link]


def namespaces(libc, network):
    """Enter new user, mount, pid, ipc and net namespaces; continue in a child, which is process 1 in there."""
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | (0 if network else CLONE_NEWNET)
    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(flags), "unshare: user namespaces are not allowed")
    map_user(uid, gid)
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != 0 and os.getppid() != 1:  # a parent in another namespace reads as 0
            os._exit(1)
        return
    os.closerange(3, 1 << 16)  # only the child communicates
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def map_user(uid, gid):
    """Map the ids that the process had before it entered its user namespace to themselves."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open("/proc/self/" + name, "w") as f:
            f.write(text)


def bound_processes(libc, settings, in_force, missing):
    """Limit the number of processes and threads. They are counted per user and user namespace, so this creates one."""
    processes = settings.get("processes")
    if processes is None:
        return
    alone = bool(settings.get("userns"))
    if settings.get("uid") is not None and os.access("/proc/self/uid_map", os.W_OK):
        uid, gid = os.getuid(), os.getgid()
        if alone := libc.unshare(CLONE_NEWUSER) == 0:
            map_user(uid, gid)
    try:
        limit("NPROC", processes if alone else 16 * processes)  # otherwise all processes of the user are counted together
        in_force.append("limit on processes")
    except OSError as e:
        missing.append(f"limit on processes: {e}")


def drop_capabilities(libc):
    """Drop all capabilities, including those in the user namespace."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("<Ii", 0x20080522, 0)
    check(libc.capset(header, bytes(24)), "capset")


def landlock(libc, private, hide, mounts, network, in_force, missing):
    from millstream import _landlock

    try:
        readable = ["/"] if mounts else _landlock.all_but(hide)
        writable = [private, *(f"/dev/{n}" for n in ("null", "zero", "full", "tty"))]
        if mounts:
            writable += ["/tmp", "/dev/shm"]
        writable += [os.path.join("/dev", n) for n in os.listdir("/dev") if n.startswith("nvidia")]
        v = _landlock.restrict(libc, readable, writable, network)
    except OSError as e:
        missing.append(f"Landlock: {e}")
        return 0
    in_force.append(f"Landlock (version {v})")
    return v


def seccomp(libc, sockets, in_force, missing):
    from millstream import _seccomp

    try:
        _seccomp.install(libc, sockets)
        in_force.append("seccomp filter")
        return True
    except OSError as e:
        missing.append(f"seccomp filter: {e}")
        return False

