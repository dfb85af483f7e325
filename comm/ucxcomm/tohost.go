package ucxcomm

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// hostLink is a data connection to a peer that receives everything into host memory and whose transports cannot access
// GPU memory: a scheduler or a client on a machine without a GPU. UCX would have to move GPU memory to a process
// without CUDA, and such a message was seen never to arrive. So this side copies it to host memory first.
type hostLink struct{ *dataLink }

// deviceFeature in a hello announces that its sender receives frames into GPU memory.
const deviceFeature = "ucx-device-1"

// takesDevice reports whether this side does.
func (c *conn) takesDevice() bool { return c.device != nil && c.device.Kind() == mem.Device }

// copyDown is copier.ToHost, except in tests.
var copyDown = copier.ToHost

func (l *hostLink) write(ctx context.Context, m *wire.Message) error {
	if !onDevice(m) {
		return l.dataLink.write(ctx, m)
	}
	// Queried here and not earlier: the transports are complete after the first messages.
	if transports, err := l.ep.Transports(); err == nil && forDevices(transports) {
		return l.dataLink.write(ctx, m)
	}
	host, err := l.toHost(ctx, m)
	if err != nil {
		return &idleError{err}
	}
	defer host.Release()
	return l.dataLink.write(ctx, host)
}

// toHost returns the message with its frames in host memory. They stay flagged as GPU memory, so that a later receiver
// with a GPU can use it.
func (l *hostLink) toHost(ctx context.Context, m *wire.Message) (*wire.Message, error) {
	out := &wire.Message{Frames: make([]wire.Frame, 0, len(m.Frames))}
	for _, f := range m.Frames {
		if !f.OnDevice() {
			out.Frames = append(out.Frames, f.Retain())
			continue
		}
		data := make([]byte, f.Len())
		if err := copyDown(ctx, data, f.Buffer()); err != nil {
			out.Release()
			return nil, fmt.Errorf("ucxcomm: copy of %d bytes from a GPU for a peer without one: %w", f.Len(), err)
		}
		out.Frames = append(out.Frames, wire.BufferFrame(mem.FromBytes(data)).WithCUDA())
	}
	return out, nil
}
