package task

import (
	"bytes"
	"context"
	"errors"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Device is the GPU of a worker for use by its tasks. The worker owns it: tasks must not close any part of it.
type Device struct {
	// Ordinal is the index of the GPU in this process: 0 in a worker that was started with one GPU.
	Ordinal int
	// UUID and Name are those of the GPU, as nvidia-smi -L prints them.
	UUID, Name string
	// Memory allocates on the GPU, from the pool of the worker if it has one (--rmm-pool-size and others). An
	// allocation that would exceed --device-memory-limit first moves results that no task uses to host memory. Results
	// of a task should be allocated from it: they are then counted once, and one registration serves all transfers.
	Memory mem.Resource
	// Pinned allocates page-locked host memory, which the GPU copies at full speed.
	Pinned mem.Resource
	// Stream is the stream of the tasks; cuda.StreamOf(d.Stream) returns it with the methods that enqueue copies and
	// kernels. Concurrent tasks share it; a task that must not wait for others creates its own with cuda.NewStream.
	Stream mem.Stream
}

// ErrNoDevice is returned when a function that needs a GPU is called on a worker without one.
var ErrNoDevice = errors.New("task: worker has no GPU; start it with millstream cuda-worker or cluster.LocalCUDA")

// CurrentDevice returns the GPU of the worker that runs the task whose context is ctx. It returns ErrNoDevice on a
// worker without a GPU and ErrOutside outside a task.
//
//	d, err := task.CurrentDevice(ctx)
//	if err != nil {
//		return nil, err
//	}
//	b, err := d.Memory.Alloc(ctx, 4*n)
func CurrentDevice(ctx context.Context) (*Device, error) {
	i := FromContext(ctx)
	switch {
	case i == nil || i.Host == nil:
		return nil, ErrOutside
	case i.Host.Device == nil:
		return nil, ErrNoDevice
	}
	return i.Host.Device, nil
}

// DeviceBytes returns the size in bytes of the GPU memory that a value holds, in its live form if present, otherwise in
// its frames. It encodes nothing.
func (v *Value) DeviceBytes() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	var n int64
	add := func(frames ...wire.Frame) {
		for _, f := range frames {
			if f.OnDevice() {
				n += int64(f.Len())
			}
		}
	}
	switch {
	case v.decoded:
		eachCounted(v.live, func(x any) {
			switch x := x.(type) {
			case *wire.DeviceArray:
				add(x.Frame)
			case *mem.Buffer:
				if x.Kind() == mem.Device {
					n += int64(x.Len())
				}
			case *wire.Object:
				add(x.Frames...)
			case *wire.Serialized:
				add(x.Frames...)
			}
		})
	case v.encoded != nil:
		add(v.encoded.Frames...)
	}
	return n
}

// bufferArray returns a buffer as an array that Python receives as an RMM DeviceBuffer. It borrows the reference of the
// buffer.
func bufferArray(b *mem.Buffer) *wire.DeviceArray {
	return &wire.DeviceArray{Class: wire.RMMBuffer, DType: wire.Uint8, Shape: []int{b.Len()},
		Frame: wire.BufferFrame(b).WithCUDA()}
}

// arrayBuffer returns the memory of a device array with a separate reference: a copy on the Go heap if it was received
// there.
func arrayBuffer(a *wire.DeviceArray) *mem.Buffer {
	if b := a.Buffer(); b != nil {
		return b.Retain()
	}
	return mem.FromBytes(bytes.Clone(a.Frame.Bytes()))
}
