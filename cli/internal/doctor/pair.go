package doctor

import (
	"fmt"
	"strings"
)

// notSure is what can be said of CUDA IPC across namespaces. The manuals ask for shared ones.
const notSure = "CUDA IPC (NVLink) is only sure within one: UCX 1.21 with driver 580 was seen to reach across as " +
	"root, others may not."

// Between tells what two processes of this machine share, and with it which lanes there can be
// between them.
func Between(h *Host, a, b int) Report {
	var r Report
	add := func(id string, s Severity, title, detail, fix string) {
		r.Findings = append(r.Findings, Finding{ID: id, Severity: s, Title: title, Detail: detail, Fix: fix})
	}
	for _, pid := range []int{a, b} {
		switch dir := fmt.Sprintf("proc/%d", pid); {
		case !h.exists(dir):
			add("pair-process", Fail, fmt.Sprintf("there is no process %d", pid), "Numbers are those of this "+
				"PID namespace.", "look it up with `ps -e`, on the host for processes of containers")
		case h.link(dir+"/ns/ipc") == "":
			add("pair-process", Fail, fmt.Sprintf("the namespaces of process %d cannot be read", pid),
				"It belongs to another user.", "run doctor as root")
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
				"`--ipc=host` where nobody else uses the host; Kubernetes: one pod, or `hostIPC: true`")
	}
	if pid {
		add("pair-pid", OK, both+"share their PID namespace", "", "")
	} else {
		add("pair-pid", Warn, both+"have different PID namespaces", "No copies from process to process (CMA) "+
			"between them. "+notSure,
			"start the other container with `--pid=container:NAME`, or both with `--pid=host`; Kubernetes: one pod "+
				"with `shareProcessNamespace: true`, or `hostPID: true`")
	}
	if mnt {
		add("pair-mount", OK, both+"share their mount namespace, and with it /dev/shm", "", "")
	} else if ipc {
		// Engines mount the /dev/shm of the namespace that is shared.
		add("pair-mount", Info, both+"have different mount namespaces", "With a container engine a shared IPC "+
			"namespace comes with its /dev/shm; otherwise POSIX shared memory does not reach across.",
			"where `/dev/shm` differs, mount one into both")
	} else {
		add("pair-mount", Warn, both+"have different mount namespaces", "POSIX shared memory, which lives in "+
			"/dev/shm, does not reach across.", "sharing the IPC namespace brings /dev/shm with it")
	}
	if ua, ub := h.uidOf(a), h.uidOf(b); ua != ub {
		add("pair-user", Warn, fmt.Sprintf("process %d runs as user %s, process %d as %s", a, ua, b, ub),
			"The kernel forbids copies from process to process (CMA) between users.", "run both as one user, or give "+
				"both CAP_SYS_PTRACE")
	} else {
		add("pair-user", OK, both+"run as one user", "", "")
	}
	var lanes []string
	if mnt || ipc {
		lanes = append(lanes, "shared memory")
	}
	if pid && r.Worst() != Warn {
		lanes = append(lanes, "CMA")
	}
	if ipc && pid {
		lanes = append(lanes, "CUDA IPC")
	} else {
		lanes = append(lanes, "perhaps CUDA IPC")
	}
	if len(lanes) == 3 && ipc && pid {
		add("pair-lanes", OK, "lanes that can be between them: "+strings.Join(lanes, ", "), "", "")
	} else {
		add("pair-lanes", Warn, "lanes that can be between them: "+strings.Join(append(lanes, "TCP"), ", "),
			"Faster ones stop at the borders above.", "share what differs")
	}
	return r
}

// uidOf is the real user of a process.
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
