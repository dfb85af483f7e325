"""Seccomp filter for Python helpers: calls that no graph and no function of a client needs fail with EPERM.

install(libc, network) applies it to this thread and all its children. It requires no_new_privs.
"""

import ctypes
import errno
import os
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
RET_ALLOW, RET_ERRNO, RET_KILL = 0x7FFF0000, 0x00050000, 0x80000000
LD_W_ABS, JEQ_K, JGE_K, JSET_K, RET_K = 0x20, 0x15, 0x35, 0x45, 0x06
NR, ARCH, ARG0, ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data, little-endian

# Newer system calls, which have the same number on both architectures.
COMMON = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "mount": 165, "umount2": 166,
    "pivot_root": 155, "chroot": 161, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "finit_module": 313,
    "quotactl": 179, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "setns": 308,
    "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "kexec_load": 246,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "acct": 163, "settimeofday": 164, "clock_settime": 227,
    "clock_adjtime": 305, "syslog": 103, "vhangup": 153, "modify_ldt": 154, "lookup_dcookie": 212, "move_pages": 279,
}  # fmt: skip
AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "mount": 40, "umount2": 39,
    "pivot_root": 41, "chroot": 51, "swapon": 224, "swapoff": 225, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "init_module": 105, "delete_module": 106, "finit_module": 273, "quotactl": 60, "add_key": 217,
    "request_key": 218, "keyctl": 219, "unshare": 97, "setns": 268, "perf_event_open": 241, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "kexec_load": 104, "kexec_file_load": 294, "bpf": 280, "userfaultfd": 282, "acct": 89,
    "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "syslog": 116, "vhangup": 58, "lookup_dcookie": 18,
    "move_pages": 239,
}  # fmt: skip
# audit architecture, denied calls, clone, socket, ioctl
MACHINES = {"x86_64": (0xC000003E, X86_64, 56, 41, 16), "aarch64": (0xC00000B7, AARCH64, 220, 198, 29)}
UNKNOWN = (435, 425, 426, 427)  # clone3, whose flags a filter cannot read, and io_uring: ENOSYS, because callers have a fallback
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW* in the flags of clone
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # TIOCSTI inserts input into a terminal
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16


def install(libc, network):
    """Install the filter; network allows Internet sockets. Raise OSError if filters are not available."""
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {machine}")
    code = program(*MACHINES[machine], [AF_UNIX, AF_NETLINK, *((AF_INET, AF_INET6) if network else ())])
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    prog = Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def program(arch, denied, clone, sock, ioctl, families):
    out = []

    def op(code, k, yes=0, no=0):
        out.append(struct.pack("<HBBI", code, yes, no, k))

    def fail(error):
        op(RET_K, RET_ERRNO | error)

    op(LD_W_ABS, ARCH)
    op(JEQ_K, arch, 1, 0)
    op(RET_K, RET_KILL)
    op(LD_W_ABS, NR)
    op(JGE_K, 0x40000000, 0, 1)  # x32
    fail(errno.EPERM)
    for nr in sorted({*denied.values(), *COMMON.values()}):
        op(JEQ_K, nr, 0, 1)
        fail(errno.EPERM)
    for nr in UNKNOWN:
        op(JEQ_K, nr, 0, 1)
        fail(errno.ENOSYS)
    op(JEQ_K, clone, 0, 4)
    op(LD_W_ABS, ARG0)
    op(JSET_K, NEW_NAMESPACES, 0, 1)
    fail(errno.EPERM)
    op(RET_K, RET_ALLOW)
    op(JEQ_K, ioctl, 0, 5)
    op(LD_W_ABS, ARG1)
    op(JEQ_K, TIOCSTI, 1, 0)
    op(JEQ_K, TIOCLINUX, 0, 1)
    fail(errno.EPERM)
    op(RET_K, RET_ALLOW)
    op(JEQ_K, sock, 0, 2 + len(families))
    op(LD_W_ABS, ARG0)
    for i, family in enumerate(families):
        op(JEQ_K, family, len(families) - i, 0)
    fail(errno.EAFNOSUPPORT)
    op(RET_K, RET_ALLOW)
    return b"".join(out)
