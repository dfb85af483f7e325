package worker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// gpuOf is the GPU of the tests' worker: tasks fill and read its memory. It is used by one test at a time.
var gpuOf struct {
	sync.Mutex
	gpu *devmemtest.GPU
}

func testGPU() *devmemtest.GPU {
	gpuOf.Lock()
	defer gpuOf.Unlock()
	return gpuOf.gpu
}

var (
	sowOnGPU = client.Func2("worker_test.sow-on-gpu", func(ctx context.Context, seed, n int) (*wire.DeviceArray,
		error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		b, err := d.Memory.Alloc(ctx, n)
		if err != nil {
			return nil, err
		}
		copy(testGPU().Bytes(b), crop(seed, n))
		return wire.NewDeviceArray[uint8](b)
	})
	reapOnGPU = client.Func2("worker_test.reap-on-gpu", func(_ context.Context, seed int, a *wire.DeviceArray) (bool,
		error) {
		if !a.Frame.OnDevice() {
			return false, errors.New("the array is not on the device")
		}
		return string(testGPU().Bytes(a.Buffer())) == string(crop(seed, a.Frame.Len())), nil
	})
)

// Results of three times --device-memory-limit are kept: on the GPU, in memory and on disk, and have the right values
// when they are used. The GPU never has more than the limit and one buffer.
func TestDeviceLimit(t *testing.T) {
	const limit, size, n = 2 << 20, 128 << 10, 48
	g := devmemtest.New(100 << 20)
	gpuOf.Lock()
	gpuOf.gpu = g
	gpuOf.Unlock()
	m, err := devmem.OpenWith(devmem.Config{}, g)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := store.NewDeviceMemory(m.Resource(), limit)
	if err != nil {
		t.Fatal(err)
	}
	up := func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) { return m.Up(ctx, memory, b) }
	moved := make(chan store.Move, 10*n)
	c := start(t, "inproc://", 1, worker.Config{
		MemoryLimit: 4 << 20, Memory: worker.Memory{Usage: calm}, Dashboard: "127.0.0.1:0", Threads: 1,
		GPU:        &task.Device{UUID: "GPU-fake", Memory: memory, Pinned: m.Pinned()},
		Collectors: []prometheus.Collector{devmem.Collector{}},
		Device: &store.DeviceConfig{
			Tier: &store.FrameTier{Down: m.Down, Up: up}, Limit: limit, Memory: memory,
			OnMove: func(m store.Move) { moved <- m },
		},
	})
	ctx := testContext(t)
	fields := make([]*client.Future[*wire.DeviceArray], n)
	for i := range fields {
		fields[i] = sowOnGPU.Submit(ctx, c.client, client.Val(i), client.Val(size))
	}
	for range 2 {
		oks := make([]*client.Future[bool], n)
		for i, f := range fields {
			oks[i] = reapOnGPU.Submit(ctx, c.client, client.Val(i), f, client.WithImpure())
		}
		for i, f := range oks {
			if ok, err := f.Result(ctx); !ok || err != nil {
				t.Fatalf("%d: %v, %v", i, ok, err)
			}
		}
	}
	if _, peak := g.Used(); peak > limit+size {
		t.Errorf("got a peak of %d bytes on the GPU", peak)
	}
	if len(moved) < 2*(n-limit/size) || len(c.workers[0].DiskTransfers()) == 0 {
		t.Errorf("%d moves, %d transfers to disk", len(moved), len(c.workers[0].DiskTransfers()))
	}
	resp, err := http.Get("http://" + c.workers[0].Dashboard() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`millstream_worker_device_bytes{type="limit"} 2.097152e+06`, `millstream_worker_device_bytes{type="results"} `,
		`millstream_worker_device_moves_total{direction="down"} `,
		`millstream_device_memory_bytes{device="GPU-fake",type="in_use"} `,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got /metrics without %s", want)
		}
	}
	// A client without a GPU gets the bytes.
	a, err := fields[3].Result(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the client has it on the device: %v", a.Frame.OnDevice())
	task.Release(a)
	client.ReleaseAll(fields)
	if err := c.workers[0].Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if used, _ := g.Used(); used != 0 {
		t.Errorf("got %d bytes left on the GPU, want 0", used)
	}
}
