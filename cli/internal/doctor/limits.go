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
	// minShm is the smallest comfortable /dev/shm. Docker's default is 64 MiB;
	// UCX takes about 4 MiB per worker and more per peer with large messages.
	minShm = 256 << 20
	// minFreeShm is what must be free of it.
	minFreeShm = 64 << 20
	// minLocked is what RDMA needs as a bare minimum to register buffers.
	minLocked = 64 << 20
	// baseFiles are open before the first connection: UCX opens about 17 per
	// worker, a GPU about 40.
	baseFiles = 128
	// filesPerConnection: two sockets of UCX's tcp, one lifeline, one to spare
	// while a connection is replaced.
	filesPerConnection = 4
)

func bytesText(n uint64) string {
	if n >= math.MaxInt64 {
		return "unlimited"
	}
	return benchfmt.FormatSize(int64(n))
}

// checkSharedMemory: UCX's posix transport lives in /dev/shm; a full one kills
// the process with SIGBUS.
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
			"Shared-memory transports put their buffers there; when it is full the process dies with SIGBUS.", resize)
	case free < minFreeShm:
		return one(Warn, fmt.Sprintf("/dev/shm is nearly full: %s of %s free", bytesText(free), bytesText(total)),
			"Shared-memory transports put their buffers there; when it is full the process dies with SIGBUS.",
			"remove stale files (`ls -l /dev/shm`), or "+resize)
	}
	return one(OK, fmt.Sprintf("/dev/shm: %s free of %s", bytesText(free), bytesText(total)), "", "")
}

// checkLockedMemory: RDMA registration pins memory.
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
		return one(OK, title+" (matters only with RDMA devices)", "", "")
	}
	fix := "set `* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.d/rdma.conf and " +
		"log in again (systemd: LimitMEMLOCK=infinity)"
	if h.container() != "" {
		fix = "start the container with `--ulimit memlock=-1 --cap-add=IPC_LOCK`"
	}
	severity, detail := Warn, "RDMA registers memory by locking it; registration fails beyond the limit."
	if soft < minLocked {
		severity, detail = Fail, "RDMA registers memory by locking it; this limit is too small even to start a "+
			"worker on the RDMA devices present."
	}
	return one(severity, title+", and there are RDMA devices", detail, fix)
}

// checkOpenFiles compares the limit with the connections expected.
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

// fits is how many connections a limit allows.
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

// checkCPUs: spinning needs a processor for each side.
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
		"A process that spins for a message takes the processor from the one that sends it: latency grows from "+
			"microseconds to a scheduler slice.",
		"give the machine or container two CPUs or more; until then use the adaptive progress mode (the "+
			"default), not spin")
}

// cpuQuota reads cgroup v2's cpu.max or v1's cfs files.
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
