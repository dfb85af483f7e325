package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Handshake: magic, version, oldest version supported, features, number of this end, release of UCX (major, minor),
// home (see Contact), lengths of name, address and network-only address, and those three.
const (
	lineMagic           = "MSUX"
	HandshakeVersion    = 2
	HandshakeMinVersion = 2
	maxPeerName         = 256
	helloFixed          = 4 + 2 + 2 + 4 + 8 + 2 + 2 + 8 + 2 + 4 + 4
)

// Hello is the handshake message of one side.
type Hello struct {
	Version, Min uint16
	Features     uint32
	Number       uint64 // number of this end
	Name         string
	Major, Minor uint16 // release of UCX
	Home         uint64
	Address, Net []byte // with their checksums; Net is empty where there is no network
}

// Append appends the handshake to b.
func (h *Hello) Append(b []byte) []byte {
	name := h.Name[:min(len(h.Name), maxPeerName)]
	b = append(b, lineMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.Version)
	b = binary.LittleEndian.AppendUint16(b, h.Min)
	b = binary.LittleEndian.AppendUint32(b, h.Features)
	b = binary.LittleEndian.AppendUint64(b, h.Number)
	b = binary.LittleEndian.AppendUint16(b, h.Major)
	b = binary.LittleEndian.AppendUint16(b, h.Minor)
	b = binary.LittleEndian.AppendUint64(b, h.Home)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Address)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Net)))
	b = append(b, name...)
	b = append(b, h.Address...)
	return append(b, h.Net...)
}

// ReadHello reads a handshake from an untrusted peer. Addresses have at most maxAddress bytes.
func ReadHello(r io.Reader, maxAddress int) (*Hello, error) {
	var fixed [helloFixed]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return nil, fmt.Errorf("ucx: handshake cut off: %w", err)
	}
	if string(fixed[:4]) != lineMagic {
		return nil, fmt.Errorf("ucx: no Millstream handshake from the peer (prefix %q); UCX listeners "+
			"are dialed with DialSocket", fixed[:4])
	}
	h := &Hello{
		Version: binary.LittleEndian.Uint16(fixed[4:]), Min: binary.LittleEndian.Uint16(fixed[6:]),
		Features: binary.LittleEndian.Uint32(fixed[8:]), Number: binary.LittleEndian.Uint64(fixed[12:]),
		Major: binary.LittleEndian.Uint16(fixed[20:]), Minor: binary.LittleEndian.Uint16(fixed[22:]),
		Home: binary.LittleEndian.Uint64(fixed[24:]),
	}
	nameLen := int(binary.LittleEndian.Uint16(fixed[32:]))
	addrLen, netLen := int(binary.LittleEndian.Uint32(fixed[34:])), int(binary.LittleEndian.Uint32(fixed[38:]))
	if h.Min > HandshakeVersion || h.Version < HandshakeMinVersion {
		return nil, fmt.Errorf("ucx: the peer supports handshake versions %d to %d, this side %d to %d; upgrade the "+
			"older one", h.Min, h.Version, HandshakeMinVersion, HandshakeVersion)
	}
	if nameLen > maxPeerName || addrLen > maxAddress || netLen > maxAddress {
		return nil, fmt.Errorf("ucx: handshake announces a name of %d and addresses of %d and %d bytes (at most "+
			"%d, %d)", nameLen, addrLen, netLen, maxPeerName, maxAddress)
	}
	rest := make([]byte, nameLen+addrLen+netLen)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, fmt.Errorf("ucx: handshake cut off: %w", err)
	}
	h.Name, h.Address, h.Net = string(rest[:nameLen]), rest[nameLen:nameLen+addrLen], rest[nameLen+addrLen:]
	return h, nil
}

// WriteCount sends the number of endpoints to the other side of a handshake.
func WriteCount(w io.Writer, kind byte, n uint64) error {
	_, err := w.Write(binary.LittleEndian.AppendUint64([]byte{kind}, n))
	return err
}

// ReadCount reads the count written by WriteCount of the other side.
func ReadCount(r io.Reader, kind byte) (uint64, error) {
	var b [9]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("ucx: connection closed during the handshake: %w", err)
	}
	if b[0] != kind {
		return 0, fmt.Errorf("ucx: unexpected byte %q in the handshake", b[0])
	}
	return binary.LittleEndian.Uint64(b[1:]), nil
}
