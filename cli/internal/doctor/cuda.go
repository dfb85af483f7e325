package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// CUDA is what the driver says of the GPUs that this process may use.
type CUDA struct {
	// Library is the path of libcuda.so.1, Version the newest CUDA that it serves, "13.0".
	Library, Version string
	Devices          []CUDADevice
	// Peers[i][j] tells whether device i can use the memory of device j directly.
	Peers [][]bool
}

// CUDADevice is one GPU, or one MIG instance of one.
type CUDADevice struct {
	Name, UUID, Address string
	// Memory is in bytes.
	Memory int64
	// IPC: its memory can be shared with other processes.
	IPC bool
	// NVLinks is how many of its links are up; -1 if nobody knows.
	NVLinks int
	// Node is its NUMA node, -1 if the kernel does not say.
	Node int
}

// Optional is a library that is opened when it is first needed.
type Optional struct {
	// Path and Version of what was found.
	Path, Version string
	// Err says why none was found, and where it was looked for.
	Err error
	// Chosen is the variable that names one, if it is set: nothing else is tried then.
	Chosen string
}

// checkDevices: what the driver shows, beyond its being there.
func checkDevices(h *Host) []Finding {
	g := h.gpus()
	switch {
	case !g.usable() || hidden(h.Env):
		return one(NA, "devices of the CUDA driver: none to look at", "", "")
	case h.CUDA == nil && h.CUDAError != nil:
		return one(Warn, "the CUDA driver does not work", h.CUDAError.Error(), "run `nvidia-smi`; if it fails too, "+
			"reboot or reload the nvidia module")
	case h.CUDA == nil:
		return one(NA, "devices of the CUDA driver: not asked", "", "")
	}
	driver := "driver for CUDA " + h.CUDA.Version
	if v := h.driverRelease(); v != "" {
		driver = "driver " + v + " for CUDA " + h.CUDA.Version
	}
	if h.CUDA.Library != g.libcuda { // else it stands in the line above
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
			f = append(f, Finding{Severity: Warn, Title: fmt.Sprintf("device %d: its memory cannot be shared "+
				"between processes", i),
				Detail: "There is no CUDA IPC and so no NVLink lane between workers on it; device memory goes " +
					"through host memory.",
				Fix: "CUDA IPC needs Linux on the machine itself: it is missing in WSL and on some virtual GPUs"})
		}
	}
	return f
}

// driverRelease is the release of the kernel module, such as "580.159.04".
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

// checkPeers: GPUs of one machine that cannot reach each other copy through the host.
func checkPeers(h *Host) []Finding {
	if h.CUDA == nil || len(h.CUDA.Devices) < 2 {
		f := one(NA, "access between GPUs does not apply: it needs two of them", "", "")
		if h.CUDA != nil && len(h.CUDA.Devices) == 1 {
			f[0].Severity, f[0].Title = OK, "one GPU: processes on it share its memory by CUDA IPC; "+
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
		f := one(OK, fmt.Sprintf("each of %d GPUs reaches the memory of each other; %s", n, links(h.CUDA.Devices)), "",
			"")
		if slices.ContainsFunc(h.CUDA.Devices, func(d CUDADevice) bool { return d.NVLinks == 0 }) &&
			slices.ContainsFunc(h.CUDA.Devices, func(d CUDADevice) bool { return d.NVLinks > 0 }) {
			f = append(f, Finding{Severity: Warn, Title: "some GPUs have no NVLink up, others have",
				Detail: "Copies to and from those go over PCI.", Fix: "look at `nvidia-smi nvlink --status` and, " +
					"with NVSwitch, at the log of nvidia-fabricmanager"})
		}
		return f
	}
	more := ""
	if len(apart) > 12 {
		more, apart = fmt.Sprintf(" and %d more", len(apart)-12), apart[:12]
	}
	return one(Warn, "GPUs that cannot reach each other's memory: "+strings.Join(apart, ", ")+more+"; "+
		links(h.CUDA.Devices),
		"Copies between them go through host memory.",
		"see `nvidia-smi topo -p2p r`; with NVSwitch start nvidia-fabricmanager; over PCI, turn ACS and the IOMMU "+
			"off in the firmware, or give the virtual machine peer access")
}

// links says which NVLinks are up.
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
		return "NVLink not known to this build (`nvidia-smi nvlink --status` tells)"
	case !slices.ContainsFunc(devices, func(d CUDADevice) bool { return d.NVLinks > 0 }):
		return "no NVLink is up"
	}
	return "NVLinks up: " + strings.Join(up, ", ")
}

// checkPool: how much of a GPU a pool should take.
func checkPool(h *Host) []Finding {
	if h.CUDA == nil || len(h.CUDA.Devices) == 0 {
		return one(NA, "advice on pools of GPU memory does not apply: there is no GPU", "", "")
	}
	smallest := slices.MinFunc(h.CUDA.Devices, func(a, b CUDADevice) int { return int((a.Memory - b.Memory) >> 20) })
	// Room for the contexts of worker, scheduler and client (about half a GiB each), for code
	// and for libraries that allocate by themselves.
	room := max(smallest.Memory/10, 2<<30)
	fits := (smallest.Memory - room) >> 30
	advice := fmt.Sprintf("`--rmm-pool-size %dGiB`, or `0.9` of each GPU, with one worker on it", fits)
	switch {
	case fits < 1:
		return one(Info, "the smallest GPU has "+gib(smallest.Memory)+": too little for a pool beside contexts "+
			"and libraries", "Buffers are allocated one by one, and each is mapped by its peers.", "")
	case h.PoolSize > smallest.Memory:
		return one(Fail, fmt.Sprintf("the pool that is asked for has %s, the smallest GPU %s", gib(h.PoolSize),
			gib(smallest.Memory)), "Workers on it will not start. It was set by "+h.PoolFrom+".", advice)
	case h.PoolSize > smallest.Memory-room/2:
		return one(Warn, fmt.Sprintf("the pool that is asked for has %s of the %s of the smallest GPU", gib(h.PoolSize),
			gib(smallest.Memory)),
			"Each process on a GPU needs about half a GiB for its context, and libraries allocate beside the pool. "+
				"It was set by "+h.PoolFrom+".", advice)
	case h.PoolSize > 0:
		return one(OK, fmt.Sprintf("pools of GPU memory of %s (%s)", gib(h.PoolSize), h.PoolFrom), "", "")
	}
	return one(Info, "no pool of GPU memory is asked for by the environment",
		"Without one each buffer is an allocation of its own, some 80 µs on an H200, and its first transfer takes "+
			"0.3 to 1 ms longer, in which the peer maps it. With one the peers map the pool once.",
		"start workers with "+advice)
}

// checkNCCL and checkNVRTC: libraries that cliques on GPUs use.
func checkNCCL(h *Host) []Finding {
	return h.optional(h.NCCL, "NCCL", "Collectives on GPUs go over UCX instead.", "pip install nvidia-nccl-cu13 (or "+
		"-cu12, matching the driver), apt-get install libnccl2, or name a libnccl.so.2 in MILLSTREAM_NCCL_LIBRARY")
}

func checkNVRTC(h *Host) []Finding {
	return h.optional(h.NVRTC, "NVRTC", "Kernels of Millstream's own are in the binary; those of a program cannot be "+
		"compiled at run time.", "pip install nvidia-cuda-nvrtc (or nvidia-cuda-nvrtc-cu12), or name a libnvrtc.so "+
		"in MILLSTREAM_NVRTC_LIBRARY")
}

func (h *Host) optional(lib *Optional, name, without, fix string) []Finding {
	switch {
	case lib == nil:
		return one(NA, name+" was not looked for", "", "")
	case lib.Err == nil:
		from := ""
		if lib.Chosen != "" {
			from = " (" + lib.Chosen + ")"
		}
		return one(OK, fmt.Sprintf("%s %s at %s%s", name, lib.Version, lib.Path, from), "", "")
	case lib.Chosen != "":
		return one(Fail, name+": "+lib.Chosen+" names a library that cannot be used", lib.Err.Error(),
			"correct or unset "+lib.Chosen)
	case !h.gpus().usable():
		return one(NA, name+" is not here, and there is no GPU to use it with", "", "")
	}
	return one(Info, name+" is not found", without+" Looked for: "+lib.Err.Error(), fix)
}
