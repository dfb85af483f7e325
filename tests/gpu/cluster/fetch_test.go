package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// twoOnOne starts two workers on one GPU, each with a pool, and a client.
func twoOnOne(t *testing.T, ctx context.Context, cfg client.Config, options cluster.Config) (*cluster.Cluster,
	*client.Client, []cluster.WorkerInfo) {
	t.Helper()
	options.WorkerDashboard = "127.0.0.1:0"
	cl, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: []string{"0", "0"},
		RMM: cluster.RMMConfig{PoolSize: "4GiB"}}, options)
	must(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	device := cfg.Dial.Device
	cfg.Dial = cl.Dial()
	cfg.Dial.Device = device
	c, err := client.Connect(ctx, cl.Address(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return cl, c, cl.Workers()
}

func incoming(t *testing.T, ctx context.Context, w cluster.WorkerInfo) []worker.Transfer {
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

// sizes of results: the smallest, both sides of where frames travel alone, large.
var sizes = []int64{1, 1000, 8192, 8193, 1<<20 + 7, 64 << 20}

// TestGPUFetch moves results on the device from worker to worker: they arrive on the device, by cuda_ipc, whole.
func TestGPUFetch(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	_, c, workers := twoOnOne(t, ctx, client.Config{}, cluster.Config{})
	for i, n := range sizes {
		x := makeFunc.Submit(ctx, c, client.Val(n), client.Val(int64(i)), client.WithWorkers(workers[0].Address))
		got, err := lookFunc.Submit(ctx, c, x, client.WithWorkers(workers[1].Address), client.WithImpure()).Result(ctx)
		must(t, err)
		if got.SHA256 != shaOf(pattern(int64(i), int(n))) || got.Memory != "device" ||
			got.Pid != int64(workers[1].PID) || got.Class != wire.CuPyArray {
			t.Errorf("%d bytes: %+v", n, got)
		}
		here, err := lookFunc.Submit(ctx, c, x, client.WithWorkers(workers[0].Address), client.WithImpure()).Result(ctx)
		if err != nil || here.SHA256 != got.SHA256 || here.Pid != int64(workers[0].PID) {
			t.Errorf("%d bytes where they were made: %+v, %v", n, here, err)
		}
		x.Release()
	}
	moved := incoming(t, ctx, workers[1])
	if len(moved) != len(sizes) {
		t.Errorf("%d transfers", len(moved))
	}
	for _, m := range moved {
		t.Logf("%d bytes, %d on the device, over %s %v in %.1f µs", m.Bytes, m.DeviceBytes, m.Scheme, m.Transports,
			m.Duration*1e6)
		if m.Scheme != "ucxx" || !slices.Contains(m.Transports, "cuda_ipc") || m.DeviceBytes == 0 {
			t.Errorf("%+v", m)
		}
	}
}

// TestGPUFetchMany has many results under way in one transfer, and lists of arrays, buffers, and results that are
// arguments of others; when nobody wants them their memory is given back.
func TestGPUFetchMany(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	_, c, workers := twoOnOne(t, ctx, client.Config{}, cluster.Config{})
	const n = 8 << 20
	first := makeFunc.Submit(ctx, c, client.Val[int64](n), client.Val[int64](0), client.WithWorkers(workers[0].Address))
	_, err := lookFunc.Submit(ctx, c, first, client.WithWorkers(workers[1].Address)).Result(ctx) // from now on it knows
	must(t, err)
	futures := make([]*client.Future[*wire.DeviceArray], 32)
	for i := range futures {
		futures[i] = makeFunc.Submit(ctx, c, client.Val[int64](n), client.Val(int64(i)),
			client.WithWorkers(workers[0].Address), client.WithImpure())
	}
	must(t, client.Wait(ctx, futures))
	got, err := lookManyFunc.Submit(ctx, c, client.ListOf(futures), client.WithWorkers(workers[1].Address)).Result(ctx)
	must(t, err)
	for i, s := range got {
		if s.SHA256 != shaOf(pattern(int64(i), n)) || s.Memory != "device" {
			t.Errorf("result %d: %+v", i, s)
		}
	}
	moved := incoming(t, ctx, workers[1])
	for _, m := range moved {
		t.Logf("%d keys, %d bytes over %s %v in %.1f µs: %.1f GB/s", m.Keys, m.Bytes, m.Scheme, m.Transports,
			m.Duration*1e6, float64(m.Bytes)/m.Duration/1e9)
	}
	if len(moved) != 2 || moved[1].Keys != len(futures) {
		t.Errorf("the first and then %d results came in %d transfers", len(futures), len(moved))
	}

	list := manyFunc.Submit(ctx, c, client.Val[int64](5), client.Val[int64](3000),
		client.WithWorkers(workers[0].Address))
	columns, err := lookManyFunc.Submit(ctx, c, list, client.WithWorkers(workers[1].Address)).Result(ctx)
	must(t, err)
	for i, s := range columns {
		if s.SHA256 != shaOf(pattern(int64(i), 3000)) || s.Memory != "device" {
			t.Errorf("array %d of a list: %+v", i, s)
		}
	}
	same := sameFunc.Submit(ctx, c, futures[3], client.WithWorkers(workers[1].Address))
	s, err := lookFunc.Submit(ctx, c, same, client.WithWorkers(workers[0].Address)).Result(ctx)
	if err != nil || s.SHA256 != shaOf(pattern(3, n)) || s.Memory != "device" {
		t.Errorf("an argument that was returned: %+v, %v", s, err)
	}
	made := rawFunc.Submit(ctx, c, client.Val[int64](5000), client.Val[int64](9),
		client.WithWorkers(workers[0].Address))
	raw := copyFunc.Submit(ctx, c, made, client.WithWorkers(workers[1].Address))
	s, err = lookRawFunc.Submit(ctx, c, raw, client.WithWorkers(workers[0].Address)).Result(ctx)
	if err != nil || s.SHA256 != shaOf(pattern(9, 5000)) || s.Memory != "device" {
		t.Errorf("a buffer: %+v, %v", s, err)
	}
	client.ReleaseAll(futures)
	for _, f := range []interface{ Release() }{first, list, same, made, raw} {
		f.Release()
	}
	for _, w := range workers {
		noneOut(t, ctx, c, w)
	}
}

// noneOut waits until a worker has none of its device memory handed out: results that nobody wants are given back.
func noneOut(t *testing.T, ctx context.Context, c *client.Client, w cluster.WorkerInfo) {
	t.Helper()
	for {
		f := outFunc.Submit(ctx, c, client.Val[int64](0), client.WithWorkers(w.Address), client.WithImpure())
		out, err := f.Result(ctx)
		if err != nil {
			t.Fatalf("%d bytes of worker %s are still out: %v", out, w.Name, err)
		}
		f.Release()
		if out == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("%d bytes of worker %s are still out", out, w.Name)
		}
	}
}

// TestGPUGather brings results on the device to clients: one with a device, one without, and one that reaches no
// worker and so goes through the scheduler, which has no GPU.
func TestGPUGather(t *testing.T) {
	requireGPU(t)
	for _, protocol := range []string{"tls", "ucxx"} {
		for _, tc := range []struct {
			name     string
			device   bool
			noDirect bool
		}{{"device", true, false}, {"host", false, false}, {"through the scheduler to host", false, true},
			{"through the scheduler to device", true, true}} {
			t.Run(protocol+"/"+tc.name, func(t *testing.T) {
				ctx := testContext(t)
				cfg := client.Config{NoDirect: tc.noDirect}
				if tc.device {
					cfg.Dial.Device = cuda.NewDeviceResource(0)
				}
				_, c, workers := twoOnOne(t, ctx, cfg, cluster.Config{Protocol: protocol})
				for i, n := range sizes {
					x := makeFunc.Submit(ctx, c, client.Val(n), client.Val(int64(i)),
						client.WithWorkers(workers[0].Address))
					a, err := x.Result(ctx)
					if err != nil {
						t.Errorf("%d bytes: %v", n, err)
						continue
					}
					s, err := look(ctx, a)
					if err != nil || s.SHA256 != shaOf(pattern(int64(i), int(n))) {
						t.Errorf("%d bytes: %+v, %v", n, s, err)
					}
					if tc.device != (s.Memory == "device") {
						t.Errorf("%d bytes are in %s memory", n, s.Memory)
					}
					a.Release()
					x.Release()
				}
			})
		}
	}
}
