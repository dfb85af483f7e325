package collective

import (
	"context"

	"go.millstream.dev/internal/collective/transport"
	"go.millstream.dev/mem"
)

// memory is the source or the destination of a message: device memory if dev is set, else host memory.
type memory struct {
	bytes []byte
	dev   *mem.Buffer
	k     *deviceCarrier
}

// bufferTransport is implemented by a Transport that moves device memory itself. UCX does, between any two kinds of
// memory.
type bufferTransport interface {
	StartSendBuffer(to int, channel uint64, b *mem.Buffer) transport.Pending
	StartRecvBuffer(from int, channel uint64, b *mem.Buffer) transport.Pending
}

func (m memory) len() int {
	if m.dev != nil {
		return m.dev.Len()
	}
	return len(m.bytes)
}

// asBufferTransport returns the transport and true if it can move device memory to and from a rank.
func asBufferTransport(t transport.Transport, rank int) (bufferTransport, bool) {
	b, ok := t.(bufferTransport)
	return b, ok && rank != t.Rank()
}

// get returns the data of a short message.
func (m memory) get(ctx context.Context) ([]byte, error) {
	if m.dev == nil || m.dev.Len() == 0 {
		return m.bytes, nil
	}
	pinned, err := m.toHost(ctx)
	if err != nil {
		return nil, err
	}
	defer pinned.Release()
	return append([]byte(nil), pinned.Bytes()...), nil
}

// toHost returns a copy in pinned memory. The caller releases it.
func (m memory) toHost(ctx context.Context) (*mem.Buffer, error) {
	dev, err := m.k.gpu(m.dev)
	if err != nil {
		return nil, err
	}
	pinned, err := dev.pinned(ctx, m.dev.Len())
	if err != nil {
		return nil, err
	}
	e, err := dev.copy(pinned, m.dev)
	if err == nil {
		err = waitEvent(ctx, e)
	}
	if err != nil {
		pinned.Release()
		return nil, err
	}
	return pinned, nil
}

// put stores the data of a short message and returns its length.
func (m memory) put(ctx context.Context, data []byte) (int, error) {
	if m.dev == nil || len(data) == 0 {
		return copy(m.bytes, data), nil
	}
	dev, err := m.k.gpu(m.dev)
	if err != nil {
		return 0, err
	}
	pinned, err := dev.pinned(ctx, len(data))
	if err != nil {
		return 0, err
	}
	defer pinned.Release()
	copy(pinned.Bytes(), data)
	return m.fromHost(dev, pinned)
}

// fromHost enqueues the copy of a message into device memory and sets its ready event.
func (m memory) fromHost(dev gpu, from *mem.Buffer) (int, error) {
	to := m.dev.Slice(0, from.Len())
	defer to.Release()
	e, err := dev.copy(to, from)
	if err != nil {
		return 0, err
	}
	m.dev.SetReady(e)
	return from.Len(), nil
}

// startSend starts to send the memory.
func (m memory) startSend(ctx context.Context, t transport.Transport, to int, ch uint64) transport.Pending {
	if m.dev == nil {
		return t.StartSend(to, ch, m.bytes)
	}
	if b, ok := asBufferTransport(t, to); ok {
		return b.StartSendBuffer(to, ch, m.dev)
	}
	pinned, err := m.toHost(ctx)
	if err != nil {
		return transport.Finished{Err: err}
	}
	return &stagedMessage{p: t.StartSend(to, ch, pinned.Bytes()), pinned: pinned}
}

// startRecv starts to receive n bytes.
func (m memory) startRecv(ctx context.Context, t transport.Transport, from int, ch uint64, n int) transport.Pending {
	if m.dev == nil {
		return t.StartRecv(from, ch, m.bytes[:n])
	}
	if b, ok := asBufferTransport(t, from); ok {
		to := m.dev.Slice(0, n)
		return &deviceMessage{p: b.StartRecvBuffer(from, ch, to), view: to, m: m}
	}
	dev, err := m.k.gpu(m.dev)
	if err != nil {
		return transport.Finished{Err: err}
	}
	pinned, err := dev.pinned(ctx, n)
	if err != nil {
		return transport.Finished{Err: err}
	}
	return &stagedMessage{p: t.StartRecv(from, ch, pinned.Bytes()), pinned: pinned, to: &m, dev: dev}
}

// stagedMessage is a message that is staged through pinned memory.
type stagedMessage struct {
	p      transport.Pending
	pinned *mem.Buffer
	to     *memory // nil for a send
	dev    gpu
}

// Wait implements Pending.
func (s *stagedMessage) Wait(ctx context.Context) (int, error) {
	defer s.pinned.Release()
	n, err := s.p.Wait(ctx)
	if err != nil || s.to == nil || n == 0 {
		return n, err
	}
	from := s.pinned.Slice(0, n)
	defer from.Release()
	return s.to.fromHost(s.dev, from)
}

// deviceMessage is a receive into device memory by the transport.
type deviceMessage struct {
	p    transport.Pending
	view *mem.Buffer
	m    memory
}

// Wait implements Pending.
func (d *deviceMessage) Wait(ctx context.Context) (int, error) {
	defer d.view.Release()
	n, err := d.p.Wait(ctx)
	if err == nil {
		d.m.dev.SetReady(d.view.Ready())
	}
	return n, err
}

// Send implements Carrier. The matching Recv may be on host memory.
func (k *deviceCarrier) Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) (wait func() error) {
	return k.g.p2p.send(ctx, to, tag, memory{dev: b, k: k})
}

// Recv implements Carrier.
func (k *deviceCarrier) Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (wait func() (int, error)) {
	return k.g.p2p.recv(ctx, from, tag, memory{dev: b, k: k})
}
