package task

import (
	"bytes"
	"context"
	"errors"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Device is the GPU of a worker, as its tasks use it. It is the worker's: a task closes
// nothing of it.
type Device struct {
	// Ordinal is the GPU's number in this process: 0 in a worker that was started with one.
	Ordinal int
	// UUID and Name are the GPU's, as nvidia-smi -L prints them.
	UUID, Name string
	// Memory allocates on the GPU, as the worker was told to: from its pool, if it has one
	// (--rmm-pool-size and others). An allocation that would take more than
	// --device-memory-limit sends results that nobody uses to the host's memory first. What a
	// task returns should come from here: it is then counted once, and one registration serves
	// all transfers.
	Memory mem.Resource
	// Pinned allocates page-locked host memory, which the GPU copies from and to at full speed.
	Pinned mem.Resource
	// Stream takes the tasks' work; cuda.StreamOf(d.Stream) returns it with the methods that enqueue copies and
	// kernels. Tasks that run at once share it; one that must not wait for another makes its own with cuda.NewStream.
	Stream mem.Stream
}

// ErrNoDevice is returned when a function that needs a GPU is called on a worker without one.
var ErrNoDevice = errors.New("task: the worker has no GPU: start it with millstream cuda-worker or cluster.LocalCUDA")

// CurrentDevice is the GPU of the worker that runs the task whose context it is. The error is
// ErrNoDevice in a worker without one, ErrOutside where there is no task.
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

// DeviceBytes is how many bytes of GPU memory a value holds, in its live form if it is there,
// else in its frames. It encodes nothing.
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

// bufferArray is a buffer as Python knows it, RMM's DeviceBuffer. It borrows the buffer's reference.
func bufferArray(b *mem.Buffer) *wire.DeviceArray {
	return &wire.DeviceArray{Class: wire.RMMBuffer, DType: wire.Uint8, Shape: []int{b.Len()},
		Frame: wire.BufferFrame(b).WithCUDA()}
}

// arrayBuffer is the memory of a device array with a reference of its own: a copy on Go's heap if
// it arrived there.
func arrayBuffer(a *wire.DeviceArray) *mem.Buffer {
	if b := a.Buffer(); b != nil {
		return b.Retain()
	}
	return mem.FromBytes(bytes.Clone(a.Frame.Bytes()))
}
