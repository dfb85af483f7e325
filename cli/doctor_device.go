package cli

import (
	"context"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/doctor"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// deviceSample is memory of the GPU of the worker that runs it, for doctor to have moved.
var deviceSample = client.Func2("millstream.device-sample",
	func(ctx context.Context, n, _ int64) (*wire.DeviceArray, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		b, err := d.Memory.Alloc(ctx, int(n))
		if err != nil {
			return nil, err
		}
		if _, err := cuda.StreamOf(d.Stream).Fill(b, 1); err != nil {
			b.Release()
			return nil, err
		}
		return wire.NewDeviceArray[uint8](b)
	})

// measureDevice has one worker fetch device memory of another: twice, as the first transfer maps
// what is to be moved.
func (x *clusterExam) measureDevice(ctx context.Context, from, to doctor.Member) doctor.Flow {
	f := doctor.Flow{From: from, To: to, Device: true}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range 2 {
		future := deviceSample.Submit(ctx, x.cl, client.Val(x.size), client.Val(time.Now().UnixNano()),
			client.WithWorkers(from.Address))
		f.Err = client.Wait(ctx, []*client.Future[*wire.DeviceArray]{future})
		if f.Err == nil {
			start := time.Now()
			f.Err = x.cl.Replicate(ctx, 2, []string{from.Address, to.Address}, future)
			f.Rate = float64(x.size) / time.Since(start).Seconds()
		}
		future.Release()
		if f.Err != nil {
			return f
		}
	}
	x.told(ctx, &f)
	return f
}
