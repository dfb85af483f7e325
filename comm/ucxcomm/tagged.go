package ucxcomm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/ucx"
)

// tagged is a socket connection of UCX whose ends have exchanged tags: an endpoint in UCXX's terms.
type taggedEndpoint struct {
	*ucx.UCXXEndpoint
	send, recv         uint64 // tags of messages
	sideSend, sideRecv uint64 // further tags that distributed-ucxx does not use
}

// sideHash is the number of the tags of a control.
const sideHash = 0x4d73

func newTaggedEndpoint(ep *ucx.UCXXEndpoint, send, recv uint64) *taggedEndpoint {
	return &taggedEndpoint{
		UCXXEndpoint: ep, send: send, recv: recv,
		sideSend: ucxxwire.UserTag(send, sideHash), sideRecv: ucxxwire.UserTag(recv, sideHash),
	}
}

func (m *taggedEndpoint) raw() *ucx.Endpoint { return m.Endpoint() }

func (m *taggedEndpoint) startSend(v ucx.View) *ucx.Request {
	return m.StartSend(v, ucx.ForceTag(m.send))
}
func (m *taggedEndpoint) startRecv(v ucx.View) *ucx.Request {
	return m.StartRecv(v, ucx.ForceTag(m.recv))
}

// dialTagged connects to a listener over tagged messages.
func dialTagged(ctx context.Context, w *ucx.Worker, hostport string) (*taggedEndpoint, error) {
	ep, err := w.DialUCXX(ctx, hostport)
	if err != nil {
		return nil, err
	}
	send, recv := ep.Tags()
	return newTaggedEndpoint(ep, send, recv), nil
}

// receive accepts a peer and exchanges tags. It is the handshake of ucx.ListenUCXX, with which a gate of package comm
// could not evict peers that only hold connections.
func receive(ctx context.Context, r *ucx.ConnRequest) (*taggedEndpoint, error) {
	ep, err := r.Accept(nil)
	if err != nil {
		return nil, err
	}
	m, err := exchangeTags(ctx, ep)
	if err != nil {
		abortEndpoint(ep)
		return nil, fmt.Errorf("ucxcomm: UCXX's handshake with %s: %w", ep.Peer(), err)
	}
	return m, nil
}

func exchangeTags(ctx context.Context, ep *ucx.Endpoint) (*taggedEndpoint, error) {
	var seed [8]byte
	_, _ = rand.Read(seed[:])
	mine := ucxxwire.PeerInfo{Tag: binary.NativeEndian.Uint64(seed[:])}
	if err := ep.SendStream(ctx, ucx.Bytes(mine.Append(nil))); err != nil {
		return nil, err
	}
	b := make([]byte, ucxxwire.PeerInfoSize)
	if _, err := ep.RecvStream(ctx, ucx.Bytes(b), true); err != nil {
		return nil, err
	}
	theirs, err := ucxxwire.DecodePeerInfo(b)
	if err != nil {
		return nil, err
	}
	u, err := ucx.NewUCXXEndpoint(ep)
	if err != nil {
		return nil, err
	}
	return newTaggedEndpoint(u, theirs.Tag, mine.Tag), nil
}

// drain drops messages of a closed connection that were not read: mostly its last messages, and announcements of large
// frames, which a receive that is too short rejects. UCX would keep them until the worker ends.
func (m *taggedEndpoint) drain() {
	w := m.raw().Worker()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for _, tag := range []uint64{m.recv, m.sideRecv} {
		for {
			_, found, err := w.Probe(tag, ucx.FullMask)
			if err != nil || !found {
				break
			}
			msg, err := w.ProbeRemove(tag, ucx.FullMask)
			if err != nil || msg == nil {
				break
			}
			if msg.StartRecv(ucx.Bytes(make([]byte, 1))).Wait(ctx) != nil && ctx.Err() != nil {
				return
			}
		}
	}
}
