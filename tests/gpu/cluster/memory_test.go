package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// gpuState is what a task sees of its worker's GPU.
type gpuState struct {
	UUID     string
	Kind     string // of a buffer that it allocates, by the driver
	Free     int64  // of the GPU, by the driver
	PoolFree int64  // that the driver's own pool keeps
	Refused  string // why a buffer of so many bytes could not be allocated
}

var (
	// memoryLook allocates n bytes for a moment.
	memoryLook = client.Func("gputest.memory-look", func(ctx context.Context, n int64) (s gpuState, err error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return s, err
		}
		s.UUID = d.UUID
		b, err := d.Memory.Alloc(ctx, int(n))
		if err != nil {
			s.Refused = err.Error()
		} else {
			if err := b.WaitReady(ctx); err != nil {
				return s, err
			}
			at, err := cuda.Pointer(b.Addr())
			if err != nil {
				return s, err
			}
			s.Kind = at.Kind.String()
			b.Release()
		}
		if s.Free, _, err = cuda.MemoryInfo(d.Ordinal); err != nil {
			return s, err
		}
		s.PoolFree, err = cuda.DriverPoolBytes(d.Ordinal)
		return s, err
	})
	// memoryFill makes n bytes of one value, and returns while they are being written.
	memoryFill = client.Func2("gputest.memory-fill",
		func(ctx context.Context, n, value int64) (*wire.DeviceArray, error) {
			d, err := task.CurrentDevice(ctx)
			if err != nil {
				return nil, err
			}
			b, err := d.Memory.Alloc(ctx, int(n))
			if err != nil {
				return nil, err
			}
			if _, err := cuda.StreamOf(d.Stream).Fill(b, byte(value)); err != nil {
				b.Release()
				return nil, err
			}
			return wire.NewDeviceArray[uint8](b)
		})
	// memoryCheck wants every byte to be the value, and says how many there are.
	memoryCheck = client.Func2("gputest.memory-check",
		func(ctx context.Context, a *wire.DeviceArray, value int64) (int64, error) {
			data := make([]byte, a.Frame.Len())
			if b := a.Buffer(); b == nil { // managed memory travels as the host's
				copy(data, a.Frame.Bytes())
			} else if err := cuda.CopyToHost(ctx, data, b); err != nil {
				return 0, err
			}
			if n := bytes.Count(data, []byte{byte(value)}); n != len(data) {
				return 0, fmt.Errorf("%d of %d bytes are %d", n, len(data), byte(value))
			}
			return int64(len(data)), nil
		})
)

// metricsOf reads /metrics of a server: name{labels} to value.
func metricsOf(t *testing.T, ctx context.Context, address string) map[string]float64 {
	t.Helper()
	m, err := readMetrics(ctx, address)
	must(t, err)
	return m
}

// readMetrics is metricsOf for other goroutines than that of the test.
func readMetrics(ctx context.Context, address string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			out[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return out, lines.Err()
}

// memoryTransfers are what a worker has fetched from others.
func memoryTransfers(t *testing.T, ctx context.Context, w cluster.WorkerInfo) []worker.Transfer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.HTTP+"/millstream/transfers", nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	var list []worker.Transfer
	must(t, json.NewDecoder(resp.Body).Decode(&list))
	return slices.DeleteFunc(list, func(t worker.Transfer) bool { return !t.Incoming || t.Error != "" })
}

// memoryReleased waits until a worker has nothing of its GPU's memory handed out.
func memoryReleased(t *testing.T, ctx context.Context, w cluster.WorkerInfo) {
	t.Helper()
	for {
		out := metricsOf(t, ctx, w.HTTP)[`millstream_worker_device_bytes{type="allocated"}`]
		if out == 0 {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%.0f bytes of worker %s are still out", out, w.Name)
		}
	}
}

func deviceMetric(uuid, kind string) string {
	return fmt.Sprintf("millstream_device_memory_bytes{device=%q,type=%q}", uuid, kind)
}

// gpuCluster starts workers on the first GPU and a client.
func gpuCluster(t *testing.T, ctx context.Context, gpus cluster.CUDAConfig, options cluster.Config) (*cluster.Cluster,
	*client.Client, []cluster.WorkerInfo) {
	t.Helper()
	options.WorkerDashboard = "127.0.0.1:0"
	cl, err := cluster.LocalCUDA(ctx, gpus, options)
	must(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	c, err := cl.Client(ctx)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return cl, c, cl.Workers()
}

// TestGPUMemoryOptions starts two workers on one GPU with each option about its memory: what they allocate is of the
// kind, from the pool and within the bound that was asked for, and reaches the other worker whole.
func TestGPUMemoryOptions(t *testing.T) {
	requireGPU(t)
	const n, pool = 64 << 20, 1 << 30
	logs := t.TempDir()
	for _, c := range []struct {
		name string
		rmm  cluster.RMMConfig
		kind string
		pool float64 // of each worker at the start
	}{
		{"plain", cluster.RMMConfig{}, "device", 0},
		{"pool", cluster.RMMConfig{PoolSize: "1GiB"}, "device", pool},
		{"fraction", cluster.RMMConfig{PoolSize: "0.01"}, "device", -1},
		{"maximum", cluster.RMMConfig{PoolSize: "1GiB", MaximumPoolSize: "2GiB"}, "device", pool},
		{"managed", cluster.RMMConfig{ManagedMemory: true}, "managed", 0},
		{"managed pool", cluster.RMMConfig{ManagedMemory: true, PoolSize: "1GiB"}, "managed", pool},
		{"async", cluster.RMMConfig{Async: true, ReleaseThreshold: "1GiB"}, "device", 0},
		{"async pool", cluster.RMMConfig{Async: true, PoolSize: "1GiB", MaximumPoolSize: "2GiB"}, "device", pool},
		{"log and track", cluster.RMMConfig{LogDirectory: logs, TrackAllocations: true}, "device", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			_, cl, workers := gpuCluster(t, ctx, cluster.CUDAConfig{Devices: []string{"0", "0"}, RMM: c.rmm},
				cluster.Config{})
			look := func(w cluster.WorkerInfo, n int64) gpuState {
				t.Helper()
				s, err := memoryLook.Submit(ctx, cl, client.Val(n), client.WithWorkers(w.Address),
					client.WithImpure()).Result(ctx)
				must(t, err)
				return s
			}
			s := look(workers[0], n)
			m := metricsOf(t, ctx, workers[0].HTTP)
			got := m[deviceMetric(s.UUID, "pool")]
			t.Logf("%+v, pool %.0f, allocations %.0f", s, got,
				m[fmt.Sprintf("millstream_device_allocations_total{device=%q}", s.UUID)])
			if s.Kind != c.kind || s.Refused != "" {
				t.Errorf("allocates %+v", s)
			}
			if c.pool >= 0 && got < c.pool || c.pool == 0 && got > n || c.pool < 0 && got < n {
				t.Errorf("the pool has %.0f bytes", got)
			}
			if c.rmm.Async && s.PoolFree < n {
				t.Errorf("the driver's pool has kept %d bytes of %d", s.PoolFree, n)
			}
			if c.rmm.MaximumPoolSize != "" {
				if s := look(workers[0], 3<<30); !strings.Contains(s.Refused, "out of memory") {
					t.Errorf("3 GiB of a pool of at most 2: %+v", s)
				}
			}
			x := memoryFill.Submit(ctx, cl, client.Val[int64](n), client.Val[int64](77),
				client.WithWorkers(workers[0].Address))
			for _, w := range []cluster.WorkerInfo{workers[1], workers[0]} {
				if got, err := memoryCheck.Submit(ctx, cl, x, client.Val[int64](77),
					client.WithWorkers(w.Address)).Result(ctx); err != nil || got != n {
					t.Errorf("worker %s has %d bytes, %v", w.Name, got, err)
				}
			}
			if c.rmm.LogDirectory != "" {
				text, err := os.ReadFile(filepath.Join(logs, "rmm_log_0.txt"))
				if lines := strings.Count(string(text), "\n"); err != nil || lines < 4 ||
					!strings.Contains(string(text), ",allocate,0x") || !strings.Contains(string(text), ",free,0x") {
					t.Errorf("the log has %d lines, %v:\n%.300s", lines, err, text)
				}
			}
		})
	}
}

// TestGPUMemoryEverywhere sees the pool in each process: workers, scheduler and client, which has its own size.
func TestGPUMemoryEverywhere(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	settings, err := config.Default()
	must(t, err)
	restore, err := settings.Set(map[string]any{"distributed-ucxx.rmm.pool-size": "256MiB"}) // of clients
	must(t, err)
	t.Cleanup(restore)
	d, err := cuda.DeviceByOrdinal(0)
	must(t, err)
	cl, c, workers := gpuCluster(t, ctx, cluster.CUDAConfig{Devices: []string{"0", "0"},
		RMM: cluster.RMMConfig{PoolSize: "512MiB"}}, cluster.Config{Dashboard: "127.0.0.1:0"})
	for _, w := range workers {
		if got := metricsOf(t, ctx, w.HTTP)[deviceMetric(d.UUID, "pool")]; got != 512<<20 {
			t.Errorf("worker %s has a pool of %.0f bytes", w.Name, got)
		}
	}
	// Scheduler and client share a process here, and what its metrics show.
	if got := metricsOf(t, ctx, cl.Scheduler().DashboardAddress())[deviceMetric(d.UUID, "pool")]; got != (256+512)<<20 {
		t.Errorf("scheduler and client have pools of %.0f bytes", got)
	}
	x := memoryFill.Submit(ctx, c, client.Val[int64](1<<20), client.Val[int64](5),
		client.WithWorkers(workers[0].Address))
	a, err := x.Result(ctx)
	must(t, err)
	if !a.Frame.OnDevice() {
		t.Error("a client with a pool has its result in host memory")
	} else {
		data := make([]byte, a.Frame.Len())
		must(t, cuda.CopyToHost(ctx, data, a.Buffer()))
		if i := slices.IndexFunc(data, func(b byte) bool { return b != 5 }); i >= 0 {
			t.Errorf("byte %d is %d", i, data[i])
		}
	}
	task.Release(a)
	x.Release()
	_, err = cluster.NewNetwork(cluster.NetworkConfig{Overrides: config.Overrides{RMM: config.RMM{PoolSize: 1 << 50}}})
	if err == nil || !strings.Contains(err.Error(), "bytes are free: use less") {
		t.Errorf("a pool larger than the GPU: %v", err)
	}
}

// TestGPUMemoryRefused asks for what the GPU cannot do.
func TestGPUMemoryRefused(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	for _, c := range []struct {
		name string
		o    cluster.CUDAConfig
		want string
	}{
		{"pool", cluster.CUDAConfig{RMM: cluster.RMMConfig{PoolSize: "10TB"}}, "rmm-pool-size on NVIDIA"},
		{"pools of two", cluster.CUDAConfig{Devices: []string{"0", "0"}, RMM: cluster.RMMConfig{PoolSize: "0.6"}},
			"2 workers share NVIDIA"},
		{"unknown device", cluster.CUDAConfig{Devices: []string{"17"}},
			`device "17" not found; this machine has 0: NVIDIA`},
		{"managed with NVLink", cluster.CUDAConfig{RMM: cluster.RMMConfig{ManagedMemory: true},
			UCX: config.UCX{NVLink: config.On}}, "exclude each other"},
		{"async with managed", cluster.CUDAConfig{RMM: cluster.RMMConfig{ManagedMemory: true, Async: true}},
			"exclude each other"},
	} {
		cl, err := cluster.LocalCUDA(ctx, c.o, cluster.Config{})
		if err == nil {
			_ = cl.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestGPUMemoryDisabled moves a result between two workers that may not use a transport, and checks that they do not.
func TestGPUMemoryDisabled(t *testing.T) {
	requireGPU(t)
	for _, c := range []struct {
		name    string
		ucx     config.UCX
		without []string
		with    string
	}{
		{"nothing", config.UCX{}, nil, "cuda_ipc"},
		{"nvlink", config.UCX{NVLink: config.Off}, []string{"cuda_ipc"}, ""},
		// UCX meets at an IP address over tcp or rdmacm alone: without either, data goes over the control connection.
		{"tcp", config.UCX{TCP: config.Off}, []string{"tcp"}, ""},
		{"nvlink and infiniband", config.UCX{NVLink: config.Off, InfiniBand: config.Off},
			[]string{"cuda_ipc", "rc_mlx5", "rc_verbs"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			_, cl, workers := gpuCluster(t, ctx, cluster.CUDAConfig{Devices: []string{"0", "0"}, UCX: c.ucx},
				cluster.Config{})
			x := memoryFill.Submit(ctx, cl, client.Val[int64](8<<20), client.Val[int64](9),
				client.WithWorkers(workers[0].Address))
			if got, err := memoryCheck.Submit(ctx, cl, x, client.Val[int64](9),
				client.WithWorkers(workers[1].Address)).Result(ctx); err != nil || got != 8<<20 {
				t.Errorf("%d bytes, %v", got, err)
			}
			moved := memoryTransfers(t, ctx, workers[1])
			if len(moved) == 0 {
				t.Fatal("no transfer")
			}
			for _, m := range moved {
				t.Logf("%d bytes over %s %v in %.0f µs", m.Bytes, m.Scheme, m.Transports, m.Duration*1e6)
				for _, bad := range c.without {
					if slices.Contains(m.Transports, bad) {
						t.Errorf("%s is used: %v", bad, m.Transports)
					}
				}
				if c.with != "" && !slices.Contains(m.Transports, c.with) {
					t.Errorf("%s is not used: %v", c.with, m.Transports)
				}
			}
		})
	}
}
