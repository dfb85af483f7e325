package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// gpuState describes NVIDIA GPUs as far as that is possible without loading a driver.
type gpuState struct {
	pci     int    // number of GPUs on the bus
	driver  bool   // kernel module loaded
	nodes   int    // number of /dev/nvidia0, …
	libcuda string // path of the user-space driver
	wsl     bool   // GPU of a Windows host
}

const nvidiaVendor = "0x10de"

func (h *Host) gpus() gpuState {
	var g gpuState
	for _, file := range h.glob("sys/bus/pci/devices/*/vendor") {
		// Class 0x03… is a display controller. Network cards and audio functions of NVIDIA have the same vendor.
		if h.read(file) == nvidiaVendor && strings.HasPrefix(h.read(strings.TrimSuffix(file, "vendor")+"class"),
			"0x03") {
			g.pci++
		}
	}
	g.driver = h.exists("proc/driver/nvidia/version")
	g.nodes = len(h.glob("dev/nvidia[0-9]*"))
	g.wsl = h.exists("dev/dxg") && h.exists("usr/lib/wsl/lib/libcuda.so.1")
	if path, ok := h.findLibrary("libcuda.so.1"); ok {
		g.libcuda = path
	} else if g.wsl {
		g.libcuda = "/usr/lib/wsl/lib/libcuda.so.1"
	}
	return g
}

// usable reports whether a CUDA program can run.
func (g gpuState) usable() bool { return g.libcuda != "" && (g.nodes > 0 || g.wsl) }

// checkGPU checks that this process can access the GPUs.
func checkGPU(h *Host) []Finding {
	g := h.gpus()
	container := h.container()
	switch {
	case g.usable() && hidden(h.Env):
		return one(Info, "GPUs are hidden by CUDA_VISIBLE_DEVICES", "The variable is empty or -1.",
			"unset CUDA_VISIBLE_DEVICES to use the GPUs")
	case g.usable():
		return one(OK, fmt.Sprintf("%d NVIDIA GPU(s), driver %s", max(g.nodes, g.pci, 1), g.libcuda), "", "")
	case g.nodes > 0:
		return one(Warn, "GPU device files exist but the driver library libcuda.so.1 is not found",
			"Device memory cannot be used.", "in a container, use the NVIDIA container toolkit (`docker run --gpus "+
				"all`); else install the NVIDIA driver's user-space libraries")
	case g.driver && container != "":
		return one(Warn, "the host has an NVIDIA driver, but this "+container+" container has no GPU device",
			"Device memory cannot be used.", "start the container with `--gpus all` (Kubernetes: request "+
				"nvidia.com/gpu)")
	case g.driver:
		return one(Warn, "the NVIDIA driver is loaded but /dev/nvidia0 is missing",
			"Device memory cannot be used.", "run `nvidia-modprobe -c 0 -u` as root, or start nvidia-persistenced")
	case g.pci > 0:
		return one(Warn, fmt.Sprintf("%d NVIDIA GPU(s) on the bus, but no driver is loaded", g.pci),
			"Device memory cannot be used.", "install the NVIDIA driver and reboot, or run `modprobe nvidia`")
	default:
		return one(Info, "no NVIDIA GPU", "Host memory only.", "")
	}
}

func hidden(env []string) bool {
	return slices.ContainsFunc(env, func(kv string) bool {
		v, ok := strings.CutPrefix(kv, "CUDA_VISIBLE_DEVICES=")
		return ok && (strings.TrimSpace(v) == "" || strings.TrimSpace(v) == "-1" || v == "NoDevFiles")
	})
}

// checkCUDASupport checks the CUDA support of UCX, without which UCX cannot distinguish device memory from host memory.
func checkCUDASupport(h *Host) []Finding {
	g := h.gpus()
	switch {
	case h.UCX == nil:
		return one(Info, "CUDA support of UCX: not checked without a UCX library", "", h.installUCX())
	case h.UCX.CUDA:
		return one(OK, "UCX has CUDA support", "", "")
	case g.usable() || g.pci > 0:
		return one(Warn, "UCX has no CUDA support, but there is a GPU",
			h.UCX.Path+" was built without CUDA support: device memory cannot be sent.",
			"pip install libucx-cu12 (or libucx-cu13, matching the driver), or use a conda/HPC-X build, and set "+
				"MILLSTREAM_UCX_LIBRARY to its "+libucp)
	default:
		return one(NA, "UCX has no CUDA support; not needed without a GPU", "", "")
	}
}

// checkGPUDirect checks for the kernel module that lets network cards access GPU memory.
func checkGPUDirect(h *Host) []Finding {
	if !h.gpus().usable() || len(h.hcas()) == 0 {
		return one(NA, "GPUDirect RDMA: needs a GPU and an RDMA device", "", "")
	}
	for _, module := range []string{"nvidia_peermem", "nv_peer_mem"} {
		if h.exists("sys/module/" + module) {
			return one(OK, "GPUDirect RDMA: "+module+" is loaded", "", "")
		}
	}
	if why := h.noDMABuf(); why != "" {
		return one(Warn, "GPU and RDMA device present, but nvidia_peermem is not loaded",
			"GPU memory is staged through host memory for the network: dma-buf, the alternative, needs "+why+".",
			"run `modprobe nvidia_peermem` on the host")
	}
	return one(OK, "GPUDirect RDMA: dma-buf (supported by kernel, driver and UCX)", "", "")
}

// noDMABuf returns what network cards need to access GPU memory by dma-buf, "" if nothing is missing.
func (h *Host) noDMABuf() string {
	var major, minor int
	_, _ = fmt.Sscanf(h.read("proc/sys/kernel/osrelease"), "%d.%d", &major, &minor)
	switch {
	case major < 5 || major == 5 && minor < 12:
		return "Linux 5.12"
	case !strings.Contains(h.read("proc/driver/nvidia/version"), "Open Kernel Module"):
		return "NVIDIA's open kernel modules"
	case h.UCX == nil:
		return "UCX"
	}
	major, minor = 0, 0
	_, _ = fmt.Sscanf(h.UCX.Version, "%d.%d", &major, &minor)
	if major < 1 || major == 1 && minor < 14 {
		return "UCX 1.14"
	}
	return ""
}
