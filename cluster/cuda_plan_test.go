package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/topology"
)

// One process for each GPU, with its own GPU first, on the processors next to it.
func TestCUDAPlan(t *testing.T) {
	p, err := CUDAConfig{}.Plan(fourGPUs(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Workers) != 4 || len(p.Warnings) > 0 {
		t.Fatalf("%d workers, warnings %q", len(p.Workers), p.Warnings)
	}
	for i, w := range p.Workers {
		visible := []string{"0,1,2,3", "1,2,3,0", "2,3,0,1", "3,0,1,2"}[i]
		if !slices.Equal(w.Env, []string{"CUDA_VISIBLE_DEVICES=" + visible, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}) {
			t.Errorf("worker %d: %q", i, w.Env)
		}
		if w.Name != fmt.Sprint(i) || w.CPUs != []string{"0-15", "0-15", "16-31", "16-31"}[i] || w.Threads != 1 ||
			w.MemoryLimit != 100<<30 ||
			w.Setup.UUID != fmt.Sprintf("GPU-%08d-aaaa", i) || w.Setup.MemoryLimit != gpuMemory*8/10 ||
			len(w.UCX.Options) > 0 {
			t.Errorf("worker %d: %+v", i, w)
		}
	}
}

// The command line of seed 000 on a machine that has all its devices.
func TestCUDAPlanOfEverything(t *testing.T) {
	o := CUDAConfig{
		Devices: []string{"2", "GPU-00000000"}, Name: "w", Threads: 2, Interface: "ib2", MemoryLimit: "10GB",
		DeviceMemoryLimit: "0.5",
		UCX: config.UCX{TCP: config.On, NVLink: config.On, InfiniBand: config.On, RDMACM: config.On,
			NetDevices: "auto"},
		RMM:    RMMConfig{PoolSize: "30GB", MaximumPoolSize: "0.9", LogDirectory: t.TempDir(), TrackAllocations: true},
		WarmUp: []string{"cluster_test.warm"},
	}
	p, err := o.Plan(fourGPUs(t, "CUDA_DEVICE_ORDER=PCI_BUS_ID"))
	if err != nil {
		t.Fatal(err)
	}
	w := p.Workers[0]
	if w.Name != "w-0" || w.Env[0] != "CUDA_VISIBLE_DEVICES=GPU-00000002-aaaa,GPU-00000000-aaaa" || len(w.Env) != 1 ||
		w.UCX.Options["NET_DEVICES"] != "mlx5_2:1" ||
		w.UCX.Options["TLS"] != "rc,tcp,cuda_copy,cuda_ipc" || w.UCX.Options["SOCKADDR_TLS_PRIORITY"] != "rdmacm" ||
		w.MemoryLimit != 1e10 ||
		w.Setup.PoolSize != 30_000_000_000&^255 || w.Setup.MaximumPoolSize != gpuMemory*9/10&^255 ||
		w.Setup.MemoryLimit != gpuMemory/2 || !w.Setup.Track ||
		w.Setup.Log != o.RMM.LogDirectory+"/rmm_log_w-0.txt" {
		t.Errorf("worker 0: got %+v, want the settings of the command line", w)
	}
	if other := p.Workers[1].UCX.Options["NET_DEVICES"]; other != "mlx5_0:1" {
		t.Errorf("worker 1 uses: got %s, want mlx5_0:1", other)
	}
	// The network card of worker 1 is ib0, not ib2.
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "worker w-1: network device mlx5_0 is not behind "+
		"--interface ib2") || !strings.Contains(p.Warnings[0], "use --interface ib0") {
		t.Errorf("warnings %q", p.Warnings)
	}
	want := `worker w-0 on NVIDIA A100 0000:27:00.0 (device 2)
  environment                CUDA_VISIBLE_DEVICES=GPU-00000002-aaaa,GPU-00000000-aaaa
  processors                 16-31
  threads                    2
  memory                     10000000000 bytes
  GPU memory                 results: 21474836480 bytes, pool: 30000000000 to 38654705664 bytes, log LOG/rmm_log_w-0.txt, tracked
  UCX_NET_DEVICES            mlx5_2:1
  UCX_SOCKADDR_TLS_PRIORITY  rdmacm
  UCX_TLS                    rc,tcp,cuda_copy,cuda_ipc
  warm-up                    cluster_test.warm
`
	if got := strings.ReplaceAll(p.String(), o.RMM.LogDirectory, "LOG"); !strings.HasPrefix(got, want) ||
		!strings.Contains(got, "\nwarning: worker w-1") {
		t.Errorf("the plan prints\n%s", got)
	}
}

// Errors name the missing device and the existing ones.
func TestCUDAPlanRefusals(t *testing.T) {
	ib := config.UCX{InfiniBand: config.On}
	with := func(u config.UCX, devices string) config.UCX { u.NetDevices = devices; return u }
	for _, c := range []struct {
		name string
		o    CUDAConfig
		env  []string
		want string
	}{
		{"unknown number", CUDAConfig{Devices: []string{"4"}}, nil,
			`device "4" not found; this machine has 0: NVIDIA A100 0000:07:00.0 GPU-00000000-aaaa, 1:`},
		{"unknown name", CUDAConfig{Devices: []string{"GPU-77"}}, nil, `device "GPU-77" not found`},
		{"ambiguous name", CUDAConfig{Devices: []string{"GPU-0000"}}, nil, `device "GPU-0000" not found`},
		{"nonsense", CUDAConfig{Devices: []string{"first"}}, nil,
			`device "first" is neither the index of a GPU nor a name`},
		{"hidden", CUDAConfig{}, []string{"CUDA_VISIBLE_DEVICES="}, "CUDA_VISIBLE_DEVICES is empty, which " +
			"hides all GPUs"},
		{"hidden by -1", CUDAConfig{}, []string{"CUDA_VISIBLE_DEVICES=-1"}, `"-1" is neither the number`},
		{"order", CUDAConfig{}, []string{"CUDA_DEVICE_ORDER=FASTEST_FIRST"}, "an index does not identify a " +
			"GPU; unset it, or list GPUs by UUID"},
		{"too many workers", CUDAConfig{Devices: []string{"0", "1"}, Workers: 3}, nil,
			"3 workers for 2 listed GPUs"},
		{"pool larger than the GPU", CUDAConfig{RMM: RMMConfig{PoolSize: "50GB"}}, nil, "rmm-pool-size on NVIDIA " +
			"A100 0000:07:00.0"},
		{"limit larger than the GPU", CUDAConfig{DeviceMemoryLimit: "50GB"}, nil,
			"device-memory-limit on NVIDIA A100"},
		{"pool above maximum", CUDAConfig{RMM: RMMConfig{PoolSize: "0.5", MaximumPoolSize: "0.4"}}, nil,
			"exceeds rmm-maximum-pool-size"},
		{"two pools on one GPU", CUDAConfig{Devices: []string{"0", "0"}, RMM: RMMConfig{PoolSize: "0.6"}}, nil,
			"2 workers share NVIDIA A100 0000:07:00.0, and pools"},
		{"unknown interface", CUDAConfig{Interface: "ib7"}, nil,
			`network interface "ib7" not found; this machine has ib0, ib1, ib2, ib3, eth0, eth1`},
		{"InfiniBand device as interface", CUDAConfig{Interface: "mlx5_0"}, nil,
			`network interface "mlx5_0" not found`},
		{"interface down", CUDAConfig{Interface: "eth1"}, nil, "network interface eth1 is down; bring it up (ip " +
			"link set eth1 up)"},
		{"unknown net device", CUDAConfig{UCX: with(ib, "mlx4_0:1")}, nil,
			`network device "mlx4_0" not found; InfiniBand devices of this machine: mlx5_0, mlx5_1`},
		{"port down", CUDAConfig{UCX: with(ib, "mlx5_9:1")}, nil, "port 1 of network device mlx5_9 is not active"},
		{"no such port", CUDAConfig{UCX: with(ib, "mlx5_0:2")}, nil, "port 2 of network device mlx5_0 is not active"},
		{"memory limit", CUDAConfig{MemoryLimit: "lots"}, nil, "memory-limit"},
		{"checked too", CUDAConfig{RMM: RMMConfig{MaximumPoolSize: "1GB"}}, nil, "requires rmm-pool-size"},
	} {
		if _, err := c.o.Plan(fourGPUs(t, c.env...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A GPU that is listed twice has two workers, which divide its limits.
func TestCUDAPlanShares(t *testing.T) {
	for _, list := range [][]string{{"0", "0"}, {"0", "GPU-00000000"}} {
		p, err := CUDAConfig{Devices: list, RMM: RMMConfig{PoolSize: "0.5"}}.Plan(fourGPUs(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Workers) != 2 || p.Workers[1].Setup.MemoryLimit != gpuMemory*4/10&^255 ||
			p.Workers[1].Setup.PoolSize != gpuMemory/2 || p.Workers[0].MemoryLimit != 200<<30 {
			t.Errorf("%q: got %+v, want two workers with half of the GPU each", list, p.Workers)
		}
		if list[1] == "0" && p.Workers[1].Env[0] != "CUDA_VISIBLE_DEVICES=0" {
			t.Errorf("environment: got %q, want CUDA_VISIBLE_DEVICES=0", p.Workers[1].Env)
		}
	}
}

// The environment sets the defaults of options, in every spelling, and options take precedence.
func TestCUDAPlanFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		env  []string
		o    CUDAConfig
		tls  string
		pool int64
	}{
		{[]string{"DASK_UCX__TCP=True", "DASK_UCX__NVLINK=True", "DASK_RMM__POOL_SIZE=1GB"}, CUDAConfig{},
			"tcp,cuda_copy,cuda_ipc", 1e9},
		{[]string{"DASK_DISTRIBUTED_UCXX__NVLINK=true", "DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE=2GB"}, CUDAConfig{},
			"tcp,cuda_copy,cuda_ipc", 2e9},
		{[]string{"DASK_DISTRIBUTED__COMM__UCX__TCP=true", "DASK_DISTRIBUTED__RMM__POOL_SIZE=2GB"}, CUDAConfig{},
			"tcp", 2e9},
		{[]string{"DASK_UCX__NVLINK=True", "DASK_RMM__POOL_SIZE=1GB"}, CUDAConfig{UCX: config.UCX{NVLink: config.Off},
			RMM: RMMConfig{PoolSize: "3GB"}}, "^cuda_ipc", 3e9},
	} {
		m := fourGPUs(t)
		m.Config = configured(t, c.env...)
		p, err := c.o.Plan(m)
		if err != nil {
			t.Errorf("%q: got %v, want nil", c.env, err)
			continue
		}
		if w := p.Workers[3]; w.UCX.Options["TLS"] != c.tls || w.Setup.PoolSize != c.pool&^255 {
			t.Errorf("%q: %q, pool %d", c.env, w.UCX.Options, w.Setup.PoolSize)
		}
	}
	m := fourGPUs(t, "CUDA_VISIBLE_DEVICES=3,1")
	p, err := CUDAConfig{Workers: 1, Name: "alone"}.Plan(m)
	if err != nil || len(p.Workers) != 1 || p.Workers[0].Name != "alone" ||
		p.Workers[0].Env[0] != "CUDA_VISIBLE_DEVICES=3,1" {
		t.Errorf("got %+v, %v, want one worker alone on GPU 3", p, err)
	}
}

// Processors that this process may not use are not planned, instances of a GPU have its location, and a GPU that shares
// the memory of the processor has no limit.
func TestCUDAPlanOddMachines(t *testing.T) {
	m := fourGPUs(t)
	m.Topology.Allowed, _ = topology.ParseCPUList("4-20")
	m.Devices[0].Integrated = true
	m.Devices = append(m.Devices, cuda.Device{Ordinal: 4, Name: "NVIDIA A100 MIG 1g.5gb", UUID: "MIG-1234",
		GPUUUID: "GPU-00000003-aaaa", MIG: true, TotalMemory: 5 << 30})
	p, err := CUDAConfig{Devices: []string{"0", "MIG-1234"}}.Plan(m)
	if err != nil {
		t.Fatal(err)
	}
	if p.Workers[0].CPUs != "4-15" || p.Workers[0].Setup.MemoryLimit != 0 {
		t.Errorf("worker 0: got %+v, want processors 4-15 and no limit", p.Workers[0])
	}
	if p.Workers[1].CPUs != "16-20" || p.Workers[1].Setup.MemoryLimit != (5<<30)*8/10&^255 ||
		p.Workers[1].Setup.UUID != "MIG-1234" {
		t.Errorf("worker 1: got %+v, want processors 16-20 and MIG-1234", p.Workers[1])
	}
	// A GPU that the driver hides from this process has an unknown size.
	m = fourGPUs(t, "CUDA_VISIBLE_DEVICES=0")
	m.Devices = m.Devices[:1]
	if p, err := (CUDAConfig{Devices: []string{"1"}}).Plan(m); err != nil || p.Workers[0].Setup.MemoryLimit != 0 {
		t.Errorf("hidden GPU: got %+v, %v, want no limit", p, err)
	}
	if _, err := (CUDAConfig{Devices: []string{"1"}, RMM: RMMConfig{PoolSize: "0.5"}}).Plan(m); err == nil ||
		!strings.Contains(err.Error(), "add it to CUDA_VISIBLE_DEVICES") {
		t.Error(err)
	}
	// Under WSL the driver reports GPUs that the kernel does not.
	m.Topology.GPUs = nil
	if p, err := (CUDAConfig{}).Plan(m); err != nil || len(p.Workers) != 1 || p.Workers[0].CPUs != "" {
		t.Errorf("WSL: got %+v, %v, want one worker without processors", p, err)
	}
	m.Devices = nil
	m.Env = nil
	if _, err := (CUDAConfig{}).Plan(m); err == nil || !strings.Contains(err.Error(),
		"neither kernel nor driver report an NVIDIA GPU") {
		t.Error(err)
	}
}

// TestUCXSettingsKeepAll sets every setting of UCX comms: scheduler and workers of a plan have them all, as
// ucxcomm.FromConfig reads them. A field that is not copied is zero.
func TestUCXSettingsKeepAll(t *testing.T) {
	m := fourGPUs(t)
	m.Config = configured(t, "DASK_MILLSTREAM__UCX__POLLING=True", "DASK_MILLSTREAM__UCX__PLAIN_TRANSPORTS=True",
		"DASK_MILLSTREAM__UCX__LIBRARY=/lib/libucp.so.0", "DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=True",
		"DASK_DISTRIBUTED_UCXX__TCP=True")
	p, err := CUDAConfig{}.Plan(m)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Config.Settings(config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want := ucxcomm.FromConfig(settings)
	if got := p.Workers[0].UCX; !reflect.DeepEqual(got, want) {
		t.Errorf("a worker has %+v, want %+v", got, want)
	}
	if got := p.schedulerUCX(); !reflect.DeepEqual(got, want) {
		t.Errorf("the scheduler has %+v, want %+v", got, want)
	}
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && f.Name != "Host" && v.Field(i).IsZero() { // Host is not in configurations
			t.Errorf("Settings.%s is not set by this test", f.Name)
		}
	}
	// The settings are sent to a worker process as JSON.
	text, err := json.Marshal(p.Workers[0].UCX)
	if err != nil {
		t.Fatal(err)
	}
	var there ucxcomm.Settings
	if err := json.Unmarshal(text, &there); err != nil || !reflect.DeepEqual(there, want) {
		t.Errorf("after JSON: got %+v, %v; want %+v", there, err, want)
	}
}
