package taskbench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// startSpill is startLocal for one worker on a GPU that keeps at most c.Limit bytes of results there. Its pool has room
// for one more, so that only the limit moves results.
func startSpill(ctx context.Context, c command) (*local, error) {
	return startCUDA(ctx, c, cluster.CUDAConfig{Devices: []string{c.Device}, DeviceMemoryLimit: fmt.Sprint(c.Limit),
		RMM: cluster.RMMConfig{PoolSize: fmt.Sprint(c.Limit + 2*c.Size)}})
}

// moveTotals are the counters of a worker for results that it moved in one direction.
type moveTotals struct{ count, bytes, seconds float64 }

// rate returns the bandwidth since before in bytes per second, if at least want results were moved.
func (m moveTotals) rate(before moveTotals, want int) (float64, error) {
	if n := m.count - before.count; n < float64(want) || m.seconds <= before.seconds {
		return 0, fmt.Errorf("%.0f results were moved in %.3f s, want at least %d", n, m.seconds-before.seconds, want)
	}
	return (m.bytes - before.bytes) / (m.seconds - before.seconds), nil
}

// movesOf returns the counters of the first worker, down and up.
func (l *local) movesOf(ctx context.Context) (down, up moveTotals, err error) {
	m, err := scrape(ctx, l.workers[0].HTTP)
	of := func(direction string) moveTotals {
		at := func(name string) float64 {
			return m["millstream_worker_device_"+name+"_total{direction="+strconv.Quote(direction)+"}"]
		}
		return moveTotals{at("moves"), at("move_bytes"), at("move_seconds")}
	}
	return of("down"), of("up"), err
}

// deviceSpill makes N arrays of Size bytes, of which Limit bytes fit on the GPU, and reads each of them twice in the
// order in which they were made: the least recently used are moved to host memory, so that every read moves one down
// and one up. The rates are those of moves into host memory that is new, of later ones, and of moves to the GPU.
func (l *local) deviceSpill(ctx context.Context, c command) (answer, error) {
	fit := int(c.Limit / c.Size)
	if fit < 1 || c.N < 2*fit {
		return answer{}, fmt.Errorf("%d arrays of %d bytes: want at least twice as many as fit into %d bytes", c.N,
			c.Size, c.Limit)
	}
	down0, _, err := l.movesOf(ctx)
	if err != nil {
		return answer{}, err
	}
	arrays := make([]*client.Future[*wire.DeviceArray], c.N)
	for i := range arrays {
		arrays[i] = deviceFunc.Submit(ctx, l.client, client.Val(c.Size), client.Val(int64(i%251)), client.WithImpure())
	}
	defer client.ReleaseAll(arrays)
	if err := client.Wait(ctx, arrays); err != nil {
		return answer{}, err
	}
	down1, up1, err := l.movesOf(ctx)
	if err != nil {
		return answer{}, err
	}
	start := time.Now()
	for range 2 {
		if err := l.readAll(ctx, arrays, c.Size); err != nil {
			return answer{}, err
		}
	}
	out := answer{Bytes: c.Size, Seconds: time.Since(start).Seconds(), Rates: make([]float64, 3)}
	down2, up2, err := l.movesOf(ctx)
	if err != nil {
		return answer{}, err
	}
	for i, r := range []struct {
		after, before moveTotals
		want          int
	}{{down1, down0, c.N - fit - 1}, {down2, down1, c.N}, {up2, up1, c.N}} {
		if out.Rates[i], err = r.after.rate(r.before, r.want); err != nil {
			return answer{}, fmt.Errorf("%s: %w", spillSettings[i], err)
		}
	}
	return out, nil
}

// readAll checks every array in a task of its own.
func (l *local) readAll(ctx context.Context, arrays []*client.Future[*wire.DeviceArray], size int64) error {
	tasks := make([]*client.Future[arrived], len(arrays))
	for i := range arrays {
		tasks[i] = arrivedFunc.Submit(ctx, l.client, client.ListOf(arrays[i:i+1]), client.WithImpure())
	}
	defer client.ReleaseAll(tasks)
	got, err := client.Gather(ctx, tasks)
	if err != nil {
		return err
	}
	for i, a := range got {
		if a.OnDevice != size || len(a.Seeds) != 1 || a.Seeds[0] != int64(i%251) {
			return fmt.Errorf("array %d: got %+v, want %d bytes of %d on the GPU", i, a, size, i%251)
		}
	}
	return nil
}

// deviceCopies returns the rates of N copies of Size bytes from GPU memory to pinned memory and back, in bytes per
// second.
func deviceCopies(ctx context.Context, c command) (answer, error) {
	ordinal, err := strconv.Atoi(c.Device)
	if err != nil {
		return answer{}, err
	}
	s, err := cuda.NewStream(ordinal, cuda.StreamConfig{})
	if err != nil {
		return answer{}, err
	}
	defer s.Close()
	device, err := cuda.NewDeviceResource(ordinal).Alloc(ctx, int(c.Size))
	if err != nil {
		return answer{}, err
	}
	defer device.Release()
	pinned, err := cuda.NewPinnedResource(ordinal).Alloc(ctx, int(c.Size))
	if err != nil {
		return answer{}, err
	}
	defer pinned.Release()
	out := answer{Bytes: c.Size}
	for _, copies := range [][2]*mem.Buffer{{pinned, device}, {device, pinned}} {
		var start time.Time
		for i := range c.N + 1 {
			if i == 1 { // the first is not measured
				if err := s.Wait(ctx); err != nil {
					return answer{}, err
				}
				start = time.Now()
			}
			if _, err := s.Copy(copies[0], copies[1]); err != nil {
				return answer{}, err
			}
		}
		if err := s.Wait(ctx); err != nil {
			return answer{}, err
		}
		out.Rates = append(out.Rates, float64(c.N)*float64(c.Size)/time.Since(start).Seconds())
	}
	return out, nil
}
