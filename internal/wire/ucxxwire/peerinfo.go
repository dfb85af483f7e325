package ucxxwire

import (
	"encoding/binary"
	"strconv"
)

// PeerInfoSize is the length in bytes of UCXX's peer info.
const PeerInfoSize = 16

const formatPeer = "peer info"

// PeerInfo is the message that both sides of a UCXX endpoint send once over UCX's stream interface right after they
// have connected: struct "QQ" of Tag and a check value. The listener sends first and then receives; the client receives
// first and then sends.
type PeerInfo struct {
	// Tag is the tag on which the sender of this peer info receives.
	Tag uint64
}

// Append appends the 16 bytes of the peer info to dst.
func (p PeerInfo) Append(dst []byte) []byte {
	dst = binary.NativeEndian.AppendUint64(dst, p.Tag)
	return binary.NativeEndian.AppendUint64(dst, hashTuple1(p.Tag))
}

// DecodePeerInfo decodes UCXX's peer info. It must be exactly PeerInfoSize bytes.
func DecodePeerInfo(b []byte) (PeerInfo, error) {
	if len(b) != PeerInfoSize {
		return PeerInfo{}, peerLength(formatPeer, len(b), PeerInfoSize)
	}
	p := PeerInfo{Tag: binary.NativeEndian.Uint64(b)}
	if err := peerCheck(formatPeer, binary.NativeEndian.Uint64(b[8:]), hashTuple1(p.Tag)); err != nil {
		return PeerInfo{}, err
	}
	return p, nil
}

func peerLength(format string, got, want int) error {
	return fieldErr(format, "length", "%d bytes, want %d; the peer closed early or does not speak this version", got,
		want)
}

func peerCheck(format string, got, want uint64) error {
	if got == want {
		return nil
	}
	return &FieldError{
		Format: format,
		Field:  "check",
		Detail: "got 0x" + strconv.FormatUint(got, 16) + ", want 0x" + strconv.FormatUint(want, 16),
		Err:    ErrChecksum,
	}
}
