package ucx

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"go.millstream.dev/ucx/internal/epstate"
)

// A lifeline is the Unix or TCP connection over which two Millstream workers found
// each other. It stays open as long as their endpoints: its end tells of the peer's
// death at once (UCX's own keepalive takes 20 s, and never notices on shared memory
// while a large send is pending), and it carries the notices below. Payload never
// goes over it.
type lifeline struct {
	conn   net.Conn
	ep     *Endpoint
	local  uint64 // this end's number; the peer's control messages carry it
	remote uint64 // the peer's

	features uint32 // that both sides have
	stream   *Conn  // net.Conn over the endpoint; guarded by Worker.mu

	mu      sync.Mutex // serialises writes; held across a write with a deadline only
	acked   chan struct{}
	over    chan struct{} // closed by the reader at its end
	ackOnce sync.Once
}

// ErrPeerClosed is returned by operations on an endpoint that its peer closed cleanly. It
// matches [net.ErrClosed] and [io.EOF] with errors.Is.
var ErrPeerClosed error = peerClosedError{}

type peerClosedError struct{}

func (peerClosedError) Error() string { return "ucx: closed by the peer" }
func (peerClosedError) Is(target error) bool {
	return target == net.ErrClosed || target == io.EOF
}

// Notices, one byte each.
const (
	noticeBye   = 'B' // the sender closes in peace
	noticeAck   = 'K' // the in-band farewell has arrived: everything before it has, too
	noticeAbort = 'A' // the sender force-closed its endpoint
)

// Handshake: magic, version, oldest version understood, features, number of this end,
// release of UCX (major, minor), home (see Contact), lengths of name, address and
// network-only address, and those three.
const (
	lineMagic      = "MSUX"
	lineVersion    = 2
	lineMinVersion = 2
	maxPeerName    = 256
	helloFixed     = 4 + 2 + 2 + 4 + 8 + 2 + 2 + 8 + 2 + 4 + 4
	// writeTimeout bounds a notice: a peer that does not read 64 one-byte notices is as good as dead.
	writeTimeout = time.Second
)

// Features a side announces in its handshake.
const (
	featureFarewell = 1 // answers an in-band farewell (active messages are on)
	featureFrames   = 2 // takes messages of frames
)

type hello struct {
	version, min uint16
	features     uint32
	number       uint64
	name         string
	contact      Contact
}

func (h *hello) append(b []byte) ([]byte, error) {
	addr, err := h.contact.Address.MarshalBinary()
	if err != nil {
		return nil, err
	}
	var netAddr []byte
	if len(h.contact.Net) > 0 {
		if netAddr, err = h.contact.Net.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	name := h.name[:min(len(h.name), maxPeerName)]
	b = append(b, lineMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = binary.LittleEndian.AppendUint16(b, h.min)
	b = binary.LittleEndian.AppendUint32(b, h.features)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint16(b, h.contact.Major)
	b = binary.LittleEndian.AppendUint16(b, h.contact.Minor)
	b = binary.LittleEndian.AppendUint64(b, h.contact.Home)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(addr)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(netAddr)))
	b = append(b, name...)
	b = append(b, addr...)
	return append(b, netAddr...), nil
}

// readHello reads a handshake from a peer that may be anyone.
func readHello(r io.Reader) (*hello, error) {
	var fixed [helloFixed]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return nil, fmt.Errorf("ucx: handshake cut off: %w", err)
	}
	if string(fixed[:4]) != lineMagic {
		return nil, fmt.Errorf("ucx: the peer does not speak Millstream's handshake (starts with %q); UCX listeners "+
			"are dialed with DialSocket", fixed[:4])
	}
	h := &hello{
		version: binary.LittleEndian.Uint16(fixed[4:]), min: binary.LittleEndian.Uint16(fixed[6:]),
		features: binary.LittleEndian.Uint32(fixed[8:]), number: binary.LittleEndian.Uint64(fixed[12:]),
		contact: Contact{Major: binary.LittleEndian.Uint16(fixed[20:]),
			Minor: binary.LittleEndian.Uint16(fixed[22:]), Home: binary.LittleEndian.Uint64(fixed[24:])},
	}
	nameLen := int(binary.LittleEndian.Uint16(fixed[32:]))
	addrLen, netLen := int(binary.LittleEndian.Uint32(fixed[34:])), int(binary.LittleEndian.Uint32(fixed[38:]))
	if h.min > lineVersion || h.version < lineMinVersion {
		return nil, fmt.Errorf("ucx: the peer speaks handshake versions %d to %d, this side %d to %d; upgrade the "+
			"older one", h.min, h.version, lineMinVersion, lineVersion)
	}
	if nameLen > maxPeerName || addrLen > maxWorkerAddress+8 || netLen > maxWorkerAddress+8 {
		return nil, fmt.Errorf("ucx: handshake promises a name of %d and addresses of %d and %d bytes (at most "+
			"%d, %d)", nameLen, addrLen, netLen, maxPeerName, maxWorkerAddress+8)
	}
	rest := make([]byte, nameLen+addrLen+netLen)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, fmt.Errorf("ucx: handshake cut off: %w", err)
	}
	h.name = string(rest[:nameLen])
	if netLen > 0 {
		if err := h.contact.Net.UnmarshalBinary(rest[nameLen+addrLen:]); err != nil {
			return nil, err
		}
	}
	return h, h.contact.Address.UnmarshalBinary(rest[nameLen : nameLen+addrLen])
}

// run reads notices until the connection ends.
func (l *lifeline) run() {
	var b [64]byte
	for {
		n, err := l.conn.Read(b[:])
		for _, c := range b[:n] {
			l.notice(c)
		}
		if err == nil {
			continue
		}
		l.ackOnce.Do(func() { close(l.acked) })
		l.ep.on(epstate.LineEnded, ErrConnectionReset)
		_ = l.conn.Close()
		l.ep.w.dropLine(l)
		close(l.over)
		return
	}
}

func (l *lifeline) notice(c byte) {
	switch c {
	case noticeBye:
		l.ep.on(epstate.PeerFarewell, nil)
	case noticeAck:
		l.ackOnce.Do(func() { close(l.acked) })
	case noticeAbort:
		l.ep.abort(ErrConnectionReset)
	}
}

func (l *lifeline) write(c byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := l.conn.Write([]byte{c})
	return err
}

// farewell makes sure that what was sent on the endpoint has arrived: an in-band
// message behind everything else is acknowledged by the peer's worker. Without it a
// closing socket could discard what the peer has not read yet.
func (l *lifeline) farewell(ctx context.Context, ep *Endpoint) error {
	if l.remote != 0 {
		if err := ep.sendAM(ctx, amControl, controlHeader(controlBye, l.remote), AMOptions{Eager: true},
			nil); err != nil {
			return err
		}
		select {
		case <-l.acked:
		case <-ep.done:
		case <-ctx.Done():
			return &OpError{Op: "endpoint close", Peer: ep.peer, Err: ctx.Err()}
		}
	}
	_ = l.write(noticeBye)
	return nil
}

// close ends the lifeline of an endpoint that was closed here, or whose peer failed.
func (l *lifeline) close() { _ = l.conn.Close() }

// hangupWait is how long a side that aborts waits for the other to hang up.
const hangupWait = 100 * time.Millisecond

// abort tells a live peer, which would wait for ever otherwise, and leaves the line to
// its reader until the peer hangs up: from then on the peer reads no memory of ours.
func (l *lifeline) abort() {
	_ = l.write(noticeAbort)
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(hangupWait))
		return
	}
	_ = l.conn.Close()
}

// awaitHangup waits for the end of an aborted line. A peer that is stopped does not
// hang up; it does not read memory either.
func (l *lifeline) awaitHangup() {
	t := time.NewTimer(2 * hangupWait)
	defer t.Stop()
	select {
	case <-l.over:
	case <-t.C:
	}
}

// Control messages: kind (1 byte), receiver's number (8 bytes).
const (
	controlBye  = 1
	controlSize = 9
)

func controlHeader(kind byte, number uint64) []byte {
	b := make([]byte, 1, controlSize)
	b[0] = kind
	return binary.LittleEndian.AppendUint64(b, number)
}

// control handles an arrived control message. The token is held.
func (w *Worker) control(m *AM) {
	if len(m.Header) == controlSize && m.Header[0] == controlBye {
		var ep *Endpoint
		w.mu.Lock()
		l := w.lines[binary.LittleEndian.Uint64(m.Header[1:])]
		if l != nil {
			ep = l.ep
		}
		w.mu.Unlock()
		if ep != nil {
			ep.on(epstate.PeerFarewell, nil)
			go l.write(noticeAck)
		}
	}
	if m.event != nil {
		go m.Release()
	}
}

func (w *Worker) dropLine(l *lifeline) {
	w.mu.Lock()
	delete(w.lines, l.local)
	w.mu.Unlock()
}
