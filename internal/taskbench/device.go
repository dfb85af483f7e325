package taskbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// arrived is what a worker says of arrays that it was given.
type arrived struct {
	// Bytes of them, and how many of these are in memory of its GPU.
	Bytes, OnDevice int64
	// Seeds are their first bytes, as they were filled.
	Seeds []int64
}

// The functions of device-fetch.
var (
	// deviceFunc is an array of the worker's GPU filled with a byte. The fill is under way when it returns.
	deviceFunc = client.Func2("taskbench.device", func(ctx context.Context, n, seed int64) (*wire.DeviceArray, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		b, err := d.Memory.Alloc(ctx, int(n))
		if err != nil {
			return nil, err
		}
		if _, err := d.Stream.Fill(b, byte(seed)); err != nil {
			b.Release()
			return nil, err
		}
		return wire.NewDeviceArray[uint8](b)
	})
	arrivedFunc = client.Func("taskbench.arrived", func(ctx context.Context, list []*wire.DeviceArray) (arrived, error) {
		var out arrived
		for _, a := range list {
			out.Bytes += int64(a.Frame.Len())
			if !a.Frame.OnDevice() {
				continue
			}
			out.OnDevice += int64(a.Frame.Len())
			ends := make([]byte, 2)
			for i, at := range []int{0, a.Frame.Len() - 1} {
				one := a.Buffer().Slice(at, 1)
				err := cuda.CopyToHost(ctx, ends[i:i+1], one)
				one.Release()
				if err != nil {
					return out, err
				}
			}
			if ends[0] != ends[1] {
				return out, fmt.Errorf("an array begins with %d and ends with %d", ends[0], ends[1])
			}
			out.Seeds = append(out.Seeds, int64(ends[0]))
		}
		return out, nil
	})
)

// startDevice is startLocal for two workers on one GPU, each with a pool.
func startDevice(ctx context.Context, c command) (*local, error) {
	cl, err := cluster.LocalCUDA(ctx, cluster.CUDAOptions{Devices: []string{c.Device, c.Device}, RMM: cluster.RMMOptions{PoolSize: fmt.Sprint(c.Size)}},
		cluster.Options{Dashboard: "127.0.0.1:0", WorkerDashboard: "127.0.0.1:0", LocalDirectory: c.Directory})
	if err != nil {
		return nil, err
	}
	l := &local{cluster: cl, threads: 1, workers: cl.Workers()}
	if l.client, err = client.Connect(ctx, cl.Address(), client.Config{Dial: cl.Dial()}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// deviceFetch moves arrays from the first worker's GPU memory to the second's, Parts of them at once, N times. The
// best counts, and all times are in the answer.
func (l *local) deviceFetch(ctx context.Context, c command) (answer, error) {
	if len(l.workers) < 2 {
		return answer{}, errors.New("a fetch needs two workers")
	}
	best := answer{Bytes: c.Size * int64(c.Parts)}
	// The first fetches connect and open the pools' memory, and are not counted.
	for _, parts := range []int{1, c.Parts, c.Parts} {
		if _, err := l.deviceOnce(ctx, c.Size, parts, 1); err != nil {
			return answer{}, err
		}
	}
	for i := range c.N {
		moved, err := l.deviceOnce(ctx, c.Size, c.Parts, int64(i))
		if err != nil {
			return answer{}, err
		}
		took := spanOf(moved)
		best.Times = append(best.Times, took.Seconds())
		if best.Seconds == 0 || took.Seconds() < best.Seconds {
			best.Seconds, best.Lane = took.Seconds(), laneOf(moved[0])
		}
	}
	return best, nil
}

// laneOf names the transport that device memory went over.
func laneOf(t worker.Transfer) string {
	if slices.Contains(t.Transports, "cuda_ipc") {
		return "cuda_ipc"
	}
	return t.Lane
}

// spanOf is the time from the begin of the first transfer to the end of the last.
func spanOf(moved []worker.Transfer) time.Duration {
	first, last := moved[0].Start, moved[0].Start
	for _, t := range moved {
		if t.Start.Before(first) {
			first = t.Start
		}
		if end := t.Start.Add(time.Duration(t.Duration * 1e9)); end.After(last) {
			last = end
		}
	}
	return last.Sub(first)
}

// deviceOnce moves arrays, once, and returns the second worker's records of it.
func (l *local) deviceOnce(ctx context.Context, size int64, parts int, seed int64) ([]worker.Transfer, error) {
	source, target := l.workers[0], l.workers[1]
	arrays := make([]*client.Future[*wire.DeviceArray], parts)
	for i := range arrays {
		arrays[i] = deviceFunc.Submit(ctx, l.client, client.Val(size), client.Val((seed+int64(i))%251), client.Workers(source.Address), client.Impure())
	}
	defer client.ReleaseAll(arrays)
	if err := client.Wait(ctx, arrays); err != nil {
		return nil, err
	}
	before, err := incoming(ctx, target, 0)
	if err != nil {
		return nil, err
	}
	f := arrivedFunc.Submit(ctx, l.client, client.ListOf(arrays), client.Workers(target.Address), client.Impure())
	defer f.Release()
	got, err := f.Result(ctx)
	if err != nil {
		return nil, err
	}
	if want := size * int64(parts); got.Bytes != want || got.OnDevice != want {
		return nil, fmt.Errorf("%d bytes arrived, %d of them on the GPU, of %d", got.Bytes, got.OnDevice, want)
	}
	for i, s := range got.Seeds {
		if s != (seed+int64(i))%251 {
			return nil, fmt.Errorf("array %d is that of the byte %d", i, s)
		}
	}
	after, err := incoming(ctx, target, 0)
	if err != nil {
		return nil, err
	}
	if len(after) <= len(before) {
		return nil, errors.New("the worker has no record of the transfer")
	}
	return after[len(before):], nil
}
