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
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// arrived describes the arrays that a worker got.
type arrived struct {
	// Bytes is their size, OnDevice the part in memory of its GPU.
	Bytes, OnDevice int64
	// Seeds are their first bytes, which identify them.
	Seeds []int64
}

// Functions of device-fetch.
var (
	// deviceFunc returns an array on the GPU of the worker filled with a byte. The fill may be in flight when it
	// returns.
	deviceFunc = client.Func2("taskbench.device", func(ctx context.Context, n, seed int64) (*wire.DeviceArray, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		b, err := d.Memory.Alloc(ctx, int(n))
		if err != nil {
			return nil, err
		}
		if _, err := cuda.StreamOf(d.Stream).Fill(b, byte(seed)); err != nil {
			b.Release()
			return nil, err
		}
		return wire.NewDeviceArray[uint8](b)
	})
	arrivedFunc = client.Func("taskbench.arrived", look)
	followsFunc = client.Func2("taskbench.follows",
		func(ctx context.Context, list []*wire.DeviceArray, last arrived) (arrived, error) {
			out, err := look(ctx, list)
			return arrived{last.Bytes + out.Bytes, last.OnDevice + out.OnDevice,
				append(slices.Clone(last.Seeds), out.Seeds...)}, err
		})
)

// look describes the arrays that have arrived.
func look(ctx context.Context, list []*wire.DeviceArray) (arrived, error) {
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
			return out, fmt.Errorf("array starts with %d and ends with %d", ends[0], ends[1])
		}
		out.Seeds = append(out.Seeds, int64(ends[0]))
	}
	return out, nil
}

// startDevice is startLocal for two workers on one GPU, each with a pool.
func startDevice(ctx context.Context, c command) (*local, error) {
	return startCUDA(ctx, c, cluster.CUDAConfig{Devices: []string{c.Device, c.Device},
		RMM: cluster.RMMConfig{PoolSize: fmt.Sprint(c.Size)}})
}

// startCUDA is startLocal for workers on GPUs.
func startCUDA(ctx context.Context, c command, cfg cluster.CUDAConfig) (*local, error) {
	cl, err := cluster.LocalCUDA(ctx, cfg,
		cluster.Config{Dashboard: "127.0.0.1:0", WorkerDashboard: "127.0.0.1:0", LocalDirectory: c.Directory})
	if err != nil {
		return nil, err
	}
	l := &local{cluster: cl, threads: 1, workers: cl.Workers()}
	if l.client, err = client.Connect(ctx, cl.Address(), client.Config{Dial: cl.Dial()}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// deviceFetch moves arrays from the GPU memory of the first worker to that of the second, N times: four times Parts of
// them for one task or, if Parts is 1, one after the other in a chain of tasks. The answer has all times; in the former
// case, the time in which transfers ran.
func (l *local) deviceFetch(ctx context.Context, c command) (answer, error) {
	if len(l.workers) < 2 {
		return answer{}, errors.New("a fetch needs at least two workers")
	}
	out := answer{Bytes: c.Size}
	fetch := func(seed int) error {
		moved, err := l.deviceOnce(ctx, c.Size, c.N, int64(seed), true)
		for _, t := range moved {
			out.Times, out.Transport = append(out.Times, t.Duration), transportOf(t)
		}
		return err
	}
	turns := 1
	if c.Parts > 1 {
		turns, out.Bytes = c.N, c.Size*devicePasses*int64(c.Parts)
		fetch = func(seed int) error {
			moved, err := l.deviceOnce(ctx, c.Size, devicePasses*c.Parts, int64(seed), false)
			if err == nil {
				out.Times, out.Transport = append(out.Times, timeOf(moved).Seconds()), transportOf(moved[0])
			}
			return err
		}
	}
	// The first fetches connect and map the memory of the pools, and do not count.
	for range 2 {
		if err := fetch(0); err != nil {
			return answer{}, err
		}
	}
	out.Times = nil
	for i := range turns {
		if err := fetch(i); err != nil {
			return answer{}, err
		}
	}
	return out, nil
}

// transportOf returns the transport of device memory.
func transportOf(t worker.Transfer) string {
	if slices.Contains(t.Transports, "cuda_ipc") {
		return "cuda_ipc"
	}
	return t.Scheme
}

// timeOf returns the time in which transfers ran, without the time of the worker between them.
func timeOf(moved []worker.Transfer) time.Duration {
	slices.SortFunc(moved, func(a, b worker.Transfer) int { return a.Start.Compare(b.Start) })
	var sum time.Duration
	var until time.Time
	for _, t := range moved {
		start, end := t.Start, t.Start.Add(time.Duration(t.Duration*1e9))
		if start.Before(until) {
			start = until
		}
		if end.After(start) {
			sum, until = sum+end.Sub(start), end
		}
	}
	return sum
}

// deviceOnce moves arrays and returns the records of the second worker: all for one task, or one by one for a chain of
// tasks.
func (l *local) deviceOnce(ctx context.Context, size int64, parts int, seed int64, chain bool) ([]worker.Transfer,
	error) {
	source, target := l.workers[0], l.workers[1]
	arrays := make([]*client.Future[*wire.DeviceArray], parts)
	for i := range arrays {
		arrays[i] = deviceFunc.Submit(ctx, l.client, client.Val(size), client.Val((seed+int64(i))%251),
			client.WithWorkers(source.Address), client.WithImpure())
	}
	defer client.ReleaseAll(arrays)
	if err := client.Wait(ctx, arrays); err != nil {
		return nil, err
	}
	before, err := incoming(ctx, target, 0)
	if err != nil {
		return nil, err
	}
	var tasks []*client.Future[arrived]
	if chain {
		for i := range arrays {
			var last client.Arg[arrived] = client.Val(arrived{})
			if i > 0 {
				last = tasks[i-1]
			}
			tasks = append(tasks, followsFunc.Submit(ctx, l.client, client.ListOf(arrays[i:i+1]), last,
				client.WithWorkers(target.Address), client.WithImpure()))
		}
	} else {
		tasks = append(tasks, arrivedFunc.Submit(ctx, l.client, client.ListOf(arrays),
			client.WithWorkers(target.Address), client.WithImpure()))
	}
	defer client.ReleaseAll(tasks)
	got, err := tasks[len(tasks)-1].Result(ctx)
	if err != nil {
		return nil, err
	}
	if want := size * int64(parts); got.Bytes != want || got.OnDevice != want {
		return nil, fmt.Errorf("got %d bytes, %d of them on the GPU, want %d", got.Bytes, got.OnDevice, want)
	}
	for i, s := range got.Seeds {
		if s != (seed+int64(i))%251 {
			return nil, fmt.Errorf("array %d is filled with byte %d", i, s)
		}
	}
	after, err := incoming(ctx, target, size)
	if err != nil {
		return nil, err
	}
	since := slices.DeleteFunc(after, func(t worker.Transfer) bool {
		return slices.ContainsFunc(before, func(b worker.Transfer) bool { return b.Start.Equal(t.Start) })
	})
	if len(since) == 0 || chain && len(since) != parts {
		return nil, fmt.Errorf("%d arrays arrived, but the worker has %d records of transfers", parts, len(since))
	}
	return since, nil
}
