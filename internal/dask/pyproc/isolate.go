package pyproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/wire/msgpack"
)

// level is a way to isolate a child. All of them include Landlock, the seccomp filter and the resource limits.
type level struct {
	name string
	// drop replaces the user ID of root by that of the user with no rights.
	drop bool
	// clone uses namespaces that root creates; inUser adds a user namespace to them.
	clone, inUser bool
	// userns uses namespaces that the child creates itself, with a user namespace.
	userns bool
	// unsafe requires Config.AllowUnsafe.
	unsafe bool
}

// mounts reports whether the child has its own file system.
func (l level) mounts() bool { return l.clone || l.userns }

// levels returns the levels for a user, best first.
func levels(root bool) []level {
	if !root {
		return []level{{name: "namespaces of an ordinary user", userns: true}, {name: "no namespaces"}}
	}
	return []level{
		{name: "another user id and namespaces", drop: true, clone: true},
		{name: "another user id and namespaces in a user namespace", drop: true, clone: true, inUser: true},
		{name: "another user id without namespaces", drop: true},
		{name: "root in namespaces", clone: true, unsafe: true},
		{name: "root without namespaces", unsafe: true},
	}
}

// knownLevels has the level that works for an interpreter, and why the better ones do not.
var knownLevels sync.Map // levelKey -> remembered

type levelKey struct {
	python  string
	network bool
}

type remembered struct {
	at     int
	failed []string
}

// startIsolated starts a child at the best level that works.
func startIsolated(ctx context.Context, cfg Config) (*Process, error) {
	root := os.Getuid() == 0
	all := levels(root)
	key := levelKey{cfg.Python, cfg.Network}
	var known remembered
	if v, ok := knownLevels.Load(key); ok {
		known = v.(remembered)
	}
	var first error
	failed := slices.Clone(known.failed)
	for i := known.at; i < len(all); i++ {
		if all[i].unsafe && !cfg.AllowUnsafe {
			break
		}
		p, err := startAt(ctx, cfg, all[i])
		if err == nil {
			p.isolation.Missing = append(slices.Clone(failed), p.isolation.Missing...)
			if err = cfg.checkExposed(p.isolation); err != nil {
				_ = p.Close()
				return nil, err
			}
			knownLevels.Store(key, remembered{i, failed})
			return p, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || errors.Is(err, errModule) && !isDenied(err) {
			return nil, first
		}
		failed = append(failed, all[i].failure(err))
	}
	if root && !cfg.AllowUnsafe {
		return nil, fmt.Errorf("%w; code of clients must not run as root; make Python and its packages readable "+
			"to other users, "+
			"run the scheduler as a dedicated user, or accept the risk with --unsafe-python-helpers", first)
	}
	return nil, first
}

// checkExposed returns an error if a child could access files of this process.
func (c Config) checkExposed(in Isolation) error {
	if c.AllowUnsafe || len(c.Hide) == 0 || in.Mounts || in.Landlock > 0 || in.OtherUser {
		return nil
	}
	return fmt.Errorf("pyproc: %s: code of clients could read and change %s: neither mount namespaces nor Landlock "+
		"are available (%s); "+
		"allow one of them, run the scheduler as root so that helpers have another user id, or accept the risk with "+
		"--unsafe-python-helpers",
		c.Name, strings.Join(c.Hide, ", "), strings.Join(in.Missing, "; "))
}

// failure returns a description of a level that did not work, with a remedy.
func (l level) failure(err error) string {
	hint := "allow user namespaces: sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns"
	switch {
	case l.drop && isDenied(err):
		hint = "install Python and its packages where other users can read them"
	case l.clone && !l.inUser:
		hint = "needs CAP_SYS_ADMIN"
	}
	return fmt.Sprintf("%s: %v (%s)", l.name, err, hint)
}

// isDenied reports whether a start failed for lack of permission, in this process or in Python.
func isDenied(err error) bool {
	var e *Exception
	return errors.Is(err, os.ErrPermission) || errors.As(err, &e) &&
		(e.Type == "PermissionError" || e.Type == "ModuleNotFoundError" ||
			strings.Contains(e.Message, "Permission denied"))
}

// startAt starts a child at a level, with its private folder.
func startAt(ctx context.Context, cfg Config, l level) (*Process, error) {
	home, err := newHome(cfg, l)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, cfg, l, home)
	if err != nil {
		home.remove()
		return nil, err
	}
	home.watch(p)
	return p, nil
}

func (l level) settings(cfg Config, home *home) map[string]any {
	out := map[string]any{
		"userns": l.userns, "mounts": l.mounts(), "network": cfg.Network, "private": home.path, "disk": cfg.Limits.Disk,
		"hide": cfg.Hide, "outer": ownNamespaces(), "core": 0, "file_size": cfg.Limits.Disk,
	}
	if l.drop {
		out["uid"], out["gid"] = unprivilegedUser()
	} else if dir, err := os.UserHomeDir(); err == nil {
		out["home"] = dir
	}
	for name, v := range map[string]int64{
		"memory": cfg.Limits.Memory, "files": cfg.Limits.Files, "processes": cfg.Limits.Processes,
		"cpu": int64(cfg.Limits.CPU.Seconds()),
	} {
		if v > 0 {
			out[name] = v
		}
	}
	return out
}

func (l level) attr(network bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if !l.clone {
		return a
	}
	a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNS
	if !network {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	if l.inUser {
		uid, gid := unprivilegedUser()
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{Size: 1}, {ContainerID: int(uid), HostID: int(uid), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{Size: 1}, {ContainerID: int(gid), HostID: int(gid), Size: 1}}
		a.GidMappingsEnableSetgroups = true
	}
	return a
}

// ownNamespaces returns the links of the namespaces of this process.
func ownNamespaces() map[string]string {
	out := map[string]string{}
	for _, name := range namespaceNames {
		if link, err := os.Readlink("/proc/self/ns/" + name); err == nil {
			out[name] = link
		}
	}
	return out
}

var namespaceNames = []string{"user", "mnt", "pid", "net", "ipc"}

// unprivilegedUser returns the IDs of the user and group with no rights.
var unprivilegedUser = sync.OnceValues(func() (uid, gid uint32) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return 65534, 65534
	}
	id := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n == 0 {
			return 65534
		}
		return uint32(n)
	}
	return id(u.Uid), id(u.Gid)
})

// readReady decodes the report of the child about itself.
func (p *Process) readReady(body msgpack.Raw) error {
	v, err := msgpack.Decode(body)
	m, ok := v.(msgpack.Map)
	if err != nil || !ok {
		return fmt.Errorf("first message cannot be decoded: %w", err)
	}
	p.version = m.GetString("python")
	p.isolation.UID = os.Getuid()
	in, _ := m.Get("isolation")
	report, ok := in.(msgpack.Map)
	if !ok || !p.cfg.Isolate {
		return nil
	}
	number := func(name string) int {
		v, _ := report.Get(name)
		n, _ := v.(int64)
		return int(n)
	}
	flag := func(name string) bool {
		v, _ := report.Get(name)
		b, _ := v.(bool)
		return b
	}
	i := &p.isolation
	i.UID, i.Landlock = number("uid"), number("landlock")
	i.OtherUser = i.UID != os.Getuid()
	i.NoNewPrivs, i.Mounts = flag("no_new_privs"), flag("mounts")
	i.HostNetwork = p.cfg.Network
	links, _ := report.Get("links")
	theirs, _ := links.(msgpack.Map)
	for name, ours := range ownNamespaces() {
		if link := theirs.GetString(name); link != "" && link != ours {
			i.Namespaces = append(i.Namespaces, name)
		}
	}
	slices.SortFunc(i.Namespaces, func(a, b string) int {
		return slices.Index(namespaceNames, a) - slices.Index(namespaceNames, b)
	})
	i.InForce, i.Missing = texts(report, "in_force"), texts(report, "missing")
	if len(i.Namespaces) > 0 {
		i.InForce = append(i.InForce, "namespaces "+strings.Join(i.Namespaces, " "))
	}
	if i.NoNewPrivs {
		i.InForce = append(i.InForce, "no new privileges")
	}
	return nil
}

// texts returns a list of strings in a report.
func texts(m msgpack.Map, name string) (out []string) {
	v, _ := m.Get(name)
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Hide protects the memory, environment and descriptors of this process from other processes of its user
// (PR_SET_DUMPABLE=0): a child that the pickle of a client has compromised could read them.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("pyproc: PR_SET_DUMPABLE: %w", err)
	}
	return nil
}
