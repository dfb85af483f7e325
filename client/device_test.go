package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// fakeGPU is device memory that is counted but never accessed.
var fakeGPU struct {
	sync.Mutex
	next uintptr
	out  map[uintptr]int
}

func fakeAlloc(n int) *mem.Buffer {
	fakeGPU.Lock()
	defer fakeGPU.Unlock()
	if fakeGPU.out == nil {
		fakeGPU.out = map[uintptr]int{}
	}
	fakeGPU.next += 1 << 32
	at := fakeGPU.next
	fakeGPU.out[at] = n
	return mem.NewRegion(mem.RegionConfig{Addr: 1<<44 + at, Len: n, Kind: mem.Device, Free: func() {
		fakeGPU.Lock()
		defer fakeGPU.Unlock()
		delete(fakeGPU.out, at)
	}}).Buffer()
}

// noneOut waits until all of it has been released.
func noneOut(t *testing.T, r *rig) {
	t.Helper()
	for {
		fakeGPU.Lock()
		n := len(fakeGPU.out)
		fakeGPU.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-r.ctx.Done():
			t.Fatalf("%d buffers are still out", n)
		}
	}
}

var (
	onDevice = client.Func("device.make", func(_ context.Context, n int) (*wire.DeviceArray, error) {
		return wire.NewDeviceArray[float64](fakeAlloc(8 * n))
	})
	sameArray = client.Func("device.same", func(_ context.Context, a *wire.DeviceArray) (*wire.DeviceArray, error) {
		return a, nil
	})
	failArray = client.Func("device.fail", func(_ context.Context, a *wire.DeviceArray) (int, error) {
		return 0, errors.New("no")
	})
	manyArrays = client.Func("device.many", func(_ context.Context, n int) (map[string]*wire.DeviceArray, error) {
		out := map[string]*wire.DeviceArray{}
		for i := range n {
			a, err := wire.NewDeviceArray[int32](fakeAlloc(4*(i+1)), 1, i+1)
			if err != nil {
				return nil, err
			}
			out[string(rune('a'+i))] = a
		}
		return out, nil
	})
	lengths = client.Func("device.lengths", func(_ context.Context, list []*wire.DeviceArray) ([]int, error) {
		var out []int
		for _, a := range list {
			if !a.Frame.OnDevice() {
				return nil, errors.New("it is not on the device")
			}
			out = append(out, a.Buffer().Len())
		}
		return out, nil
	})
	onHeap = client.Func("device.heap", func(_ context.Context, n int) (*wire.DeviceArray, error) {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		return &wire.DeviceArray{DType: wire.Uint8, Shape: []int{n}, Frame: wire.HeapFrame(b).WithCUDA()}, nil
	})
)

// Results in device memory go through tasks on both workers and to the client, and their memory is released when they
// are no longer referenced: not before, and not twice.
func TestDeviceResults(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	at := func(i int) client.Option { return client.WithWorkers(r.workers[i].Address()) }
	arrays := make([]*client.Future[*wire.DeviceArray], 8)
	want := make([]int, len(arrays))
	for i := range arrays {
		arrays[i] = onDevice.Submit(r.ctx, r.c, client.Val(10+i), at(0), client.WithImpure())
		want[i] = 8 * (10 + i)
	}
	got, err := lengths.Submit(r.ctx, r.c, client.ListOf(arrays), at(1)).Result(r.ctx)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	same := sameArray.Submit(r.ctx, r.c, arrays[2], at(0)) // on the worker that has it: no copy
	again := sameArray.Submit(r.ctx, r.c, same, at(1))
	a, err := again.Result(r.ctx)
	if err != nil || a.Buffer().Len() != want[2] {
		t.Fatalf("got %v, %v, want an array of %d bytes", a, err, want[2])
	}
	if _, err := failArray.Submit(r.ctx, r.c, arrays[1], at(1)).Result(r.ctx); err == nil {
		t.Error("failing task: got nil, want an error")
	}
	many := manyArrays.Submit(r.ctx, r.c, client.Val(3), at(1))
	m, err := many.Result(r.ctx)
	if err != nil || len(m) != 3 || m["c"].Buffer().Len() != 12 || !slices.Equal(m["b"].Shape, []int{1, 2}) {
		t.Fatalf("got %v, %v, want three arrays", m, err)
	}
	client.ReleaseAll(arrays)
	same.Release()
	again.Release()
	many.Release()
	if a.Buffer().Len() != want[2] || m["a"].Buffer().Len() != 4 { // panics if the memory was released
		t.Error("gathered buffers have other lengths than those sent")
	}
	a.Release()
	task.Release(m)
	noneOut(t, r)
	for _, tr := range r.workers[1].Transfers() {
		if tr.Incoming && tr.DeviceBytes == 0 {
			t.Errorf("incoming transfer without device bytes: %+v", tr)
		}
	}
}

// A client and a scheduler without a GPU receive device arrays in host memory, and pass them on.
func TestDeviceResultsWithoutGPU(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		for _, noDirect := range []bool{false, true} {
			c, err := client.Connect(r.ctx, r.scheduler.Address(), client.Config{Logger: quiet, NoDirect: noDirect})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 100_000} {
				x := onHeap.Submit(r.ctx, c, client.Val(n), client.WithWorkers(r.workers[0].Address()))
				x = sameArray.Submit(r.ctx, c, x, client.WithWorkers(r.workers[1].Address()))
				a, err := x.Result(r.ctx)
				if err != nil {
					t.Fatal(err)
				}
				b := a.Frame.Bytes()
				if len(b) != n || !a.Frame.CUDA() || b[n-1] != byte((n-1)*7) || a.DType != wire.Uint8 {
					t.Errorf("%d bytes: %+v", n, a)
				}
				a.Release()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
