package store

import (
	"context"
	"errors"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// FrameTier is a Tier for values whose device memory is in their frames: those of the Dask family "cuda", device
// arrays, and all data received into device memory. Frames that are flagged as device memory are moved back to the
// device, others stay in host memory.
type FrameTier struct {
	// Down copies a buffer of the device into host memory, Up one of the host to the device. Both return when the copy
	// may be read, with a reference for the caller.
	Down, Up func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error)
}

// OnDevice returns the number of bytes of the value on a device.
func (t *FrameTier) OnDevice(v *task.Value) int64 { return v.DeviceBytes() }

// ToHost returns a copy of v with its device frames in host memory.
func (t *FrameTier) ToHost(ctx context.Context, v *task.Value) (*task.Value, error) {
	return t.move(ctx, v, t.Down, wire.Frame.OnDevice)
}

// ToDevice returns a copy of v with the frames on the device that are flagged as device memory.
func (t *FrameTier) ToDevice(ctx context.Context, v *task.Value) (*task.Value, error) {
	return t.move(ctx, v, t.Up, func(f wire.Frame) bool { return f.CUDA() && !f.OnDevice() && f.Len() > 0 })
}

func (t *FrameTier) move(ctx context.Context, v *task.Value, copyOf func(context.Context, *mem.Buffer) (*mem.Buffer,
	error), which func(wire.Frame) bool) (*task.Value, error) {
	if copyOf == nil {
		return nil, errors.New("worker/store: FrameTier without Down and Up")
	}
	from, err := v.Retained()
	if err != nil {
		return nil, err
	}
	defer from.Release()
	out := &wire.Serialized{Header: from.Header, Frames: make([]wire.Frame, 0, len(from.Frames))}
	for _, f := range from.Frames {
		if !which(f) {
			out.Frames = append(out.Frames, f.Retain())
			continue
		}
		b := f.Buffer()
		if b == nil {
			b = mem.FromBytes(f.Bytes())
		}
		moved, err := copyOf(ctx, b)
		if err != nil {
			out.Release()
			return nil, err
		}
		out.Frames = append(out.Frames, wire.BufferFrame(moved).WithCUDA())
	}
	return task.NewEncoded(out), nil
}
