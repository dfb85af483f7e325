package ucxxwire

import (
	"encoding/binary"
	"strconv"
)

// PeerInfoSize is the length in bytes of UCXX's peer info.
const PeerInfoSize = 16

// LegacyPeerInfoSize is the length in bytes of UCX-Py's peer info.
const LegacyPeerInfoSize = 24

const (
	formatPeer       = "peer info"
	formatLegacyPeer = "UCX-Py peer info"
)

// PeerInfo is what both sides of a UCXX endpoint send once over UCX's stream
// interface right after they have connected: struct "QQ" of Tag and a check value.
// The listener sends first and then receives; the client receives first and then
// sends.
type PeerInfo struct {
	// Tag is the tag on which the sender of this peer info receives.
	Tag uint64
}

// Append appends the 16 bytes of the peer info to dst.
func (p PeerInfo) Append(dst []byte) []byte {
	dst = binary.NativeEndian.AppendUint64(dst, p.Tag)
	return binary.NativeEndian.AppendUint64(dst, hashTuple1(p.Tag))
}

// DecodePeerInfo reads UCXX's peer info. It must be exactly PeerInfoSize bytes.
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

// LegacyPeerInfo is UCX-Py's peer info: struct "QQQ" of both tags and a check
// value, exchanged in the same order as PeerInfo.
type LegacyPeerInfo struct {
	// Tag is the tag on which the sender of this peer info receives messages.
	Tag uint64
	// CtrlTag is the tag on which it receives control messages (shutdown).
	CtrlTag uint64
}

// Append appends the 24 bytes of the peer info to dst.
func (p LegacyPeerInfo) Append(dst []byte) []byte {
	dst = binary.NativeEndian.AppendUint64(dst, p.Tag)
	dst = binary.NativeEndian.AppendUint64(dst, p.CtrlTag)
	return binary.NativeEndian.AppendUint64(dst, p.check())
}

func (p LegacyPeerInfo) check() uint64 {
	return hashTuple2(p.Tag, p.CtrlTag, false)
}

// DecodeLegacyPeerInfo reads UCX-Py's peer info. It must be exactly
// LegacyPeerInfoSize bytes.
func DecodeLegacyPeerInfo(b []byte) (LegacyPeerInfo, error) {
	if len(b) != LegacyPeerInfoSize {
		return LegacyPeerInfo{}, peerLength(formatLegacyPeer, len(b), LegacyPeerInfoSize)
	}
	p := LegacyPeerInfo{
		Tag:     binary.NativeEndian.Uint64(b),
		CtrlTag: binary.NativeEndian.Uint64(b[8:]),
	}
	if err := peerCheck(formatLegacyPeer, binary.NativeEndian.Uint64(b[16:]), p.check()); err != nil {
		return LegacyPeerInfo{}, err
	}
	return p, nil
}

func peerLength(format string, got, want int) error {
	return fieldErr(format, "length", "%d bytes, want %d; the peer closed early or does not speak this version", got, want)
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
