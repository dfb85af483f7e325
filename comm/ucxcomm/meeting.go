package ucxcomm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/ucx"
)

// meeting is a socket connection of UCX on which both ends know each other's tags: what
// UCXX calls an endpoint.
type meeting struct {
	*ucx.UCXXEndpoint
	send, recv         uint64 // tags of messages
	sideSend, sideRecv uint64 // tags beside them that distributed-ucxx does not use
}

// sideHash is the number of the tags of a tether.
const sideHash = 0x4d73

func newMeeting(ep *ucx.UCXXEndpoint, send, recv uint64) *meeting {
	return &meeting{
		UCXXEndpoint: ep, send: send, recv: recv,
		sideSend: ucxxwire.UserTag(send, sideHash), sideRecv: ucxxwire.UserTag(recv, sideHash),
	}
}

func (m *meeting) raw() *ucx.Endpoint { return m.Endpoint() }

func (m *meeting) startSend(v ucx.View) *ucx.Request { return m.StartSend(v, ucx.ForceTag(m.send)) }
func (m *meeting) startRecv(v ucx.View) *ucx.Request { return m.StartRecv(v, ucx.ForceTag(m.recv)) }

// meet dials.
func meet(ctx context.Context, w *ucx.Worker, hostport string) (*meeting, error) {
	ep, err := w.DialUCXX(ctx, hostport)
	if err != nil {
		return nil, err
	}
	send, recv := ep.Tags()
	return newMeeting(ep, send, recv), nil
}

// receive lets a peer in and exchanges tags. It is ucx.ListenUCXX's handshake, beside
// which a gate of package comm could not push out those who only hold connections.
func receive(ctx context.Context, r *ucx.ConnRequest) (*meeting, error) {
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

func exchangeTags(ctx context.Context, ep *ucx.Endpoint) (*meeting, error) {
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
	return newMeeting(u, theirs.Tag, mine.Tag), nil
}

// drain drops what has arrived for a closed connection and was not read: its last words,
// mostly, and announcements of large frames, which a receive that is too short refuses.
// UCX would keep them until the worker ends.
func (m *meeting) drain() {
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
