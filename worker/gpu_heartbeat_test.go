//go:build cgo

package worker_test

import (
	"testing"

	"go.millstream.dev/internal/device/nvml/nvmltest"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// A worker reports its own GPU, not the first of the machine, under Dask's names.
func TestHeartbeatOfGPU(t *testing.T) {
	leak.Check(t)
	nvmltest.Use(t)
	t.Setenv("CUDA_VISIBLE_DEVICES", "7")
	d := direct(t, "tcp://127.0.0.1:0")
	for _, c := range []struct {
		gpu  *task.Device
		busy int64
	}{{&task.Device{UUID: "GPU-fake-4"}, 40}, {nil, 70}} {
		w, seen := d.worker(t, worker.Config{Threads: 1, GPU: c.gpu})
		extra, _ := seen.hello.Get("extra")
		gpu, _ := extra.(msgpack.Map).Get("gpu")
		if m, _ := gpu.(msgpack.Map); m.GetString("name") != "Fake GPU" {
			t.Errorf("registration: got gpu %v, want its name", gpu)
		}
		for {
			beat := <-d.beats
			if beat.GetString("address") != w.Address() {
				continue
			}
			metrics, _ := beat.Get("metrics")
			if busy, _ := metrics.(msgpack.Map).Get("gpu_utilization"); busy != c.busy {
				t.Errorf("heartbeat: got gpu_utilization %v, want %d", busy, c.busy)
			}
			break
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
