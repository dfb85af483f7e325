package collective

import (
	"encoding/binary"
	"fmt"
)

// Send and Recv exchange envelopes between two ranks, on a separate channel: 64-bit tags are matched here, because
// those of the transport are shorter. An envelope contains small data. For larger data the sender sends a request, and
// the data when the receiver has accepted it, so that no data accumulates.

const (
	envEager   byte = 1 + iota // contains the data
	envRequest                 // announces length bytes, in slot
	envAccept                  // reply to envRequest: send the data
	envReject                  // reply to envRequest: the receiver has room for only length bytes
)

const (
	envelopeLen = 24
	// eagerMax is the maximum size of data in an envelope.
	eagerMax = 8 << 10
	// slots is the maximum number of large messages in flight from one rank to another.
	slots = 256
)

type envelope struct {
	kind   byte
	slot   uint8
	tag    uint64
	length uint64
	data   []byte // for envEager
}

func (e *envelope) append(b []byte) []byte {
	b = append(b, e.kind, e.slot, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, e.tag)
	b = binary.LittleEndian.AppendUint64(b, e.length)
	return append(b, e.data...)
}

// parseEnvelope decodes an envelope of another process. data aliases b.
func parseEnvelope(b []byte) (e envelope, err error) {
	if len(b) < envelopeLen {
		return e, fmt.Errorf("envelope has %d bytes", len(b))
	}
	e = envelope{kind: b[0], slot: b[1], tag: binary.LittleEndian.Uint64(b[8:]),
		length: binary.LittleEndian.Uint64(b[16:]), data: b[envelopeLen:]}
	switch {
	case e.kind < envEager || e.kind > envReject:
		return e, fmt.Errorf("unknown envelope kind %d", e.kind)
	case e.kind == envEager && e.length != uint64(len(e.data)), e.kind != envEager && len(e.data) != 0:
		return e, fmt.Errorf("envelope has %d bytes of data for a message of %d", len(e.data), e.length)
	case e.length > maxCount:
		return e, fmt.Errorf("message of %d bytes is too long", e.length)
	}
	return e, nil
}
