"""Landlock for Python helpers: limits what may be read and written, regardless of owner and mode.

restrict(libc, readable, writable, network) applies to this process and all its children.
"""

import ctypes
import errno
import os
import stat
import struct

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_VERSION, RULE_PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REFER, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14
ALL_V1 = (1 << 13) - 1  # all access rights of version 1
NET_BIND, NET_CONNECT = 1, 2
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2
MAX_RULES = 20_000


def version(libc):
    """Return the Landlock version of the kernel, 0 if there is none."""
    v = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(CREATE_VERSION))
    return max(v, 0)


def restrict(libc, readable, writable, network):
    """Allow reading below some paths, everything below others, and nothing else. Without network, TCP is denied, too.

    Return the version in force. Raise OSError if Landlock is not available.
    """
    v = version(libc)
    if v == 0:
        raise OSError(ctypes.get_errno() or errno.ENOSYS, "Landlock")
    handled = ALL_V1 | (REFER if v >= 2 else 0) | (TRUNCATE if v >= 3 else 0)
    net = NET_BIND | NET_CONNECT if v >= 4 and not network else 0
    scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if v >= 6 else 0
    attr = struct.pack("<QQQ", handled, net, scoped)[: 8 if v < 4 else 16 if v < 6 else 24]
    ruleset = libc.syscall(CREATE_RULESET, attr, ctypes.c_size_t(len(attr)), ctypes.c_uint(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        for path in readable:
            allow(libc, ruleset, path, EXECUTE | READ_FILE | READ_DIR)
        for path in writable:
            allow(libc, ruleset, path, handled)
        if libc.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint(0)) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return v


def allow(libc, ruleset, path, access):
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # does not exist or is not accessible: nothing to allow
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
        rule = struct.pack("<Qi", access, fd)
        if libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, ctypes.c_uint(0)) != 0:
            raise OSError(ctypes.get_errno(), f"landlock_add_rule {path}")
    finally:
        os.close(fd)


def all_but(hidden):
    """Return paths that together cover the current file system without the hidden ones."""
    hidden = {os.path.realpath(h) for h in hidden}
    if not hidden:
        return ["/"]
    ancestors = set()
    for h in hidden:
        while (h := os.path.dirname(h)) not in ancestors:
            ancestors.add(h)
            if h == "/":
                break
    out = []
    for a in sorted(ancestors):
        if any(a == h or a.startswith(h + "/") for h in hidden):
            continue
        try:
            entries = sorted(os.listdir(a))
        except OSError:
            continue
        out += [p for p in (os.path.join(a, e) for e in entries) if p not in ancestors and p not in hidden and not os.path.islink(p)]
    if len(out) > MAX_RULES:
        raise OSError(errno.E2BIG, f"Landlock: more than {MAX_RULES} files next to hidden ones")
    return out
