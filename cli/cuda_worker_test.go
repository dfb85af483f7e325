package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
)

// parseCUDA reads a command line without running it.
func parseCUDA(t *testing.T, args ...string) (cluster.CUDAConfig, error) {
	t.Helper()
	f := &cudaFlags{off: map[string]*bool{}}
	cmd := f.command()
	if err := cmd.ParseFlags(args); err != nil {
		return cluster.CUDAConfig{}, cmdline.SuggestFlag(cmd, err)
	}
	return f.options(cmd)
}

// Every flag of `dask cuda worker` reaches its field.
func TestCUDAWorkerFlags(t *testing.T) {
	dir := t.TempDir()
	o, err := parseCUDA(t, "--devices", "0, 0,GPU-1", "--nthreads", "2", "--name", "w", "--interface", "ib0",
		"--protocol", "ucxx",
		"--enable-tcp-over-ucx", "--enable-nvlink", "--enable-infiniband", "--enable-rdmacm", "--net-devices=auto",
		"--rmm-pool-size=0.5", "--rmm-maximum-pool-size", "30GB", "--rmm-log-directory", dir, "--rmm-track-allocations",
		"--device-memory-limit", "5GB", "--memory-limit", "8GB")
	want := cluster.CUDAConfig{
		Devices: []string{"0", "0", "GPU-1"}, Threads: 2, Name: "w", Interface: "ib0", Protocol: "ucxx",
		DeviceMemoryLimit: "5GB", MemoryLimit: "8GB",
		UCX: config.UCX{TCP: config.On, NVLink: config.On, InfiniBand: config.On, RDMACM: config.On,
			NetDevices: "auto"},
		RMM: cluster.RMMConfig{PoolSize: "0.5", MaximumPoolSize: "30GB", LogDirectory: dir, TrackAllocations: true},
	}
	a, _ := json.Marshal(o)
	b, _ := json.Marshal(want)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%v\n%s\n%s", err, a, b)
	}
	o, err = parseCUDA(t, "--disable-tcp-over-ucx", "--disable-nvlink", "--disable-infiniband", "--disable-rdmacm",
		"--rmm-async", "--rmm-release-threshold=1GB", "--disable-rmm-managed-memory", "--data-connections", "none")
	if err != nil || o.UCX.TCP != config.Off || o.UCX.NVLink != config.Off || o.UCX.InfiniBand != config.Off ||
		o.UCX.RDMACM != config.Off ||
		!o.RMM.Async || o.RMM.ReleaseThreshold != "1GB" || o.RMM.ManagedMemory || !o.NoDataConnections ||
		o.Threads != 1 ||
		o.DeviceMemoryLimit != "default" || o.MemoryLimit != "auto" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestCUDAWorkerFlagsRefused(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--enable-nvlink --disable-nvlink", "--enable-nvlink and --disable-nvlink exclude each other"},
		{"--rmm-async --disable-rmm-async", "--rmm-async and --disable-rmm-async exclude each other"},
		{"--rmm-managed-memory --enable-nvlink", "rmm-managed-memory and nvlink exclude each other"},
		{"--net-devices auto", "needs distributed-ucxx.infiniband"},
		{"--enable-rdmacm", "rdmacm needs distributed-ucxx.infiniband"},
		{"--nworkers 2", "--nworkers: there is one worker process for each GPU"},
		{"--no-nanny", "--no-nanny: there is one worker process"},
		{"--pre-import cudf", "--pre-import: Python modules are not supported; --warm-up takes registered " +
			"Go functions"},
		{"--enable-cudf-spill", "cuDF is a Python library"},
		{"--multiprocessing-method spawn", "always run this program"},
		{"--warm-up nothing", "no function with this name is registered"},
		{"--enabel-nvlink", "unknown flag: --enabel-nvlink; did you mean --enable-nvlink?"},
		{"--enable_infiniband", "did you mean --enable-infiniband?"},
		{"--rmm-poolsize 1GB", "did you mean --rmm-pool-size?"},
		{"--device-memory-limits 1GB", "did you mean --device-memory-limit?"},
	} {
		if _, err := parseCUDA(t, strings.Fields(c.line)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
	if _, err := parseCUDA(t, "--zzz"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}

func TestCheckPorts(t *testing.T) {
	for _, c := range []struct {
		ports string
		n     int
		want  string
	}{
		{"", 8, ""}, {"0", 8, ""}, {"9000", 1, ""}, {"9000:9007", 8, ""},
		{"9000", 8, "--worker-port 9000: too few ports for 8 workers; use a range such as 9000:9007"},
		{"9000:9002", 4, "3 ports are too few for 4 workers"},
	} {
		err := checkPorts("--worker-port", c.ports, c.n)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.ports, err)
		}
	}
}

func TestWritePlan(t *testing.T) {
	plan := &cluster.CUDAPlan{Workers: []cluster.CUDAWorker{{Name: "w", Device: "0", GPU: "NVIDIA H200", Threads: 1}}}
	var out bytes.Buffer
	if err := writePlan(&out, plan, true); err != nil || !strings.Contains(out.String(), `"gpu": "NVIDIA H200"`) {
		t.Errorf("%s, %v", &out, err)
	}
	out.Reset()
	if err := writePlan(&out, plan, false); err != nil || !strings.HasPrefix(out.String(),
		"worker w on NVIDIA H200 (device 0)\n") {
		t.Errorf("%s, %v", &out, err)
	}
}
