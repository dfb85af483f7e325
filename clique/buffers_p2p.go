package clique

import (
	"context"

	"go.millstream.dev/mem"
)

// Point to point on buffers. Lengths are in bytes: what came decides, not what was expected.

// bytesOf is the memory of a buffer, nothing of none.
func bytesOf(b *mem.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}

// onDevice reports whether the host does not reach a buffer.
func onDevice(b *mem.Buffer) bool { return b != nil && !b.Kind().HostAccessible() }

// StartSend is Send as a Request.
func (r *Rank) StartSend(ctx context.Context, to int, tag uint64, b *mem.Buffer) (*Request, error) {
	h, err := hold(ctx, b)
	if err != nil {
		return nil, err
	}
	if onDevice(b) {
		return h.after(r.g.StartSendDevice(ctx, to, tag, b)), nil
	}
	return h.after(r.g.StartSend(ctx, to, tag, bytesOf(b))), nil
}

// StartRecv is Recv as a Request, whose Len is what came.
func (r *Rank) StartRecv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (*Request, error) {
	h, err := hold(ctx, b)
	if err != nil {
		return nil, err
	}
	if onDevice(b) {
		return h.after(r.g.StartRecvDevice(ctx, from, tag, b)), nil
	}
	return h.after(r.g.StartRecv(ctx, from, tag, bytesOf(b))), nil
}

// Send is the function Send on a buffer, of the host or of a GPU. The other rank may receive
// into memory of another sort.
func (r *Rank) Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) error {
	q, err := r.StartSend(ctx, to, tag, b)
	if err != nil {
		return err
	}
	<-q.Done() // ctx ends the operation
	return q.Err()
}

// Recv is the function Recv on a buffer, and returns how many bytes came.
func (r *Rank) Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) (int, error) {
	q, err := r.StartRecv(ctx, from, tag, b)
	if err != nil {
		return 0, err
	}
	<-q.Done()
	return q.Len(), q.Err()
}

// SendRecv is the function SendRecv on buffers, and returns how many bytes came.
func (r *Rank) SendRecv(ctx context.Context, to int, sendTag uint64, send *mem.Buffer, from int, recvTag uint64, recv *mem.Buffer) (int, error) {
	received, err := r.StartRecv(ctx, from, recvTag, recv)
	if err != nil {
		return 0, err
	}
	sent := r.Send(ctx, to, sendTag, send)
	<-received.Done()
	if sent != nil {
		return 0, sent
	}
	return received.Len(), received.Err()
}
