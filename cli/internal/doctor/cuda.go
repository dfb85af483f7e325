package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// CUDA describes the GPUs that this process may use, as the driver reports them.
type CUDA struct {
	// Library is the path of libcuda.so.1, Version the newest CUDA version that it supports, such as "13.0".
	Library, Version string
	Devices          []CUDADevice
	// Peers[i][j] reports whether device i can access the memory of device j directly.
	Peers [][]bool
}

// CUDADevice is one GPU, or one MIG instance of one.
type CUDADevice struct {
	Name, UUID, Address string
	// Memory is in bytes.
	Memory int64
	// IPC reports whether its memory can be shared with other processes.
	IPC bool
	// NVLinks is the number of active links, -1 if unknown.
	NVLinks int
	// Node is its NUMA node, -1 if unknown.
	Node int
}

// Optional is a library that is loaded when it is needed.
type Optional struct {
	// Path and Version are those of the library that was found.
	Path, Version string
	// Err is the reason if none was found, with the searched places.
	Err error
	// Chosen is the variable with the path of the library, if it is set: nothing else is tried then.
	Chosen string
}

// checkDevices checks the devices of the CUDA driver.
func checkDevices(h *Host) []Finding {
	g := h.gpus()
	switch {
	case !g.usable() || hidden(h.Env):
		return one(NA, "devices of the CUDA driver: none", "", "")
	case h.CUDA == nil && h.CUDAError != nil:
		return one(Warn, "the CUDA driver does not work", h.CUDAError.Error(), "run `nvidia-smi`; if it fails too, "+
			"reboot or reload the nvidia module")
	case h.CUDA == nil:
		return one(NA, "devices of the CUDA driver: not checked", "", "")
	}
	driver := "driver for CUDA " + h.CUDA.Version
	if v := h.driverRelease(); v != "" {
		driver = "driver " + v + " for CUDA " + h.CUDA.Version
	}
	if h.CUDA.Library != g.libcuda { // else the finding above has it
		driver += ", " + h.CUDA.Library
	}
	f := one(OK, driver, "", "")
	for i, d := range h.CUDA.Devices {
		where := ""
		if d.Node >= 0 {
			where = fmt.Sprintf(", NUMA node %d", d.Node)
		}
		f = append(f, Finding{Severity: OK, Title: fmt.Sprintf("device %d: %s, %s, %s at %s%s", i, d.Name,
			gib(d.Memory), d.UUID, d.Address, where)})
		if !d.IPC {
			f = append(f, Finding{Severity: Warn, Title: fmt.Sprintf("device %d: memory cannot be shared "+
				"between processes", i),
				Detail: "There is no CUDA IPC and so no NVLink between workers on it; device memory is staged " +
					"through host memory.",
				Fix: "use Linux on bare metal: WSL and some virtual GPUs do not support CUDA IPC"})
		}
	}
	return f
}

// driverRelease returns the release of the kernel module, such as "580.159.04".
func (h *Host) driverRelease() string {
	for line := range strings.Lines(h.read("proc/driver/nvidia/version")) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if strings.Count(word, ".") >= 1 && word[0] >= '0' && word[0] <= '9' {
				return word
			}
		}
	}
	return ""
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// checkPeers checks that GPUs of one machine can access each other's memory; otherwise they copy through the host.
func checkPeers(h *Host) []Finding {
	if h.CUDA == nil || len(h.CUDA.Devices) < 2 {
		f := one(NA, "access between GPUs: needs two GPUs", "", "")
		if h.CUDA != nil && len(h.CUDA.Devices) == 1 {
			f[0].Severity, f[0].Title = OK, "one GPU: its processes share memory by CUDA IPC; "+
				links(h.CUDA.Devices)
		}
		return f
	}
	var apart []string
	for i, row := range h.CUDA.Peers {
		for j, reaches := range row {
			if i != j && !reaches {
				apart = append(apart, fmt.Sprintf("%d → %d", i, j))
			}
		}
	}
	n := len(h.CUDA.Devices)
	if len(apart) == 0 {
		f := one(OK, fmt.Sprintf("all %d GPUs can access each other's memory; %s", n, links(h.CUDA.Devices)), "",
			"")
		if slices.ContainsFunc(h.CUDA.Devices, func(d CUDADevice) bool { return d.NVLinks == 0 }) &&
			slices.ContainsFunc(h.CUDA.Devices, func(d CUDADevice) bool { return d.NVLinks > 0 }) {
			f = append(f, Finding{Severity: Warn, Title: "some GPUs have no active NVLink",
				Detail: "Copies to and from them use PCI.", Fix: "check `nvidia-smi nvlink --status` and, " +
					"with NVSwitch, the log of nvidia-fabricmanager"})
		}
		return f
	}
	more := ""
	if len(apart) > 12 {
		more, apart = fmt.Sprintf(" and %d more", len(apart)-12), apart[:12]
	}
	return one(Warn, "GPUs that cannot access each other's memory: "+strings.Join(apart, ", ")+more+"; "+
		links(h.CUDA.Devices),
		"Copies between them are staged through host memory.",
		"see `nvidia-smi topo -p2p r`; with NVSwitch start nvidia-fabricmanager; over PCI, disable ACS and the IOMMU "+
			"in the firmware, or enable peer access of the virtual machine")
}

// links describes the active NVLinks.
func links(devices []CUDADevice) string {
	var up []string
	known := false
	for i, d := range devices {
		if d.NVLinks >= 0 {
			known = true
			up = append(up, fmt.Sprintf("%d of GPU %d", d.NVLinks, i))
		}
	}
	switch {
	case !known:
		return "NVLink state unknown to this build (see `nvidia-smi nvlink --status`)"
	case !slices.ContainsFunc(devices, func(d CUDADevice) bool { return d.NVLinks > 0 }):
		return "no active NVLink"
	}
	return "active NVLinks: " + strings.Join(up, ", ")
}

// checkPool checks the size of the GPU memory pool.
func checkPool(h *Host) []Finding {
	if h.CUDA == nil || len(h.CUDA.Devices) == 0 {
		return one(NA, "pool of GPU memory: no GPU", "", "")
	}
	smallest := slices.MinFunc(h.CUDA.Devices, func(a, b CUDADevice) int { return int((a.Memory - b.Memory) >> 20) })
	// Reserve memory for the contexts of worker, scheduler and client (about half a GiB each), for code, and for
	// libraries that allocate memory themselves.
	room := max(smallest.Memory/10, 2<<30)
	fits := (smallest.Memory - room) >> 30
	advice := fmt.Sprintf("`--rmm-pool-size %dGiB`, or `0.9` of each GPU, with one worker on it", fits)
	switch {
	case fits < 1:
		return one(Info, "the smallest GPU has "+gib(smallest.Memory)+": too little for a pool next to contexts "+
			"and libraries", "Buffers are allocated separately, and peers map each of them.", "")
	case h.PoolSize > smallest.Memory:
		return one(Fail, fmt.Sprintf("the configured pool of %s exceeds the smallest GPU, which has %s",
			gib(h.PoolSize),
			gib(smallest.Memory)), "Workers on it will not start. Configured by "+h.PoolFrom+".", advice)
	case h.PoolSize > smallest.Memory-room/2:
		return one(Warn, fmt.Sprintf("the configured pool takes %s of the %s of the smallest GPU", gib(h.PoolSize),
			gib(smallest.Memory)),
			"Each process on a GPU needs about half a GiB for its context, and libraries allocate outside the pool. "+
				"Configured by "+h.PoolFrom+".", advice)
	case h.PoolSize > 0:
		return one(OK, fmt.Sprintf("pools of GPU memory of %s (%s)", gib(h.PoolSize), h.PoolFrom), "", "")
	}
	return one(Info, "no pool of GPU memory is configured",
		"Without one each buffer is a separate allocation, about 80 µs on an H200, and its first transfer takes "+
			"0.3 to 1 ms longer because the peer maps it. With one the peers map the pool once.",
		"start workers with "+advice)
}

// checkNCCL checks for NCCL, which cliques on GPUs use.
func checkNCCL(h *Host) []Finding {
	return h.optional(h.NCCL, "NCCL", "Collectives on GPUs use UCX instead.", "pip install nvidia-nccl-cu13 (or "+
		"-cu12, matching the driver), apt-get install libnccl2, or set MILLSTREAM_NCCL_LIBRARY to a libnccl.so.2")
}

func checkNVRTC(h *Host) []Finding {
	return h.optional(h.NVRTC, "NVRTC", "The kernels of Millstream are in the binary; those of a program cannot be "+
		"compiled at run time.", "pip install nvidia-cuda-nvrtc (or nvidia-cuda-nvrtc-cu12), or set "+
		"MILLSTREAM_NVRTC_LIBRARY to a libnvrtc.so")
}

func (h *Host) optional(lib *Optional, name, without, fix string) []Finding {
	switch {
	case lib == nil:
		return one(NA, name+": not checked", "", "")
	case lib.Err == nil:
		from := ""
		if lib.Chosen != "" {
			from = " (" + lib.Chosen + ")"
		}
		return one(OK, fmt.Sprintf("%s %s at %s%s", name, lib.Version, lib.Path, from), "", "")
	case lib.Chosen != "":
		return one(Fail, name+": "+lib.Chosen+" is set to a library that cannot be used", lib.Err.Error(),
			"correct or unset "+lib.Chosen)
	case !h.gpus().usable():
		return one(NA, name+" not found; not needed without a GPU", "", "")
	}
	return one(Info, name+" not found", without+" Searched: "+lib.Err.Error(), fix)
}
