package doctor

import (
	"strconv"
	"strings"
)

// container returns the kind of container of this process, "" if none is recognized.
func (h *Host) container() string {
	switch {
	case h.env("KUBERNETES_SERVICE_HOST") != "" || h.exists("var/run/secrets/kubernetes.io"):
		return "Kubernetes"
	case h.exists(".dockerenv"):
		return "Docker"
	case h.exists("run/.containerenv"):
		return "Podman"
	case h.env("APPTAINER_CONTAINER") != "" || h.env("SINGULARITY_CONTAINER") != "":
		return "Apptainer"
	}
	// With cgroup v1, or a shared cgroup namespace, the path names the engine.
	cgroup := h.read("proc/1/cgroup") + "\n" + h.read("proc/self/cgroup")
	for _, mark := range []struct{ text, name string }{
		{"kubepods", "Kubernetes"}, {"docker", "Docker"}, {"libpod", "Podman"}, {"containerd", "containerd"},
		{"/lxc", "LXC"},
	} {
		if strings.Contains(cgroup, mark.text) {
			return mark.name
		}
	}
	if kind := h.env("container"); kind != "" { // systemd's convention
		return kind
	}
	// The root of a container is usually an overlay, that of a machine rarely is.
	for line := range strings.Lines(h.read("proc/1/mounts")) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "/" && f[2] == "overlay" {
			return "overlay-rooted"
		}
	}
	return ""
}

// The initial namespaces of the kernel have fixed inode numbers (include/linux/proc_ns.h), so that a private one can be
// recognized from inside.
const (
	initialIPC = "ipc:[4026531839]"
	initialPID = "pid:[4026531836]"
)

// checkNamespaces checks for private namespaces: shared memory, cross-memory copies and CUDA IPC do not work across
// them, and UCX then uses TCP silently.
func checkNamespaces(h *Host) []Finding {
	ipc, pid := h.link("proc/self/ns/ipc"), h.link("proc/self/ns/pid")
	var private, flags, fields []string
	if ipc != "" && ipc != initialIPC {
		private, flags, fields = append(private, "IPC"), append(flags, "--ipc=host"), append(fields, "hostIPC: true")
	}
	if pid != "" && pid != initialPID {
		private, flags, fields = append(private, "PID"), append(flags, "--pid=host"), append(fields, "hostPID: true")
	}
	container := h.container()
	switch {
	case private == nil && container != "":
		return one(OK, "in a "+container+" container that shares the host's IPC and PID namespaces", "", "")
	case private == nil:
		return one(OK, "not in a private IPC or PID namespace", "", "")
	}
	where := "this process"
	if container != "" {
		where = "this " + container + " container"
	}
	fix := "start every container of this host with `" + strings.Join(flags, " ") +
		"` (or one with `--ipc=shareable` and the others with `--ipc=container:NAME --pid=container:NAME`)"
	if container == "Kubernetes" {
		fix = "set `" + strings.Join(fields, "`, `") + "` in the pod spec, or put the processes into one pod with " +
			"`shareProcessNamespace: true`"
	}
	return one(Warn, where+" has its own "+strings.Join(private, " and ")+" namespace",
		"Processes in other containers of this host connect to it by TCP only: no shared memory, no cross-memory "+
			"copy, "+
			"and CUDA IPC with some releases of UCX and driver only. Processes inside one container are not affected.",
		fix)
}

const capSysPtrace = 19

// checkPtrace checks ptrace restrictions: UCX copies between processes with process_vm_readv (CMA), which the kernel
// restricts like a debugger.
func checkPtrace(h *Host) []Finding {
	const slower = "Large messages between processes of one host are copied twice through shared memory instead of " +
		"once (CMA)."
	switch scope := h.read("proc/sys/kernel/yama/ptrace_scope"); scope {
	case "", "0":
		return h.checkCMA("ptrace is not restricted")
	case "1":
		// UCX grants the permission itself: prctl(PR_SET_PTRACER, ANY).
		return h.checkCMA("ptrace scope 1: UCX grants access to its peers")
	case "2":
		if h.capability(capSysPtrace) {
			return h.checkCMA("ptrace scope 2 with CAP_SYS_PTRACE")
		}
		return one(Warn, "ptrace scope 2 forbids copies between processes", slower,
			"run `sysctl kernel.yama.ptrace_scope=1` as root on the host, or give the process CAP_SYS_PTRACE "+
				"(`docker run --cap-add=SYS_PTRACE`)")
	default:
		return one(Warn, "ptrace scope "+scope+" forbids copies between processes", slower,
			"set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot: scope 3 cannot be lowered at run time")
	}
}

// checkCMA checks that UCX supports the copy here: a seccomp profile can forbid it, too.
func (h *Host) checkCMA(title string) []Finding {
	if h.UCX == nil || len(h.UCX.Transports) == 0 {
		return one(OK, title, "", "")
	}
	shm, cma := false, false
	for _, t := range h.UCX.Transports {
		shm = shm || t == "posix" || t == "sysv"
		cma = cma || t == "cma"
	}
	if !shm || cma {
		return one(OK, title, "", "")
	}
	fix := "use a UCX built with --enable-cma"
	if h.container() != "" {
		fix = "start the container with `--cap-add=SYS_PTRACE` (its seccomp profile may forbid process_vm_readv), or " +
			"use a UCX built with --enable-cma"
	}
	return one(Info, "UCX offers shared memory but not CMA",
		"Large messages between processes of one host are copied twice instead of once.", fix)
}

// capability reports whether a capability is in the effective set.
func (h *Host) capability(bit uint) bool {
	for line := range strings.Lines(h.read("proc/self/status")) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && set&(1<<bit) != 0
		}
	}
	return false
}
