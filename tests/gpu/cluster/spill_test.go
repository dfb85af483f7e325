package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/wire"
)

// spillSampler asks the driver again and again how much of the GPU is free. What it reports is of all processes on the
// GPU: the tests have it for themselves.
type spillSampler struct {
	stop chan struct{}
	done chan struct{}
	// Owner: the sampler's goroutine until done is closed.
	least   int64
	samples int
	err     error
}

func startSampler() *spillSampler {
	s := &spillSampler{stop: make(chan struct{}), done: make(chan struct{}), least: 1 << 62}
	go func() {
		defer close(s.done)
		for {
			select {
			case <-s.stop:
				return
			default:
			}
			free, _, err := cuda.MemoryInfo(0)
			if err != nil {
				s.err = err
				return
			}
			s.least = min(s.least, free)
			s.samples++
			time.Sleep(200 * time.Microsecond)
		}
	}()
	return s
}

// end returns the least that was free.
func (s *spillSampler) end(t *testing.T) int64 {
	t.Helper()
	close(s.stop)
	<-s.done
	must(t, s.err)
	return s.least
}

// TestGPUSpill keeps results of three times --device-memory-limit alive. They go to host memory and from there to disk,
// come back where they are used, and the GPU never has more than the limit and one buffer, as the driver counts.
// Without a pool every buffer is an allocation of the driver's; with one, its slabs are, so that its maximum is the
// bound.
func TestGPUSpill(t *testing.T) {
	requireGPU(t)
	const limit, buffer = 1 << 30, 64 << 20
	const count = 3 * limit / buffer
	for _, c := range []struct {
		name  string
		rmm   cluster.RMMConfig
		bound int64 // of the driver's figures
	}{
		{"plain", cluster.RMMConfig{}, limit + buffer},
		{"pool", cluster.RMMConfig{PoolSize: "1GiB", MaximumPoolSize: "1GiB"}, limit + buffer},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			before := quietGPU(t, ctx)
			cls, cl, workers := gpuCluster(t, ctx, cluster.CUDAConfig{
				Devices: []string{"0"}, RMM: c.rmm, DeviceMemoryLimit: "1GiB", MemoryLimit: "3GiB",
			}, cluster.Config{LocalDirectory: t.TempDir()})
			// What the driver takes for itself with the first copies is no result.
			warm := spillFill(ctx, cl, 2, buffer)
			must(t, spillCheck(ctx, cl, warm, buffer))
			client.ReleaseAll(warm)
			memoryReleased(t, ctx, workers[0])
			idle, _, err := cuda.MemoryInfo(0)
			must(t, err)
			if c.rmm.PoolSize != "" {
				idle += limit // the pool is there already
			}

			sampler := startSampler()
			start := time.Now()
			results := spillFill(ctx, cl, count, buffer)
			must(t, client.Wait(ctx, results))
			made := time.Since(start)
			start = time.Now()
			must(t, spillCheck(ctx, cl, results, buffer))
			read := time.Since(start)
			least := sampler.end(t)

			m := metricsOf(t, ctx, workers[0].HTTP)
			down, up := m[`millstream_worker_device_moves_total{direction="down"}`],
				m[`millstream_worker_device_moves_total{direction="up"}`]
			t.Logf("worker's context and warm-up: %d MiB; %d samples: at most %d MiB of results' memory, limit %d "+
				"MiB, buffer %d MiB", (before-idle)>>20, sampler.samples, (idle-least)>>20, limit>>20, buffer>>20)
			rate := func(direction string) float64 {
				return m[`millstream_worker_device_move_bytes_total{direction="`+direction+
					`"}`] / m[`millstream_worker_device_move_seconds_total{direction="`+direction+`"}`] / 1e9
			}
			t.Logf("moves at %.2f GB/s down, %.2f GB/s up", rate("down"), rate("up"))
			t.Logf("made %d results in %v, read them in %v; %.0f moves down, %.0f up; peak by our count %.0f MiB",
				count, made, read, down, up, m[`millstream_worker_device_bytes{type="peak"}`]/(1<<20))
			if idle-least > c.bound {
				t.Errorf("the driver had %d bytes of results at one time, limit %d and one buffer are %d", idle-least,
					limit, c.bound)
			}
			if down < count-limit/buffer || up < count-limit/buffer {
				t.Errorf("%.0f results went down, %.0f up", down, up)
			}
			if m[`millstream_worker_device_bytes{type="peak"}`] > limit+buffer {
				t.Errorf("our count was %.0f bytes at one time", m[`millstream_worker_device_bytes{type="peak"}`])
			}
			if m[`dask_worker_spill_count_total{activity="disk_write"}`] == 0 {
				t.Error("nothing went to disk")
			}
			client.ReleaseAll(results)
			memoryReleased(t, ctx, workers[0])
			must(t, cls.Close())
			if after, _, err := cuda.MemoryInfo(0); err != nil || after < before-buffer || after > before+buffer {
				t.Errorf("the GPU was not alone with the test, or something is left: %d bytes were free before, "+
					"%d after, %v", before, after, err)
			}
		})
	}
}

// quietGPU waits until nobody allocates or frees on the GPU any more, such as workers of earlier tests that end, and
// returns how much is free. Pools of this process that earlier tests made stay, and are in use on both sides of what is
// compared.
func quietGPU(t *testing.T, ctx context.Context) int64 {
	t.Helper()
	const steady = 10 // looks in a row
	last, same := int64(-1), 0
	for same < steady {
		free, _, err := cuda.MemoryInfo(0)
		must(t, err)
		if same++; free != last {
			last, same = free, 0
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the GPU's free memory, %d bytes at last, never stays as it is: the test needs the GPU for itself",
				free)
		}
	}
	return last
}

func spillFill(ctx context.Context, c *client.Client, count int, n int64) []*client.Future[*wire.DeviceArray] {
	out := make([]*client.Future[*wire.DeviceArray], count)
	for i := range out {
		out[i] = memoryFill.Submit(ctx, c, client.Val(n), client.Val(int64(i)), client.WithImpure())
	}
	return out
}

func spillCheck(ctx context.Context, c *client.Client, list []*client.Future[*wire.DeviceArray], n int64) error {
	checks := make([]*client.Future[int64], len(list))
	for i, f := range list {
		checks[i] = memoryCheck.Submit(ctx, c, f, client.Val(int64(i)), client.WithImpure())
	}
	defer client.ReleaseAll(checks)
	for i, f := range checks {
		if got, err := f.Result(ctx); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		} else if got != n {
			return fmt.Errorf("result %d has %d bytes", i, got)
		}
	}
	return nil
}
