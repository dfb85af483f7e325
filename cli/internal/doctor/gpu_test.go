package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A GPU on the bus; a network card of NVIDIA next to it is not a GPU.
var board = files{
	"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
	"sys/bus/pci/devices/0000:01:00.0/class":  "0x030200\n",
	"sys/bus/pci/devices/0000:02:00.0/vendor": "0x10de\n",
	"sys/bus/pci/devices/0000:02:00.0/class":  "0x020000\n",
	"sys/bus/pci/devices/0000:03:00.0/vendor": "0x8086\n",
	"sys/bus/pci/devices/0000:03:00.0/class":  "0x030000\n",
}

const (
	driverFile = "proc/driver/nvidia/version"
	nodeFile   = "dev/nvidia0"
	cudaFile   = "usr/lib/x86_64-linux-gnu/libcuda.so.1"
)

func with(base files, more ...string) files {
	out := files{}
	for k, v := range base {
		out[k] = v
	}
	for _, name := range more {
		out[name] = ""
	}
	return out
}

func TestChecksOfGPU(t *testing.T) {
	runCases(t, checkGPU, []checkCase{
		{name: "none", want: want{Info, []string{"no NVIDIA GPU"}}},
		{name: "no driver", files: board, want: want{Warn, []string{"1 NVIDIA GPU(s) on the bus, but no driver",
			"modprobe nvidia"}}},
		{name: "no node", files: with(board, driverFile), want: want{Warn,
			[]string{"/dev/nvidia0 is missing", "nvidia-modprobe"}}},
		{name: "container without gpus", files: with(board, driverFile, ".dockerenv"),
			want: want{Warn, []string{"Docker container has no GPU device", "--gpus all"}}},
		{name: "no libcuda", files: with(board, driverFile, nodeFile),
			want: want{Warn, []string{"libcuda.so.1 is not found"}}},
		{name: "complete", files: with(board, driverFile, nodeFile, cudaFile),
			want: want{OK, []string{"1 NVIDIA GPU(s)", "/" + cudaFile}}},
		{name: "hidden", files: with(board, driverFile, nodeFile, cudaFile), change: setenv("CUDA_VISIBLE_DEVICES="),
			want: want{Info, []string{"hidden by CUDA_VISIBLE_DEVICES"}}},
		{name: "chosen, not hidden", files: with(board, driverFile, nodeFile, cudaFile),
			change: setenv("CUDA_VISIBLE_DEVICES=0"), want: want{OK, nil}},
		{name: "wsl", files: with(nil, "dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"),
			want: want{OK, []string{"/usr/lib/wsl/lib/libcuda.so.1"}}},
		{name: "device files other than GPUs", files: with(nil, "dev/nvidiactl", "dev/nvidia-uvm"),
			want: want{Info, []string{"no NVIDIA GPU"}}},
	})
}

// gpus is a machine of n GPUs of which each reaches each other.
func gpus(n, links int, change ...func(*CUDA)) func(*Host) {
	c := &CUDA{Library: "/lib/libcuda.so.1", Version: "13.0"}
	for i := range n {
		c.Devices = append(c.Devices, CUDADevice{Name: "NVIDIA H200", UUID: fmt.Sprintf("GPU-%d", i),
			Address: fmt.Sprintf("0000:0%d:00.0", i), Memory: 140 << 30, IPC: true, NVLinks: links, Node: i % 2})
		c.Peers = append(c.Peers, slices.Repeat([]bool{true}, n))
	}
	for _, f := range change {
		f(c)
	}
	return func(h *Host) { h.CUDA = c }
}

func TestChecksOfDevices(t *testing.T) {
	gpu := with(board, nodeFile, cudaFile)
	gpu[driverFile] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC " +
		"version: gcc 12.2.0\n"
	runCases(t, checkDevices, []checkCase{
		{name: "none", want: want{NA, []string{"CUDA driver: none"}}},
		{name: "hidden", files: gpu, change: setenv("CUDA_VISIBLE_DEVICES=-1"), want: want{NA, nil}},
		{name: "not checked", files: gpu, want: want{NA, []string{"not checked"}}},
		{name: "broken", files: gpu, change: func(h *Host) { h.CUDAError = errors.New("CUDA_ERROR_SYSTEM_NOT_READY") },
			want: want{Warn, []string{"does not work", "SYSTEM_NOT_READY", "nvidia-smi"}}},
		{name: "two", files: gpu, change: gpus(2, 18), want: want{OK, []string{"driver 580.159.04 for CUDA 13.0, " +
			"/lib/libcuda.so.1"}}},
		{name: "unknown release", files: with(gpu, driverFile), change: gpus(1, 18),
			want: want{OK, []string{"driver for CUDA 13.0"}}},
	})
	two := checkDevices(machine(gpu, gpus(2, 18)))
	if len(two) != 3 || two[2].Title != "device 1: NVIDIA H200, 140.0 GiB, GPU-1 at 0000:01:00.0, NUMA node 1" {
		t.Errorf("%+v", two)
	}
	if f := checkDevices(machine(gpu, gpus(1, 0, func(c *CUDA) { c.Devices[0].IPC = false }))); len(f) != 3 ||
		f[2].Severity != Warn || !strings.Contains(f[2].Title, "cannot be shared") {
		t.Errorf("%+v", f)
	}
}

func TestChecksOfPeers(t *testing.T) {
	apart := func(c *CUDA) { c.Peers[0][1] = false }
	runCases(t, checkPeers, []checkCase{
		{name: "no GPU", want: want{NA, []string{"needs two GPUs"}}},
		{name: "one", change: gpus(1, 18), want: want{OK, []string{"one GPU", "CUDA IPC",
			"active NVLinks: 18 of GPU 0"}}},
		{name: "two", change: gpus(2, 18), want: want{OK, []string{"all 2 GPUs can access",
			"18 of GPU 0, 18 of GPU 1"}}},
		{name: "no NVLink", change: gpus(2, 0), want: want{OK, []string{"no active NVLink"}}},
		{name: "unknown", change: gpus(2, -1), want: want{OK,
			[]string{"unknown to this build", "nvidia-smi nvlink"}}},
		{name: "apart", change: gpus(2, 0, apart), want: want{Warn, []string{
			"cannot access each other's memory: 0 → 1;", "through host memory", "nvidia-fabricmanager"}}},
		{name: "many apart", change: gpus(8, 0, func(c *CUDA) {
			c.Peers = slices.Repeat([][]bool{make([]bool, 8)}, 8)
		}), want: want{Warn, []string{"and 44 more"}}},
	})
	if f := checkPeers(machine(nil, gpus(2, 18, func(c *CUDA) { c.Devices[1].NVLinks = 0 }))); len(f) != 2 ||
		f[1].Severity != Warn {
		t.Errorf("a GPU whose links are down: %+v", f)
	}
}

func TestChecksOfPool(t *testing.T) {
	pool := func(bytes int64, devices func(*Host)) func(*Host) {
		return func(h *Host) {
			devices(h)
			h.PoolSize, h.PoolFrom = bytes, "DASK_RMM__POOL_SIZE"
		}
	}
	tiny := gpus(1, 0, func(c *CUDA) { c.Devices[0].Memory = 2 << 30 })
	runCases(t, checkPool, []checkCase{
		{name: "no GPU", want: want{NA, []string{"pool of GPU memory: no GPU"}}},
		{name: "not configured", change: gpus(1, 18), want: want{Info, []string{"no pool", "--rmm-pool-size 126GiB"}}},
		{name: "smallest counts", change: gpus(2, 18, func(c *CUDA) { c.Devices[1].Memory = 40 << 30 }),
			want: want{Info, []string{"--rmm-pool-size 36GiB"}}},
		{name: "good", change: pool(100<<30, gpus(1, 18)), want: want{OK,
			[]string{"100.0 GiB", "DASK_RMM__POOL_SIZE"}}},
		{name: "too large", change: pool(200<<30, gpus(1, 18)),
			want: want{Fail, []string{"200.0 GiB", "will not start", "DASK_RMM__POOL_SIZE", "--rmm-pool-size 126GiB"}}},
		{name: "no room", change: pool(139<<30, gpus(1, 18)), want: want{Warn, []string{"half a GiB"}}},
		{name: "tiny", change: tiny, want: want{Info, []string{"too little for a pool"}}},
	})
}

func TestChecksOfOptionalLibraries(t *testing.T) {
	gpu := with(board, driverFile, nodeFile, cudaFile)
	missing := func(h *Host) {
		h.NCCL, h.NVRTC = &Optional{Err: errors.New("libnccl.so.2 in /usr/lib")},
			&Optional{Err: errors.New("libnvrtc.so.13 in /usr/lib")}
	}
	found := func(h *Host) {
		h.NCCL, h.NVRTC = &Optional{Path: "/x/libnccl.so.2", Version: "2.28.3"},
			&Optional{Path: "/x/libnvrtc.so.13", Version: "13.0", Chosen: "MILLSTREAM_NVRTC_LIBRARY"}
	}
	wrong := func(h *Host) {
		h.NCCL = &Optional{Err: errors.New("no such file"), Chosen: "MILLSTREAM_NCCL_LIBRARY"}
		h.NVRTC = &Optional{Err: errors.New("no such file"), Chosen: "MILLSTREAM_NVRTC_LIBRARY"}
	}
	runCases(t, checkNCCL, []checkCase{
		{name: "not checked", want: want{NA, []string{"not checked"}}},
		{name: "missing, no GPU", change: missing, want: want{NA, []string{"not needed without a GPU"}}},
		{name: "missing", files: gpu, change: missing, want: want{Info,
			[]string{"use UCX instead", "libnccl.so.2 in /usr/lib", "MILLSTREAM_NCCL_LIBRARY",
				"pip install nvidia-nccl-cu13"}}},
		{name: "found", files: gpu, change: found, want: want{OK, []string{"NCCL 2.28.3 at /x/libnccl.so.2"}}},
		{name: "wrong", change: wrong, want: want{Fail, []string{"MILLSTREAM_NCCL_LIBRARY is set to a library that " +
			"cannot be used", "no such file", "unset"}}},
	})
	runCases(t, checkNVRTC, []checkCase{
		{name: "missing", files: gpu, change: missing, want: want{Info,
			[]string{"in the binary", "MILLSTREAM_NVRTC_LIBRARY"}}},
		{name: "chosen", files: gpu, change: found, want: want{OK, []string{"NVRTC 13.0 at /x/libnvrtc.so.13 " +
			"(MILLSTREAM_NVRTC_LIBRARY)"}}},
		{name: "wrong", change: wrong, want: want{Fail, []string{"MILLSTREAM_NVRTC_LIBRARY"}}},
	})
}

func TestCUDASupport(t *testing.T) {
	gpu := with(board, driverFile, nodeFile, cudaFile)
	runCases(t, checkCUDASupport, []checkCase{
		{name: "no GPU, no support", want: want{NA, nil}},
		{name: "GPU, no support", files: gpu, want: want{Warn,
			[]string{"no CUDA support", "libucx-cu12", "MILLSTREAM_UCX_LIBRARY"}}},
		{name: "GPU without driver, no support", files: board, want: want{Warn, []string{"no CUDA support"}}},
		{name: "GPU, support", files: gpu, change: func(h *Host) {
			h.UCX.CUDA = true
		}, want: want{OK, []string{"has CUDA support"}}},
		{name: "no library", files: gpu, change: noUCX(nil), want: want{Info, []string{"not checked"}}},
	})
}

func TestChecksOfGPUDirect(t *testing.T) {
	both := with(board, driverFile, nodeFile, cudaFile, "sys/class/infiniband/mlx5_0/ports/1/state")
	runCases(t, checkGPUDirect, []checkCase{
		{name: "no GPU", want: want{NA, []string{"needs a GPU and an RDMA device"}}},
		{name: "missing module", files: both, want: want{Warn, []string{"modprobe nvidia_peermem"}}},
		{name: "loaded", files: with(both, "sys/module/nvidia_peermem/refcnt"),
			want: want{OK, []string{"nvidia_peermem is loaded"}}},
		{name: "old module", files: with(both, "sys/module/nv_peer_mem/refcnt"),
			want: want{OK, []string{"nv_peer_mem is loaded"}}},
	})
}

func TestRDMA(t *testing.T) {
	active := files{"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}
	down := files{"sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}
	const uverbs = "dev/infiniband/uverbs0"
	verbs := func(h *Host) { h.UCX.Transports = append(h.UCX.Transports, "rc_mlx5") }
	runCases(t, checkRDMA, []checkCase{
		{name: "none", want: want{Info, []string{"no RDMA device", "TCP"}}},
		{name: "no device file", files: active, want: want{Warn,
			[]string{"/dev/infiniband is missing", "modprobe ib_uverbs"}}},
		{name: "no device file in container", files: with(active, ".dockerenv"),
			want: want{Warn, []string{"--device=/dev/infiniband"}}},
		{name: "wheel without verbs", files: with(active, uverbs),
			want: want{Warn, []string{"no RDMA transports", "apt-get install libucx0", "PyPI"}}},
		{name: "complete", files: with(active, uverbs), change: verbs, want: want{OK, []string{"active: mlx5_0"}}},
		{name: "module next to the library", files: with(active, uverbs), change: func(h *Host) { h.UCX.RDMA = true },
			want: want{OK, nil}},
		{name: "ports down", files: with(down, uverbs), change: verbs,
			want: want{Warn, []string{"no port of mlx5_0 is active", "ibstat"}}},
		{name: "no library", files: with(active, uverbs), change: noUCX(nil), want: want{OK, nil}},
	})
	if got := checkRDMA(machine(with(down, uverbs))); len(got) != 2 {
		t.Errorf("ports down and no verbs: %d findings", len(got))
	}
	for name, want := range map[string]bool{"rc_verbs": true, "dc_mlx5": true, "ud_mlx5": true, "ib": true, "srd": true,
		"tcp": false, "posix": false, "self": false, "cuda_ipc": false} {
		if hasRDMA([]string{name}) != want {
			t.Errorf("hasRDMA(%s) = %v", name, !want)
		}
	}
}

func TestRDMALibraries(t *testing.T) {
	dir := "usr/lib/x86_64-linux-gnu/"
	all := with(nil, dir+"libibverbs.so.1", dir+"librdmacm.so.1", dir+"libnuma.so.1")
	hca := files{"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}
	runCases(t, checkRDMALibraries, []checkCase{
		{name: "all there", files: all, want: want{OK, nil}},
		{name: "none, no hardware", want: want{Info, []string{"libibverbs.so.1", "apt-get install libibverbs1 " +
			"ibverbs-providers librdmacm1 libnuma1"}}},
		{name: "none, hardware, EL", files: files{"etc/os-release": "ID=rocky\nID_LIKE=rhel",
			"sys/class/infiniband/mlx5_0/ports/1/state": ""},
			want: want{Warn, []string{"dnf install libibverbs librdmacm numactl-libs"}}},
		{name: "one missing, hardware", files: with(hca, dir+"libibverbs.so.1", dir+"libnuma.so.1"),
			want: want{Warn, []string{"missing: librdmacm.so.1", "install librdmacm1"}}},
		{name: "library cannot load", files: with(nil, dir+"libucp.so.0"), change: noUCX(nil),
			want: want{Fail, []string{"cannot be loaded without"}}},
	})
}
