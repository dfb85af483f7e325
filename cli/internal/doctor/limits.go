package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/bench/benchfmt"
)

const (
	// minShm is the recommended minimum of /dev/shm. The default of Docker is 64 MiB; UCX uses about 4 MiB per worker
	// and more per peer with large messages.
	minShm = 256 << 20
	// minFreeShm is the recommended minimum of free space in /dev/shm.
	minFreeShm = 64 << 20
	// minLocked is the minimum for registering buffers for RDMA.
	minLocked = 64 << 20
	// baseFiles is the number of open files before the first connection: UCX opens about 17 per worker, a GPU about 40.
	baseFiles = 128
	// filesPerConnection counts two sockets of UCX tcp, one lifeline, and one spare for a connection that is replaced.
	filesPerConnection = 4
)

func bytesText(n uint64) string {
	if n >= math.MaxInt64 {
		return "unlimited"
	}
	return benchfmt.FormatSize(int64(n))
}

// checkSharedMemory checks /dev/shm, which the posix transport of UCX uses; when it is full the process gets SIGBUS.
func checkSharedMemory(h *Host) []Finding {
	total, free, err := h.Space("/dev/shm")
	mount := "mount -t tmpfs -o size=1g tmpfs /dev/shm"
	resize := "mount -o remount,size=1g /dev/shm"
	if c := h.container(); c == "Kubernetes" {
		mount = "mount an emptyDir with `medium: Memory` at /dev/shm"
		resize = mount
	} else if c != "" {
		mount = "start the container with `--shm-size=1g` or `--ipc=host`"
		resize = mount
	}
	switch {
	case err != nil:
		return one(Fail, "/dev/shm cannot be used: "+err.Error(),
			"Processes of one host fall back to System V shared memory or TCP.", mount)
	case total < minShm:
		return one(Warn, fmt.Sprintf("/dev/shm is small: %s", bytesText(total)),
			"Shared-memory transports put their buffers there; when it is full the process crashes with SIGBUS.",
			resize)
	case free < minFreeShm:
		return one(Warn, fmt.Sprintf("/dev/shm is nearly full: %s of %s free", bytesText(free), bytesText(total)),
			"Shared-memory transports put their buffers there; when it is full the process crashes with SIGBUS.",
			"remove stale files (`ls -l /dev/shm`), or "+resize)
	}
	return one(OK, fmt.Sprintf("/dev/shm: %s free of %s", bytesText(free), bytesText(total)), "", "")
}

// checkLockedMemory checks the limit of locked memory, because RDMA registration pins memory.
func checkLockedMemory(h *Host) []Finding {
	soft, _, err := h.Limit(unix.RLIMIT_MEMLOCK)
	if err != nil {
		return one(Info, "the locked-memory limit cannot be read: "+err.Error(), "", "")
	}
	title := "locked-memory limit: " + bytesText(soft)
	if soft == Unlimited || h.capability(unix.CAP_IPC_LOCK) {
		return one(OK, title, "", "")
	}
	if len(h.hcas()) == 0 {
		return one(OK, title+" (relevant only with RDMA devices)", "", "")
	}
	fix := "set `* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.d/rdma.conf and " +
		"log in again (systemd: LimitMEMLOCK=infinity)"
	if h.container() != "" {
		fix = "start the container with `--ulimit memlock=-1 --cap-add=IPC_LOCK`"
	}
	severity, detail := Warn, "RDMA registers memory by locking it; registration fails beyond the limit."
	if soft < minLocked {
		severity, detail = Fail, "RDMA registers memory by locking it; this limit is too low to start a "+
			"worker on the RDMA devices present."
	}
	return one(severity, title+", and there are RDMA devices", detail, fix)
}

// checkOpenFiles checks the limit of open files for the expected connections.
func checkOpenFiles(h *Host) []Finding {
	soft, hard, err := h.Limit(unix.RLIMIT_NOFILE)
	if err != nil {
		return one(Info, "the open-file limit cannot be read: "+err.Error(), "", "")
	}
	// Go programs raise the soft limit to the hard one at start.
	limit := max(soft, hard)
	need := uint64(baseFiles + filesPerConnection*max(h.Connections, 0))
	title := fmt.Sprintf("open files: limit %s, %d needed for %d connections", countText(limit), need, h.Connections)
	if limit >= need {
		return one(OK, title, "", "")
	}
	fix := fmt.Sprintf("set `* hard nofile %d` in /etc/security/limits.d/millstream.conf and log in again (systemd: "+
		"LimitNOFILE=%d)", need, need)
	if h.container() != "" {
		fix = fmt.Sprintf("start the container with `--ulimit nofile=%d`", need)
	}
	return one(Fail, title, fmt.Sprintf("Connections beyond about %d will be refused.", fits(limit)), fix)
}

// fits returns how many connections a limit allows.
func fits(limit uint64) uint64 {
	if limit <= baseFiles {
		return 0
	}
	return (limit - baseFiles) / filesPerConnection
}

func countText(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// checkCPUs checks the number of processors: polling needs one for each side.
func checkCPUs(h *Host) []Finding {
	quota, limited := h.cpuQuota()
	title := fmt.Sprintf("%d CPU(s)", h.CPUs)
	usable := float64(h.CPUs)
	if limited {
		title += fmt.Sprintf(", of which a cgroup quota allows %.3g", quota)
		usable = min(usable, quota)
	}
	if usable >= 2 {
		return one(OK, title, "", "")
	}
	return one(Warn, title,
		"A process that polls for a message takes the processor from the sender: latency grows from "+
			"microseconds to a scheduler slice.",
		"use a machine or container with two CPUs or more; until then use the adaptive progress mode (the "+
			"default), not spin")
}

// cpuQuota returns the quota of cgroup v2 (cpu.max) or v1 (cfs files).
func (h *Host) cpuQuota() (float64, bool) {
	if f := strings.Fields(h.read("sys/fs/cgroup/cpu.max")); len(f) == 2 {
		return quotient(f[0], f[1])
	}
	return quotient(h.read("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), h.read("sys/fs/cgroup/cpu/cpu.cfs_period_us"))
}

func quotient(quota, period string) (float64, bool) {
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false // "max" or -1
	}
	return q / p, true
}
