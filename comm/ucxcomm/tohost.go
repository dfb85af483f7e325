package ucxcomm

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// hostLink is a lane to a peer that takes everything into host memory and whose lanes cannot
// touch a GPU's: a scheduler or a client on a machine without one. UCX would have to move GPU
// memory to a process that has no CUDA, and such a message was seen never to arrive. So this
// side copies it to host memory first, and the peer gets what it would have asked for anyway.
type hostLink struct{ *laneLink }

// deviceFeature in a hello says that its sender takes frames onto a GPU.
const deviceFeature = "ucx-device-1"

// takesDevice reports whether this side does.
func (c *conn) takesDevice() bool { return c.device != nil && c.device.Kind() == mem.Device }

// copyDown is copier.ToHost, but in tests.
var copyDown = copier.ToHost

func (l *hostLink) write(ctx context.Context, m *wire.Message) error {
	if !onDevice(m) {
		return l.laneLink.write(ctx, m)
	}
	// Asked here and not before: a lane is complete with its first messages.
	if lanes, err := l.ep.Transports(); err == nil && forDevices(lanes) {
		return l.laneLink.write(ctx, m)
	}
	host, err := l.toHost(ctx, m)
	if err != nil {
		return &idleError{err}
	}
	defer host.Release()
	return l.laneLink.write(ctx, host)
}

// toHost is the message with its frames in host memory. They stay flagged as a GPU's, so that
// they go there again where there is one.
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
			return nil, fmt.Errorf("ucxcomm: %d bytes of a GPU for a peer without one: %w", f.Len(), err)
		}
		out.Frames = append(out.Frames, wire.BufferFrame(mem.FromBytes(data)).WithCUDA())
	}
	return out, nil
}
