package collective

import (
	"encoding/binary"
	"fmt"
)

// Between two ranks Send and Recv talk in envelopes, on a channel of their own: tags of 64 bits are matched here and
// not by the transport, whose tags are shorter. Small data is in its envelope; for more the sender asks, and sends when
// the receiver has memory for it, so that nothing piles up.

const (
	envEager byte = 1 + iota // the data follows
	envAsk                   // of length, in slot
	envGo                    // answer to envAsk: send it
	envNo                    // answer: the receiver has room for only length bytes
)

const (
	envelopeLen = 24
	// eagerMax is the most that travels in an envelope.
	eagerMax = 8 << 10
	// slots is how many large messages of one rank to another may be under way.
	slots = 256
)

type envelope struct {
	kind   byte
	slot   uint8
	tag    uint64
	length uint64
	data   []byte // of envEager
}

func (e *envelope) append(b []byte) []byte {
	b = append(b, e.kind, e.slot, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, e.tag)
	b = binary.LittleEndian.AppendUint64(b, e.length)
	return append(b, e.data...)
}

// parseEnvelope reads what another process has sent. data borrows from b.
func parseEnvelope(b []byte) (e envelope, err error) {
	if len(b) < envelopeLen {
		return e, fmt.Errorf("envelope of %d bytes", len(b))
	}
	e = envelope{kind: b[0], slot: b[1], tag: binary.LittleEndian.Uint64(b[8:]),
		length: binary.LittleEndian.Uint64(b[16:]), data: b[envelopeLen:]}
	switch {
	case e.kind < envEager || e.kind > envNo:
		return e, fmt.Errorf("envelope of kind %d", e.kind)
	case e.kind == envEager && e.length != uint64(len(e.data)), e.kind != envEager && len(e.data) != 0:
		return e, fmt.Errorf("envelope with %d bytes for a message of %d", len(e.data), e.length)
	case e.length > maxCount:
		return e, fmt.Errorf("message of %d bytes", e.length)
	}
	return e, nil
}
