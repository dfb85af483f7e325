package store

import (
	"context"
	"errors"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// FrameTier is a Tier for values whose device memory is in their frames: what came from
// Dask's "cuda" family, device arrays, and everything that was received into device memory.
// Frames that are flagged as device memory go to the device again, others stay in the host's.
type FrameTier struct {
	// Down copies a buffer of the device into host memory, Up one of the host onto the
	// device. Both return when the copy may be read, with a reference for the caller.
	Down, Up func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error)
}

// OnDevice is how many bytes of the value are on a device.
func (t *FrameTier) OnDevice(v *task.Value) int64 { return v.DeviceBytes() }

// ToHost copies the frames that are on a device.
func (t *FrameTier) ToHost(ctx context.Context, v *task.Value) (*task.Value, error) {
	return t.move(ctx, v, t.Down, wire.Frame.OnDevice)
}

// ToDevice copies the frames that are flagged as device memory and are not there.
func (t *FrameTier) ToDevice(ctx context.Context, v *task.Value) (*task.Value, error) {
	return t.move(ctx, v, t.Up, func(f wire.Frame) bool { return f.CUDA() && !f.OnDevice() && f.Len() > 0 })
}

func (t *FrameTier) move(ctx context.Context, v *task.Value, copyOf func(context.Context, *mem.Buffer) (*mem.Buffer,
	error), which func(wire.Frame) bool) (*task.Value, error) {
	if copyOf == nil {
		return nil, errors.New("worker/store: a FrameTier without Down and Up")
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
