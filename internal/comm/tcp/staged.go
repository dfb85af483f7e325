package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Between Millstream peers that both support staged-1, the length of a frame in the prelude carries two flags in its
// highest bits, which no length needs.
const (
	flagCUDA   = 1 << 63 // the frame is, or was, memory of a GPU
	flagSpread = 1 << 62 // its chunks are spread over the comm's stripes

	// The same flags as stored per frame.
	isCUDA   = 1
	isSpread = 2
)

// spreadFrom is the length from which a frame is spread over several connections.
const spreadFrom = 2 * staging.Unit

// stage specifies how the frames on GPUs of a message are sent.
type stage struct {
	engines []*staging.Engine // by frame; nil for those in host memory
	lines   []*conn           // nil: only the comm's own connection
}

// spread reports whether frame i is sent over all stripes.
func (s *stage) spread(m *wire.Message, i int) bool {
	return s.engines[i] != nil && s.lines != nil && m.Frames[i].Len() >= spreadFrom
}

// plan checks a message before anything of it is sent, and returns how its frames on GPUs are sent, nil if it has none.
func (c *conn) plan(m *wire.Message) (*stage, error) {
	if len(m.Frames) == 0 {
		return nil, errors.New("comm: write: message without a body")
	}
	var s *stage
	for i, f := range m.Frames {
		if !f.OnDevice() {
			continue
		}
		if c.staged.Mode == comm.StagedOff {
			return nil, fmt.Errorf("comm: write: frame %d is GPU memory, and sending it through host memory "+
				"is disabled (millstream.comm.staged): copy it to the host, or use ucxx://", i)
		}
		if s == nil {
			s = &stage{engines: make([]*staging.Engine, len(m.Frames)), lines: c.stripes.get()}
		}
		var err error
		if s.engines[i], err = staging.ForDevice(f.Buffer().Device()); err != nil {
			return nil, fmt.Errorf("comm: write: frame %d is GPU memory: %w", i, err)
		}
	}
	return s, nil
}

// flagFrames sets the flags of lengths in a prelude.
func flagFrames(prelude []byte, m *wire.Message, s *stage) {
	for i, f := range m.Frames {
		if !f.CUDA() {
			continue
		}
		at := prelude[framing.HeadSize+8*(1+i):]
		n := binary.LittleEndian.Uint64(at) | flagCUDA
		if s != nil && s.spread(m, i) {
			n |= flagSpread
		}
		binary.LittleEndian.PutUint64(at, n)
	}
}

// takeFlags removes the flags from the lengths of a prelude of n frames, without its head, and returns them. A frame
// that is spread is one on a GPU.
func takeFlags(table []byte, n int) (flags map[int]byte, err error) {
	for i := range n {
		at := table[8*(1+i):]
		k := binary.LittleEndian.Uint64(at)
		if k&(flagCUDA|flagSpread) == 0 {
			continue
		}
		if k&flagCUDA == 0 {
			return nil, fmt.Errorf("comm: length of frame %d has invalid flags", i)
		}
		if flags == nil {
			flags = map[int]byte{}
		}
		flags[i] = isCUDA
		if k&flagSpread != 0 {
			flags[i] |= isSpread
		}
		binary.LittleEndian.PutUint64(at, k&^(flagCUDA|flagSpread))
	}
	return flags, nil
}

// sendStaged writes a message with frames on GPUs, and returns whether anything was sent (1) or not.
func (c *conn) sendStaged(ctx context.Context, m *wire.Message, s *stage) (int64, error) {
	head := framing.Append(nil, m, framing.Joined(m))
	if c.flags {
		flagFrames(head, m, s)
	}
	own := []staging.Writer{staging.ToWriter(c.nc)}
	all := own
	for _, l := range s.lines {
		all = append(all, staging.ToWriter(l.nc))
	}
	pieces := net.Buffers{head} // of host memory, to be written
	for i, f := range m.Frames {
		if s.engines[i] == nil {
			pieces = append(pieces, f.Bytes())
			continue
		}
		if n, err := pieces.WriteTo(c.nc); err != nil {
			if i > 0 || n > 0 {
				n = 1
			}
			return n, err
		}
		pieces = nil
		over := own
		if c.flags && s.spread(m, i) {
			over = all
		}
		if err := s.engines[i].Send(ctx, f.Buffer(), over, c.cut); err != nil {
			return 1, err
		}
	}
	_, err := pieces.WriteTo(c.nc)
	return 1, err
}

// cut ends waits for the comm's connections: the message in progress is lost, and the comm with it.
func (c *conn) cut() {
	abortAll(c.stripes.get())
	_ = c.nc.SetDeadline(past)
}

// flagged reads a frame whose length has flags: into GPU memory if available.
func (c *conn) flagged(ctx context.Context, size int64, flags byte) (wire.Frame, error) {
	var over []*conn
	if flags&isSpread != 0 {
		if over = c.stripes.get(); over == nil {
			return wire.Frame{}, errors.New("comm: frame spread over stripes that do not exist")
		}
	}
	b, e := c.roomFor(ctx, size)
	if b == nil {
		data, err := c.spreadToHost(size, over)
		return wire.HeapFrame(data).WithCUDA(), err
	}
	readers := []staging.Reader{stripeReader{c}}
	for _, l := range over {
		readers = append(readers, stripeReader{l})
	}
	if err := e.Recv(ctx, b, readers, c.cut); err != nil {
		b.Release()
		return wire.Frame{}, err
	}
	return wire.BufferFrame(b), nil
}

// roomFor allocates GPU memory for a frame, nil if it is to be stored on the host: there is no GPU, or it is full.
func (c *conn) roomFor(ctx context.Context, size int64) (*mem.Buffer, *staging.Engine) {
	if c.device == nil || c.device.Kind() != mem.Device {
		return nil, nil
	}
	e, err := staging.ForDevice(c.device.Device())
	if err != nil {
		return nil, nil
	}
	b, err := c.device.Alloc(ctx, int(size))
	if err != nil {
		return nil, nil
	}
	return b, e
}

// stripeReader fills chunks from a connection, first from its buffer.
type stripeReader struct{ c *conn }

func (l stripeReader) Recv(_ context.Context, chunk *mem.Buffer) (staging.Pending, error) {
	return nil, l.c.full(chunk.Bytes())
}

// spreadToHost reads a frame into host memory, which grows with the received data.
func (c *conn) spreadToHost(size int64, over []*conn) ([]byte, error) {
	if over == nil {
		return c.large(size)
	}
	open := max(openStep, min(c.in.got.Load(), maxCredit))
	b := uncleared(int(min(size, open)))
	for at, i := int64(0), 0; at < size; i++ {
		end := min(at+staging.Unit, size)
		if end > int64(len(b)) {
			grown := uncleared(int(min(size, max(end, int64(len(b))*growth))))
			copy(grown, b[:at])
			b = grown
		}
		from := c
		if k := i % (len(over) + 1); k > 0 {
			from = over[k-1]
		}
		if err := from.full(b[at:end]); err != nil {
			return nil, err
		}
		at = end
	}
	return b, nil
}
