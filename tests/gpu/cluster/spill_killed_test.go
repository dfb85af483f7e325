package cluster

import (
	"context"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// A worker that is killed while it moves results to host memory and disk, or back, costs its share: the nanny starts
// another one, the scheduler computes the lost results again, all are right, and nothing is left on the GPU.
func TestGPUSpillKilled(t *testing.T) {
	requireGPU(t)
	const limit, buffer = 512 << 20, 64 << 20
	const count = 6 * limit / buffer // three times the limit of each of two workers
	for _, direction := range []string{"down", "up"} {
		t.Run(direction, func(t *testing.T) {
			ctx := testContext(t)
			before := quietGPU(t, ctx)
			cls, cl, workers := gpuCluster(t, ctx, cluster.CUDAConfig{
				Devices: []string{"0", "0"}, DeviceMemoryLimit: "512MiB", MemoryLimit: "1GiB",
			}, cluster.Config{LocalDirectory: t.TempDir()})
			victim := workers[0]
			killed := make(chan error, 1)
			watch := func() { go func() { killed <- killAfterMoves(ctx, victim, direction, 2) }() }
			if direction == "down" {
				watch()
			}
			results := spillFill(ctx, cl, count, buffer)
			must(t, client.Wait(ctx, results))
			if direction == "up" {
				watch()
			}
			must(t, spillCheck(ctx, cl, results, buffer))
			must(t, <-killed)
			must(t, spillCheck(ctx, cl, results, buffer)) // a second time, on the worker that replaced it
			var alive []cluster.WorkerInfo
			for len(alive) < 2 && ctx.Err() == nil {
				alive = cls.Workers()
				time.Sleep(20 * time.Millisecond)
			}
			for _, w := range alive {
				if w.PID == victim.PID {
					t.Errorf("process %d was killed and is in the list of workers", w.PID)
				}
			}
			client.ReleaseAll(results)
			must(t, cls.Close())
			if after := quietGPU(t, ctx); after < before-buffer {
				t.Errorf("free memory of the GPU: got %d bytes, want the %d of before", after, before)
			}
		})
	}
}

// killAfterMoves kills a worker as soon as it has moved n results in a direction.
func killAfterMoves(ctx context.Context, w cluster.WorkerInfo, direction string, n float64) error {
	name := `millstream_worker_device_moves_total{direction="` + direction + `"}`
	for {
		m, err := readMetrics(ctx, w.HTTP)
		if err != nil {
			return err
		}
		if m[name] >= n {
			return syscall.Kill(w.PID, syscall.SIGKILL)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
