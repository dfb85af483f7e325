package ucxcomm

import (
	"encoding/binary"
	"fmt"
)

// Messages about stripes for frames in host memory, on the control channel after the kind 'S':
//
//	u8 0: declined: UCX sends all frames
//	u8 1: the dialing side requests an offer
//	u8 2, u16 port, 16 bytes token: offer of the listening side
//	u8 3: the dialing side has opened the stripes
//	u8 4, u64 number of striped messages that were received so far
type stripeMessage struct {
	kind  byte
	port  uint16
	token [stripeToken]byte
	count uint64
}

const (
	stripesDeclined = iota
	stripesRequest
	stripesOffer
	stripesJoined
	stripesDelivered

	// stripeToken is the length of a token in bytes.
	stripeToken = 16
)

// append appends the message without the kind of the control channel.
func (m stripeMessage) append(b []byte) []byte {
	b = append(b, m.kind)
	switch m.kind {
	case stripesOffer:
		b = binary.LittleEndian.AppendUint16(b, m.port)
		b = append(b, m.token[:]...)
	case stripesDelivered:
		b = binary.LittleEndian.AppendUint64(b, m.count)
	}
	return b
}

// parseStripeMessage parses what append writes.
func parseStripeMessage(b []byte) (m stripeMessage, err error) {
	if len(b) == 0 || b[0] > stripesDelivered {
		return m, fmt.Errorf("%w: invalid message about stripes", errControl)
	}
	m.kind = b[0]
	size := 1
	switch m.kind {
	case stripesOffer:
		size = 1 + 2 + stripeToken
	case stripesDelivered:
		size = 1 + 8
	}
	if len(b) != size {
		return m, fmt.Errorf("%w: message %d about stripes has %d bytes, want %d", errControl, m.kind, len(b), size)
	}
	switch m.kind {
	case stripesOffer:
		m.port = binary.LittleEndian.Uint16(b[1:])
		copy(m.token[:], b[3:])
	case stripesDelivered:
		m.count = binary.LittleEndian.Uint64(b[1:])
	}
	return m, nil
}
