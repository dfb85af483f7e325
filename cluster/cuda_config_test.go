package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/task"
)

var (
	_ = task.Register0("cluster_test.warm", func(context.Context) (int, error) { return 1, nil })
	_ = task.Register1("cluster_test.warm1", func(_ context.Context, x int) (int, error) { return x, nil })
	_ = task.Register0("cluster_test.cold", func(context.Context) (int, error) { panic("the stove is out") })
)

// Each option that excludes or requires another returns an error with a remedy.
func TestCUDAConfigCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nvlink := config.UCX{NVLink: config.On}
	for _, c := range []struct {
		name string
		o    CUDAConfig
		want string
	}{
		{"managed and NVLink", CUDAConfig{UCX: nvlink, RMM: RMMConfig{ManagedMemory: true}},
			"rmm-managed-memory and nvlink exclude each other"},
		{"managed and async", CUDAConfig{RMM: RMMConfig{ManagedMemory: true, Async: true}},
			"rmm-async and rmm-managed-memory exclude each other"},
		{"threshold alone", CUDAConfig{RMM: RMMConfig{ReleaseThreshold: "1GB"}},
			"rmm-release-threshold requires rmm-async"},
		{"maximum alone", CUDAConfig{RMM: RMMConfig{MaximumPoolSize: "1GB"}}, "rmm-maximum-pool-size requires " +
			"rmm-pool-size or rmm-async"},
		{"pool of no size", CUDAConfig{RMM: RMMConfig{PoolSize: "much"}}, `rmm-pool-size: mem: invalid size "much"`},
		{"pool of auto", CUDAConfig{RMM: RMMConfig{PoolSize: "auto"}}, "rmm-pool-size auto: want a number of bytes " +
			"such as 24GB, or a fraction"},
		{"negative pool", CUDAConfig{RMM: RMMConfig{PoolSize: "-1GB"}}, "rmm-pool-size"},
		{"limit of no size", CUDAConfig{DeviceMemoryLimit: "1 furlong"}, "device-memory-limit"},
		{"threads", CUDAConfig{Threads: -1}, "-1 threads: want at least 1"},
		{"workers", CUDAConfig{Workers: -2}, "-2 workers"},
		{"rdmacm alone", CUDAConfig{UCX: config.UCX{RDMACM: config.On}}, "distributed-ucxx.rdmacm needs " +
			"distributed-ucxx.infiniband"},
		{"auto without InfiniBand", CUDAConfig{UCX: config.UCX{NetDevices: "auto"}},
			`net-devices "auto" needs distributed-ucxx.infiniband`},
		{"nvlink without cuda-copy", CUDAConfig{UCX: config.UCX{NVLink: config.On, CUDACopy: config.Off}},
			"nvlink needs distributed-ucxx.cuda-copy"},
		{"inproc", CUDAConfig{Protocol: "inproc"}, "inproc:// cannot connect"},
		{"protocol", CUDAConfig{Protocol: "smoke"}, `protocol "smoke": want tls, tcp, ucx or ucxx`},
		{"nothing uses UCX", CUDAConfig{Protocol: "tcp", NoDataConnections: true, UCX: nvlink},
			"nvlink is enabled, but neither the control connection nor a data connection uses UCX"},
		{"no log folder", CUDAConfig{RMM: RMMConfig{LogDirectory: "/nowhere/at/all"}}, "no such file or directory; " +
			"create it first"},
		{"log file", CUDAConfig{RMM: RMMConfig{LogDirectory: file}}, "is not a folder"},
		{"unknown warm-up", CUDAConfig{WarmUp: []string{"cluster_test.wram"}},
			`warm-up "cluster_test.wram": no function with this name`},
		{"warm-up with arguments", CUDAConfig{WarmUp: []string{"cluster_test.warm1"}}, "has 1 parameters"},
	} {
		if err := c.o.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for name, o := range map[string]CUDAConfig{
		"nothing":                      {},
		"async with maximum":           {RMM: RMMConfig{Async: true, MaximumPoolSize: "0.5", ReleaseThreshold: "1GB"}},
		"async with pool":              {RMM: RMMConfig{Async: true, PoolSize: "1GB"}},
		"managed, nvlink off":          {UCX: config.UCX{NVLink: config.Off}, RMM: RMMConfig{ManagedMemory: true}},
		"UCX without data connections": {Protocol: "ucxx", NoDataConnections: true, UCX: nvlink},
		"off without data connections": {Protocol: "tls", NoDataConnections: true, UCX: config.UCX{NVLink: config.Off}},
		"log":                          {RMM: RMMConfig{LogDirectory: t.TempDir(), TrackAllocations: true}},
		"no device limit":              {DeviceMemoryLimit: "0"},
		"warm-up":                      {WarmUp: []string{"cluster_test.warm"}},
	} {
		if err := o.Check(); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

// Functions of the warm-up run one after the other; a failure of one is an error.
func TestWarmUp(t *testing.T) {
	if err := warmUp(t.Context(), []string{"cluster_test.warm", "cluster_test.warm"}, discard); err != nil {
		t.Error(err)
	}
	err := warmUp(t.Context(), []string{"cluster_test.warm", "cluster_test.cold"}, discard)
	if err == nil || !strings.Contains(err.Error(), `warm-up "cluster_test.cold"`) ||
		!strings.Contains(err.Error(), "the stove is out") {
		t.Error(err)
	}
}
