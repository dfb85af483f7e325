"""File system of a Python helper, in its own mount namespace.

Everything is read-only except /tmp and /dev/shm, which are private, limited in size and removed with the process. Files
of the scheduler, of the user's programs (~/.ssh, ~/.config, …) and of system services (/run) are hidden. The folders of
Python are visible, even inside folders that the user of the helper cannot enter.
"""

import ctypes
import os
import pwd
import stat
import sys

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
DEVICES = ("null", "zero", "full", "random", "urandom")
# Parts of /run that name resolution and NixOS libraries need.
RUN = ("/run/opengl-driver", "/run/current-system", "/run/nvidia")


class View:
    """Builds the file system. uid and gid are those that the helper will have."""

    def __init__(self, libc, uid, gid):
        self.libc, self.uid, self.gid = libc, uid, gid
        self.trees, self.links = needed()
        self.missing = []

    def make(self, private, size, hide, home):
        """private is the folder of the helper, below /tmp, with at most size bytes; home is the home folder to hide files in."""
        self.mount(None, "/", None, REC | PRIVATE)
        self.read_only()
        try:
            self.mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
        except OSError as e:  # fails in containers that mask parts of /proc
            self.missing.append(f"private /proc: {e}")
        self.devices(size)
        self.temporary(size)
        resolv = os.path.realpath("/etc/resolv.conf")
        self.cover("/run", [*RUN, resolv] if resolv.startswith("/run/") else RUN)
        if home:
            hide = [*hide, *self.dot_files(home)]
        for path in sorted({os.path.realpath(h) for h in hide}, key=len):
            self.cover(path)
        if not home:
            for path in self.closed():
                self.cover(path)
        os.makedirs(private, 0o700)
        os.chdir("/")

    def mount(self, source, target, kind, flags, data=None):
        args = [None if v is None else os.fsencode(v) for v in (source, target, kind, data)]
        if self.libc.mount(args[0], args[1], args[2], ctypes.c_ulong(flags), args[3]) != 0:
            n = ctypes.get_errno()
            raise OSError(n, f"mount {kind or source or ''} on {target}: {os.strerror(n)}")

    def read_only(self):
        attr = (ctypes.c_uint64 * 4)(RDONLY | NOSUID, 0, 0, 0)
        if self.libc.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attr, ctypes.c_size_t(32)) == 0:
            return
        # Before Linux 5.12: each mount separately, with its current flags.
        with open("/proc/self/mountinfo") as f:
            lines = [line.split() for line in f]
        known = {"ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
        for fields in lines:
            target = fields[4].encode().decode("unicode_escape")
            flags = RDONLY | NOSUID
            for option in fields[5].split(","):
                flags |= known.get(option, 0)
            try:
                self.mount(None, target, None, REMOUNT | BIND | flags)
            except OSError:
                if os.access(target, os.W_OK):
                    raise

    def bind(self, fd, target):
        self.mount(f"/proc/self/fd/{fd}", target, None, BIND | REC)

    def tmpfs(self, target, mode, size, flags=NOSUID | NODEV):
        self.mount("tmpfs", target, "tmpfs", flags, f"size={size},mode={mode:04o}")

    def devices(self, size):
        names = [n for n in os.listdir("/dev") if n in DEVICES or n.startswith("nvidia")]
        fds = {n: os.open("/dev/" + n, os.O_PATH) for n in names}
        self.tmpfs("/dev", 0o755, min(size, 64 << 20), NOSUID)
        for name, fd in fds.items():
            place(fd, "/dev/" + name)
            self.bind(fd, "/dev/" + name)
            os.close(fd)
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
            os.symlink(target, "/dev/" + name)
        os.mkdir("/dev/shm")
        os.chmod("/dev/shm", 0o1777)

    def temporary(self, size):
        """Make /tmp writable, with the existing files readable; with the folders of Python only if that is not possible."""
        if not os.path.isdir("/tmp"):
            os.mkdir("/tmp")  # fails, and this level of isolation with it
        lower = os.open("/tmp", os.O_PATH)
        fds, links = self.inside("/tmp", self.trees, self.links)
        self.tmpfs("/tmp", 0o1777, size)
        os.mkdir("/tmp/upper")
        os.chmod("/tmp/upper", 0o1777)
        os.mkdir("/tmp/work")
        options = f"lowerdir=/proc/self/fd/{lower},upperdir=/tmp/upper,workdir=/tmp/work"
        try:
            try:
                self.mount("overlay", "/tmp", "overlay", NOSUID | NODEV, options + ",userxattr")  # required in user namespaces
            except OSError:
                self.mount("overlay", "/tmp", "overlay", NOSUID | NODEV, options)
        except OSError as e:
            # The kernel refuses a folder that has mounts in it, and may have made a folder in /tmp/work before.
            self.missing.append(f"readable files of /tmp: {e}")
            for path in ("/tmp/upper", "/tmp/work/work", "/tmp/work"):
                if os.path.isdir(path):
                    os.rmdir(path)
            self.restore(fds, links)
        for fd in (lower, *fds.values()):
            os.close(fd)

    def cover(self, path, keep=()):
        """Mount an empty, read-only folder over a path; folders of Python and those to keep remain in it."""
        try:
            info = os.lstat(path)
        except OSError:
            return
        if not stat.S_ISDIR(info.st_mode):
            if stat.S_ISREG(info.st_mode) or stat.S_ISSOCK(info.st_mode):
                self.mount("/dev/null", path, None, BIND)
            return
        trees = [*self.trees, *(k for k in keep if os.path.exists(k) and not os.path.islink(k))]
        links = dict(self.links)
        links.update({k: os.readlink(k) for k in keep if os.path.islink(k)})
        fds, links = self.inside(path, trees, links)
        self.tmpfs(path, 0o755 if fds or links else 0, "1m")
        self.restore(fds, links)
        for fd in fds.values():
            os.close(fd)
        self.mount(None, path, None, REMOUNT | BIND | RDONLY | NOSUID | NODEV)

    def inside(self, path, trees, links):
        """Open the trees below a path, and return them with the links below it that are in none of them."""
        inside = [t for t in trees if under(t, path) and not any(o != t and under(t, o) and under(o, path) for o in trees)]
        links = {at: to for at, to in links.items() if under(at, path) and not any(under(at, t) for t in inside)}
        return {t: os.open(t, os.O_PATH) for t in inside}, links

    def restore(self, fds, links):
        """Make trees and links visible that a mount has hidden."""
        for tree, fd in fds.items():
            os.makedirs(os.path.dirname(tree), 0o755, exist_ok=True)
            place(fd, tree)
            self.bind(fd, tree)
        for at, to in links.items():
            os.makedirs(os.path.dirname(at), 0o755, exist_ok=True)
            if not os.path.lexists(at):
                os.symlink(to, at)

    def dot_files(self, home):
        """Return the user's keys, configuration and histories: the dot files of the home folder."""
        homes = {os.path.realpath(home)}
        try:
            homes.add(os.path.realpath(pwd.getpwuid(self.uid).pw_dir))
        except KeyError:
            pass
        out = []
        for folder in homes - {"/", *self.trees}:
            try:
                out += [os.path.join(folder, n) for n in os.listdir(folder) if n.startswith(".")]
            except OSError:
                pass
        return out

    def closed(self):
        """Return folders that the user of the helper cannot enter and that contain folders of Python."""
        out = set()
        for tree in self.trees:
            at = "/"
            for name in tree.strip("/").split("/")[:-1]:
                at = os.path.join(at, name)
                if not self.enters(at):
                    out.add(at)
                    break
        return sorted(out)

    def enters(self, path):
        info = os.stat(path)
        shift = 6 if info.st_uid == self.uid else 3 if info.st_gid == self.gid else 0
        return bool(info.st_mode >> shift & 1)


def place(fd, path):
    """Create the mount point for a file or folder, given by its descriptor."""
    if os.path.lexists(path):
        return
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.mkdir(path, 0o755)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))


def under(path, folder):
    return path.startswith(folder.rstrip("/") + "/")


def needed():
    """Return the folders and files that this interpreter imports from, and the symbolic links on the way to them."""
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.dirname(sys.executable or ""), *sys.path}
    paths.update(os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for finder in sys.meta_path:  # packages that were installed as "editable" are in their source folders
        module = sys.modules.get(getattr(finder, "__module__", None) or "")
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            paths.update(p for p in mapping.values() if isinstance(p, str))
    with open("/proc/self/maps") as f:
        paths.update(os.path.dirname(line[line.index("/") :].strip()) for line in f if "/" in line)
    trees, links = set(), {}
    for p in paths:
        if p.startswith("/") and os.path.exists(p):
            trees.add(resolve(p, links))
    executable = sys.executable
    if executable:
        resolve(executable, links)
    trees.discard("/")
    return sorted(trees), links


def resolve(path, links):
    """Return the real path, and add the symbolic links on the way to links."""
    rest = [c for c in path.split("/") if c]
    at, steps = "/", 0
    while rest:
        name = rest.pop(0)
        if name == ".":
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, name)
        if os.path.islink(here) and steps < 40:
            steps += 1
            target = links[here] = os.readlink(here)
            rest = [c for c in target.split("/") if c] + rest
            if target.startswith("/"):
                at = "/"
            continue
        at = here
    return at
