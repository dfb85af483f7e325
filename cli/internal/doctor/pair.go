package doctor

import (
	"fmt"
	"strings"
)

// notSure describes CUDA IPC across namespaces, for which the manuals require shared ones.
const notSure = "CUDA IPC (NVLink) is only reliable within one: UCX 1.21 with driver 580 works across them as " +
	"root, other releases may not."

// Between reports what two processes of this machine share, and so which transports can work between them.
func Between(h *Host, a, b int) Report {
	var r Report
	add := func(id string, s Severity, title, detail, fix string) {
		r.Findings = append(r.Findings, Finding{ID: id, Severity: s, Title: title, Detail: detail, Fix: fix})
	}
	for _, pid := range []int{a, b} {
		switch dir := fmt.Sprintf("proc/%d", pid); {
		case !h.exists(dir):
			add("pair-process", Fail, fmt.Sprintf("no process %d", pid), "Process IDs are those of this "+
				"PID namespace.", "use `ps -e`, on the host for processes in containers")
		case h.link(dir+"/ns/ipc") == "":
			add("pair-process", Fail, fmt.Sprintf("the namespaces of process %d cannot be read", pid),
				"The process belongs to another user.", "run doctor as root")
		}
	}
	if len(r.Findings) > 0 {
		return r
	}
	same := func(ns string) bool {
		return h.link(fmt.Sprintf("proc/%d/ns/%s", a, ns)) == h.link(fmt.Sprintf("proc/%d/ns/%s", b, ns))
	}
	both := fmt.Sprintf("processes %d and %d ", a, b)
	ipc, pid, mnt := same("ipc"), same("pid"), same("mnt")
	if ipc {
		add("pair-ipc", OK, both+"share their IPC namespace", "", "")
	} else {
		add("pair-ipc", Warn, both+"have different IPC namespaces", "No System V shared memory between them. "+notSure,
			"start one container with `--ipc=shareable` and the other with `--ipc=container:NAME`, or both with "+
				"`--ipc=host` if the host has no other users; Kubernetes: one pod, or `hostIPC: true`")
	}
	if pid {
		add("pair-pid", OK, both+"share their PID namespace", "", "")
	} else {
		add("pair-pid", Warn, both+"have different PID namespaces", "No copies between processes (CMA) "+
			"between them. "+notSure,
			"start the other container with `--pid=container:NAME`, or both with `--pid=host`; Kubernetes: one pod "+
				"with `shareProcessNamespace: true`, or `hostPID: true`")
	}
	if mnt {
		add("pair-mount", OK, both+"share their mount namespace, and with it /dev/shm", "", "")
	} else if ipc {
		// Container engines mount the /dev/shm of a shared namespace.
		add("pair-mount", Info, both+"have different mount namespaces", "With a container engine a shared IPC "+
			"namespace includes its /dev/shm; otherwise POSIX shared memory does not work between them.",
			"if `/dev/shm` differs, mount one into both")
	} else {
		add("pair-mount", Warn, both+"have different mount namespaces", "POSIX shared memory, which uses "+
			"/dev/shm, does not work between them.", "share the IPC namespace, which includes /dev/shm")
	}
	if ua, ub := h.uidOf(a), h.uidOf(b); ua != ub {
		add("pair-user", Warn, fmt.Sprintf("process %d runs as user %s, process %d as %s", a, ua, b, ub),
			"The kernel forbids copies between processes (CMA) of different users.", "run both as the same user, or "+
				"give "+
				"both CAP_SYS_PTRACE")
	} else {
		add("pair-user", OK, both+"run as the same user", "", "")
	}
	var transports []string
	if mnt || ipc {
		transports = append(transports, "shared memory")
	}
	if pid && r.Worst() != Warn {
		transports = append(transports, "CMA")
	}
	if ipc && pid {
		transports = append(transports, "CUDA IPC")
	} else {
		transports = append(transports, "perhaps CUDA IPC")
	}
	if len(transports) == 3 && ipc && pid {
		add("pair-transports", OK, "transports between them: "+strings.Join(transports, ", "), "", "")
	} else {
		add("pair-transports", Warn, "transports between them: "+strings.Join(append(transports, "TCP"), ", "),
			"Faster ones do not work because of the differences above.", "share the namespaces above")
	}
	return r
}

// uidOf returns the real user ID of a process.
func (h *Host) uidOf(pid int) string {
	for line := range strings.Lines(h.read(fmt.Sprintf("proc/%d/status", pid))) {
		if value, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(value); len(f) > 0 {
				return f[0]
			}
		}
	}
	return "?"
}
