package doctor

import "testing"

// A board on the bus; NVIDIA's network card beside it is no GPU.
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
		{name: "no driver", files: board, want: want{Warn, []string{"1 NVIDIA GPU(s) on the bus, but no driver", "modprobe nvidia"}}},
		{name: "no node", files: with(board, driverFile), want: want{Warn, []string{"/dev/nvidia0 is missing", "nvidia-modprobe"}}},
		{name: "container without gpus", files: with(board, driverFile, ".dockerenv"), want: want{Warn, []string{"Docker container has no GPU device", "--gpus all"}}},
		{name: "no libcuda", files: with(board, driverFile, nodeFile), want: want{Warn, []string{"libcuda.so.1 is not found"}}},
		{name: "complete", files: with(board, driverFile, nodeFile, cudaFile), want: want{OK, []string{"1 NVIDIA GPU(s)", "/" + cudaFile}}},
		{name: "hidden", files: with(board, driverFile, nodeFile, cudaFile), change: setenv("CUDA_VISIBLE_DEVICES="), want: want{Info, []string{"hidden by CUDA_VISIBLE_DEVICES"}}},
		{name: "chosen, not hidden", files: with(board, driverFile, nodeFile, cudaFile), change: setenv("CUDA_VISIBLE_DEVICES=0"), want: want{OK, nil}},
		{name: "wsl", files: with(nil, "dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), want: want{OK, []string{"/usr/lib/wsl/lib/libcuda.so.1"}}},
		{name: "device files other than GPUs", files: with(nil, "dev/nvidiactl", "dev/nvidia-uvm"), want: want{Info, []string{"no NVIDIA GPU"}}},
	})
}

func TestCUDASupport(t *testing.T) {
	gpu := with(board, driverFile, nodeFile, cudaFile)
	runCases(t, checkCUDASupport, []checkCase{
		{name: "no GPU, no support", want: want{OK, nil}},
		{name: "GPU, no support", files: gpu, want: want{Warn, []string{"no CUDA support", "libucx-cu12", "MILLSTREAM_UCX_LIBRARY"}}},
		{name: "GPU without driver, no support", files: board, want: want{Warn, []string{"no CUDA support"}}},
		{name: "GPU, support", files: gpu, change: func(h *Host) { h.UCX.CUDA = true }, want: want{OK, []string{"has CUDA support"}}},
		{name: "no library", files: gpu, change: noUCX(nil), want: want{Info, []string{"not checked"}}},
	})
}

func TestChecksOfGPUDirect(t *testing.T) {
	both := with(board, driverFile, nodeFile, cudaFile, "sys/class/infiniband/mlx5_0/ports/1/state")
	runCases(t, checkGPUDirect, []checkCase{
		{name: "no GPU", want: want{OK, []string{"does not apply"}}},
		{name: "missing module", files: both, want: want{Warn, []string{"modprobe nvidia_peermem"}}},
		{name: "loaded", files: with(both, "sys/module/nvidia_peermem/refcnt"), want: want{OK, []string{"nvidia_peermem is loaded"}}},
		{name: "old module", files: with(both, "sys/module/nv_peer_mem/refcnt"), want: want{OK, []string{"nv_peer_mem is loaded"}}},
	})
}

func TestRDMA(t *testing.T) {
	active := files{"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}
	down := files{"sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}
	const uverbs = "dev/infiniband/uverbs0"
	verbs := func(h *Host) { h.UCX.Transports = append(h.UCX.Transports, "rc_mlx5") }
	runCases(t, checkRDMA, []checkCase{
		{name: "none", want: want{Info, []string{"no RDMA device", "TCP"}}},
		{name: "no device file", files: active, want: want{Warn, []string{"/dev/infiniband is missing", "modprobe ib_uverbs"}}},
		{name: "no device file in container", files: with(active, ".dockerenv"), want: want{Warn, []string{"--device=/dev/infiniband"}}},
		{name: "wheel without verbs", files: with(active, uverbs), want: want{Warn, []string{"no RDMA transports", "apt-get install libucx0", "PyPI"}}},
		{name: "complete", files: with(active, uverbs), change: verbs, want: want{OK, []string{"active: mlx5_0"}}},
		{name: "module beside the library", files: with(active, uverbs), change: func(h *Host) { h.UCX.RDMA = true }, want: want{OK, nil}},
		{name: "ports down", files: with(down, uverbs), change: verbs, want: want{Warn, []string{"no port of mlx5_0 is active", "ibstat"}}},
		{name: "no library", files: with(active, uverbs), change: noUCX(nil), want: want{OK, nil}},
	})
	if got := checkRDMA(machine(with(down, uverbs))); len(got) != 2 {
		t.Errorf("ports down and no verbs: %d findings", len(got))
	}
	for name, want := range map[string]bool{"rc_verbs": true, "dc_mlx5": true, "ud_mlx5": true, "ib": true, "srd": true, "tcp": false, "posix": false, "self": false, "cuda_ipc": false} {
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
		{name: "none, no hardware", want: want{Info, []string{"libibverbs.so.1", "apt-get install libibverbs1 ibverbs-providers librdmacm1 libnuma1"}}},
		{name: "none, hardware, EL", files: files{"etc/os-release": "ID=rocky\nID_LIKE=rhel", "sys/class/infiniband/mlx5_0/ports/1/state": ""},
			want: want{Warn, []string{"dnf install libibverbs librdmacm numactl-libs"}}},
		{name: "one missing, hardware", files: with(hca, dir+"libibverbs.so.1", dir+"libnuma.so.1"), want: want{Warn, []string{"missing: librdmacm.so.1", "install librdmacm1"}}},
		{name: "library cannot load", files: with(nil, dir+"libucp.so.0"), change: noUCX(nil), want: want{Fail, []string{"cannot be loaded without"}}},
	})
}
