package ucxcomm

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

const (
	// stripedFrom is the length in bytes from which frames in host memory are sent over stripes.
	stripedFrom = 4 << 20
	// stripeChunk is the length in bytes of the pieces of such frames. Chunk i of a message is sent over stripe i
	// modulo their number, so that no chunk needs a header.
	stripeChunk = 2 << 20
	// stripedMark is the byte after the empty frame of a message with such frames. It is followed by their table, as
	// after stagedMark. The message itself is sent by UCX, and keeps its place among the others.
	stripedMark = 3
)

func isStriped(f wire.Frame) bool { return f.Len() >= stripedFrom }

// stripesFor returns the stripes over which frames of a message are sent, nil if UCX sends all.
func (l *dataLink) stripesFor(m *wire.Message) []net.Conn {
	if l.large == nil || len(m.Frames) > dataFrames-3 || !slices.ContainsFunc(m.Frames, isStriped) || onDevice(m) {
		return nil
	}
	return l.large.get()
}

// writeStriped sends a message whose large frames are sent over stripes. It returns when the peer has received them, as
// for large frames that UCX sends.
func (l *dataLink) writeStriped(ctx context.Context, m *wire.Message, stripes []net.Conn) error {
	if err := ready(ctx, m); err != nil { // copies from a GPU that have not ended
		return &idleError{err}
	}
	var table []byte
	var parts [][]byte
	views := []ucx.View{ucx.Bytes(nil), ucx.Bytes([]byte{stripedMark}), {}}
	for i, f := range m.Frames {
		if !isStriped(f) {
			views = append(views, view(f))
			continue
		}
		table = binary.LittleEndian.AppendUint32(table, uint32(i))
		table = binary.LittleEndian.AppendUint64(table, uint64(f.Len()))
		parts = append(parts, f.Bytes())
	}
	views[2] = ucx.Bytes(table)
	number := l.large.number()
	if err := l.send(ctx, views); err != nil {
		return err
	}
	err := l.large.move(ctx, stripes, parts, func(c net.Conn, b []byte) error {
		_, err := c.Write(b)
		return err
	})
	if err == nil {
		err = l.large.awaitDelivery(ctx, number)
	}
	if err != nil {
		l.large.end()
		abortEndpoint(l.ep)
	}
	return err
}

// readStriped returns the message whose other frames arrived over the data connection, and takes ownership of these.
// After an error the comm cannot be used.
func (l *dataLink) readStriped(ctx context.Context, frames ucx.Frames, b bounds) (*wire.Message, error) {
	if l.large == nil {
		frames.Release()
		return nil, errNoStripes
	}
	rest := message(frames[3:])
	list, err := parseStaged(frames[2].Bytes(), len(rest.Frames), rest.Size(), b)
	frames[:3].Release()
	var m *wire.Message
	if err == nil {
		m, err = l.receiveStriped(ctx, list, b)
	}
	if err != nil {
		rest.Release()
		l.large.end()
		return nil, err
	}
	all := &wire.Message{Frames: make([]wire.Frame, 0, len(rest.Frames)+len(list))}
	for i, s := range list {
		n := s.index - len(all.Frames)
		all.Frames = append(append(all.Frames, rest.Frames[:n]...), m.Frames[i])
		rest.Frames = rest.Frames[n:]
	}
	all.Frames = append(all.Frames, rest.Frames...)
	return all, nil
}

// receiveStriped receives the frames of a table. Their memory is allocated in advance, within the bounds for announced
// data.
func (l *dataLink) receiveStriped(ctx context.Context, list []stagedFrame, b bounds) (*wire.Message, error) {
	stripes, err := l.large.await(ctx)
	if err != nil {
		return nil, err
	}
	var bufs ucx.Frames
	parts := make([][]byte, 0, len(list))
	for _, s := range list {
		if err = b.reserve(ctx, int(s.size)); err != nil {
			break
		}
		var buf *mem.Buffer
		if buf, err = l.allocHost(ctx, int(s.size)); err != nil {
			break
		}
		bufs = append(bufs, buf)
		parts = append(parts, buf.Bytes())
	}
	if err == nil {
		err = l.large.move(ctx, stripes, parts, func(c net.Conn, b []byte) error {
			_, err := io.ReadFull(c, b)
			return err
		})
	}
	if err != nil {
		bufs.Release()
		return nil, err
	}
	l.large.confirm()
	return message(bufs), nil
}

// allocHost allocates memory for a frame, whose bytes are all received or dropped.
func (l *dataLink) allocHost(ctx context.Context, n int) (*mem.Buffer, error) {
	if l.host != nil {
		return l.host.Alloc(ctx, n)
	}
	return mem.FromBytes(rawmem.Alloc(n)), nil
}

// move sends or receives the parts of a message over the stripes. It returns when no stripe uses the memory any more.
// When ctx ends or a stripe fails, the stripes are closed, and the comm cannot be used.
func (h *hostStripes) move(ctx context.Context, stripes []net.Conn, parts [][]byte,
	each func(net.Conn, []byte) error) error {
	chunks := 0
	for _, p := range parts {
		chunks += (len(p) + stripeChunk - 1) / stripeChunk
	}
	stop := context.AfterFunc(ctx, h.end)
	var first error
	var failed sync.Once
	run := func(stripe int) {
		if err := moveStripe(stripes[stripe], stripe, len(stripes), parts, each); err != nil {
			failed.Do(func() { first = err })
			h.end() // the others return
		}
	}
	var others sync.WaitGroup
	for i := 1; i < min(len(stripes), chunks); i++ {
		others.Go(func() { run(i) })
	}
	run(0)
	others.Wait()
	if !stop() { // the stripes are closed, or about to be
		return context.Cause(ctx)
	}
	if first != nil {
		return fmt.Errorf("stripe failed in the middle of a frame: %w", first)
	}
	return nil
}

// moveStripe calls each with the chunks of one stripe, in order.
func moveStripe(c net.Conn, stripe, stripes int, parts [][]byte, each func(net.Conn, []byte) error) error {
	next := 0
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), stripeChunk)
			if next%stripes == stripe {
				if err := each(c, p[:n]); err != nil {
					return err
				}
			}
			p = p[n:]
			next++
		}
	}
	return nil
}

// number returns the number of a striped message that is about to be sent.
func (h *hostStripes) number() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent++
	return h.sent
}

// awaitDelivery waits until the peer has received a message.
func (h *hostStripes) awaitDelivery(ctx context.Context, number uint64) error {
	for {
		h.mu.Lock()
		delivered := h.delivered >= number
		h.mu.Unlock()
		if delivered {
			return nil
		}
		select {
		case <-h.acked:
		case <-h.ctx.Done():
			return fmt.Errorf("comm ended before a frame was delivered: %w", orClosed(h.ep.Err()))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// confirm reports to the peer that a message was received. It does not block. Only the reader of the comm calls it.
func (h *hostStripes) confirm() {
	h.received++
	h.post(stripeMessage{kind: stripesDelivered, count: h.received})
}
