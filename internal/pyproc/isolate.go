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

	"go.millstream.dev/wire/msgpack"
)

// level is one way to shut a child in.
type level struct {
	otherUser  bool // nobody's user id instead of root's
	namespaces bool // pid, net and ipc, made by us as root
	userns     bool // user, pid, net and ipc, made by the child itself
}

func (l level) String() string {
	var parts []string
	if l.otherUser {
		parts = append(parts, "another user id")
	}
	if l.namespaces {
		parts = append(parts, "pid, net and ipc namespaces")
	}
	if l.userns {
		parts = append(parts, "user, pid, net and ipc namespaces")
	}
	if len(parts) == 0 {
		return "none of user id and namespaces"
	}
	return strings.Join(parts, " and ")
}

// levels are tried in order; root has more.
func levels(root bool) []level {
	own := []level{{userns: true}, {}}
	if !root {
		return own
	}
	return append([]level{{otherUser: true, namespaces: true}, {otherUser: true, userns: true}, {otherUser: true}}, own...)
}

// found remembers the level that worked for an interpreter: index into levels, and why
// the better ones did not.
var found sync.Map // string -> remembered

type remembered struct {
	at      int
	missing []string
}

// startIsolated uses the best level that works. A module that fails in each of them fails
// with the first error.
func startIsolated(ctx context.Context, cfg Config) (*Process, error) {
	all := levels(os.Getuid() == 0)
	var known remembered
	if v, ok := found.Load(cfg.Python); ok {
		known = v.(remembered)
	}
	var first error
	missing := known.missing
	for i := known.at; i < len(all); i++ {
		p, err := start(ctx, cfg, all[i])
		if err == nil {
			missing = all[i].met(missing)
			p.isolation.Missing = missing
			if _, loaded := found.Swap(cfg.Python, remembered{i, missing}); !loaded && len(missing) > 0 {
				cfg.Logger.Warn("the Python processes that open what clients send are not fully shut in", "in force", all[i].String(), "missing", missing)
			}
			return p, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return nil, first
		}
		missing = all[i].missing(missing, err)
	}
	return nil, first
}

// missing adds what a level that failed would have given, in words, with a way to have it.
// Each thing is named once, with the first reason.
func (l level) missing(list []string, err error) []string {
	add := func(what, hint string) {
		if !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, what) }) {
			list = append(list, fmt.Sprintf("%s: %v (%s)", what, err, hint))
		}
	}
	switch {
	case l.otherUser && errors.Is(err, os.ErrPermission):
		add("another user id", "install Python and its packages where other users can read them, not under a home directory")
	case l.otherUser:
		add("another user id", "run the scheduler as a user of its own, not as root")
	case l.userns:
		add("namespaces", "allow user namespaces: sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns")
	}
	return list
}

// met takes out what the level that worked has after all.
func (l level) met(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool {
		return l.otherUser && strings.HasPrefix(s, "another user id") || (l.userns || l.namespaces) && strings.HasPrefix(s, "namespaces")
	})
}

func (l level) settings(lim Limits) map[string]any {
	out := map[string]any{"namespaces": l.userns, "core": 0}
	if lim.Memory > 0 {
		out["memory"] = lim.Memory
	}
	if lim.CPU > 0 {
		out["cpu"] = max(1, int64(lim.CPU.Seconds()))
	}
	if lim.Files > 0 {
		out["files"] = lim.Files
	}
	return out
}

func (l level) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if l.namespaces {
		a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	}
	if l.otherUser {
		uid, gid := nobody()
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return a
}

// nobody is the user that has nothing.
var nobodyOnce = sync.OnceValues(func() (uid, gid uint32) {
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

func nobody() (uid, gid uint32) { return nobodyOnce() }

// readReady takes what the child says about itself.
func (p *Process) readReady(body msgpack.Raw) error {
	v, err := msgpack.Decode(body)
	m, ok := v.(msgpack.Map)
	if err != nil || !ok {
		return fmt.Errorf("its first message is not understood: %w", err)
	}
	p.version = m.GetString("python")
	p.isolation.UID = os.Getuid()
	in, _ := m.Get("isolation")
	report, ok := in.(msgpack.Map)
	if !ok || !p.cfg.Isolate {
		return nil
	}
	if uid, ok := report.Get("uid"); ok {
		n, _ := uid.(int64)
		p.isolation.UID = int(n)
	}
	p.isolation.OtherUser = p.isolation.UID != os.Getuid()
	if v, ok := report.Get("no_new_privs"); ok {
		p.isolation.NoNewPrivs, _ = v.(bool)
	}
	for _, name := range []string{"user", "pid", "net", "ipc"} {
		ours, err := os.Readlink("/proc/self/ns/" + name)
		if theirs := report.GetString(name); err == nil && theirs != "" && theirs != ours {
			p.isolation.Namespaces = append(p.isolation.Namespaces, name)
		}
	}
	return nil
}

// Hide makes this process's memory, environment and descriptors invisible to others of its
// user (PR_SET_DUMPABLE=0): a child that a client's pickle has taken over could read them.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("pyproc: PR_SET_DUMPABLE: %w", err)
	}
	return nil
}
