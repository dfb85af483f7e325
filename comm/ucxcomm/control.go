package ucxcomm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"go.millstream.dev/ucx"
)

// A control is a control channel on the socket connection of two Millstream programs, next to that of the messages. It
// negotiates the data connection, carries the bytes of its lifeline, so that no second port is needed and no other
// process can interfere, and later the credits. Each of its messages is a kind and up to controlChunk bytes.
//
//	'U' u8 1 if this side can have a data connection, u32 window in bytes (little-endian)
//	'D' bytes of the lifeline
//	'E' the lifeline's end
//	'F' u8 1 if this side's end of the data connection exists
//	'C' u64 bytes taken since the beginning, as messageCost counts
//	'L' u8 1 if there are to be lines, of the listening side with u16 port and 16 bytes token
//	'S' about stripes for frames in host memory, see stripeMessage
const (
	tetherReady  = 'U'
	tetherData   = 'D'
	tetherEnd    = 'E'
	tetherFinal  = 'F'
	tetherCredit = 'C'
	tetherLines  = 'L'
	tetherStripe = 'S'

	// controlChunk fits the slots of package ucx: nothing is pinned or allocated.
	controlChunk = 1000
)

type controlChannel struct {
	ep     *taggedEndpoint
	ctx    context.Context // ends with the control
	cancel context.CancelFunc

	line  net.Conn // the connection of the lifeline
	inner net.Conn // its other end, which only the two goroutines below use

	ready   chan readiness   // capacity 1
	final   chan bool        // capacity 1
	stripes chan stripeOffer // capacity 1
	credit  func(taken uint64)
	large   *hostStripes // nil: not supported by both sides

	parted sync.Once
	ended  chan struct{} // closed when the peer's end of the lifeline has ended
	pumped chan struct{} // closed when reception has ended
	fed    chan struct{} // closed when sending for the lifeline has ended
}

// stripeOffer is the message of each side about stripes for frames on GPUs.
type stripeOffer struct {
	ok    bool
	port  uint16
	token []byte // 16 bytes
}

// stripeOfferSize is the length of the listening side's message.
const stripeOfferSize = 1 + 2 + 16

// readiness is the first message of the other side.
type readiness struct {
	ok     bool
	window uint32
}

func newControlChannel(ep *taggedEndpoint, credit func(uint64), large *hostStripes) *controlChannel {
	t := &controlChannel{
		ep: ep, ready: make(chan readiness, 1), final: make(chan bool, 1), stripes: make(chan stripeOffer, 1),
		credit: credit, large: large,
		ended: make(chan struct{}), pumped: make(chan struct{}), fed: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if large != nil {
		large.send, large.post = t.sendStripes, t.postStripes
	}
	t.line, t.inner = net.Pipe()
	go t.pump()
	go t.feed()
	return t
}

// close ends the goroutines and waits for them.
func (t *controlChannel) close() {
	_ = t.line.Close()
	t.cancel()
	<-t.fed
	<-t.pumped
}

// partTime is how long an end waits for the other one's last message.
const partTime = 200 * time.Millisecond

// finish sends pending data of the lifeline, receives the peer's last message, and closes.
func (t *controlChannel) finish(ctx context.Context) {
	_ = t.line.Close() // already closed cleanly by the data connection
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	select {
	case <-t.fed:
	case <-ctx.Done():
	}
	select {
	case <-t.ended:
	case <-t.pumped:
	case <-ctx.Done():
	}
	t.close()
}

func (t *controlChannel) send(ctx context.Context, kind byte, payload ...byte) error {
	b := make([]byte, 0, 1+controlChunk)
	return t.ep.Send(ctx, ucx.Bytes(append(append(b, kind), payload...)), ucx.ForceTag(t.ep.sideSend))
}

func (t *controlChannel) sendReady(ctx context.Context, r readiness) error {
	return t.send(ctx, tetherReady, binary.LittleEndian.AppendUint32([]byte{flag(r.ok)}, r.window)...)
}

func (t *controlChannel) sendFinal(ctx context.Context, ok bool) error {
	return t.send(ctx, tetherFinal, flag(ok))
}

func (t *controlChannel) sendLines(ctx context.Context, w stripeOffer) error {
	b := []byte{flag(w.ok)}
	if w.token != nil {
		b = append(binary.LittleEndian.AppendUint16(b, w.port), w.token...)
	}
	return t.send(ctx, tetherLines, b...)
}

func (t *controlChannel) sendStripes(ctx context.Context, m stripeMessage) error {
	return t.send(ctx, tetherStripe, m.append(nil)...)
}

// postStripes does not block, like sendCredit.
func (t *controlChannel) postStripes(m stripeMessage) {
	t.ep.StartSend(ucx.Bytes(m.append([]byte{tetherStripe})), ucx.ForceTag(t.ep.sideSend))
}

// sendCredit does not block: it is called by readers, and a credit is lost only with the comm.
func (t *controlChannel) sendCredit(taken uint64) {
	t.ep.StartSend(ucx.Bytes(binary.LittleEndian.AppendUint64([]byte{tetherCredit}, taken)),
		ucx.ForceTag(t.ep.sideSend))
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// pump processes messages of the peer.
func (t *controlChannel) pump() {
	defer close(t.pumped)
	defer t.inner.Close() // the lifeline ends with the connection
	var b [1 + controlChunk]byte
	for {
		n, err := t.ep.Recv(t.ctx, ucx.Bytes(b[:]), ucx.ForceTag(t.ep.sideRecv))
		if err != nil || t.take(b[:n]) != nil {
			return
		}
	}
}

var errControl = errors.New("unexpected message on the control channel")

// take handles one message. An error ends the control.
func (t *controlChannel) take(b []byte) error {
	if len(b) == 0 {
		return errControl
	}
	switch p := b[1:]; b[0] {
	case tetherReady:
		if len(p) != 5 {
			return errControl
		}
		select {
		case t.ready <- readiness{p[0] == 1, binary.LittleEndian.Uint32(p[1:])}:
		default:
			return errControl
		}
	case tetherFinal:
		if len(p) != 1 {
			return errControl
		}
		select {
		case t.final <- p[0] == 1:
		default:
			return errControl
		}
	case tetherLines:
		w := stripeOffer{ok: len(p) > 0 && p[0] == 1}
		switch len(p) {
		case 1:
		case stripeOfferSize:
			w.port, w.token = binary.LittleEndian.Uint16(p[1:]), bytes.Clone(p[3:])
		default:
			return errControl
		}
		select {
		case t.stripes <- w:
		default:
			return errControl
		}
	case tetherStripe:
		m, err := parseStripeMessage(p)
		if err != nil || t.large == nil {
			return errControl
		}
		return t.large.handle(m)
	case tetherData:
		_, _ = t.inner.Write(p) // fails if this side's lifeline has ended; later messages still matter
	case tetherEnd:
		_ = t.inner.Close()
		t.parted.Do(func() { close(t.ended) })
	case tetherCredit:
		if len(p) != 8 {
			return errControl
		}
		t.credit(binary.LittleEndian.Uint64(p))
	default:
		return errControl
	}
	return nil
}

// feed sends the data of the lifeline, and its end.
func (t *controlChannel) feed() {
	defer close(t.fed)
	var b [controlChunk]byte
	for {
		n, err := t.inner.Read(b[:])
		if n > 0 && t.send(t.ctx, tetherData, b[:n]...) != nil {
			return
		}
		if err != nil {
			_ = t.send(t.ctx, tetherEnd)
			return
		}
	}
}
