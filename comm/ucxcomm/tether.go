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

// A tether is a second channel on the socket connection of two Millstream programs,
// beside that of the messages. It agrees on the lane, carries the bytes of the lane's
// lifeline, so that no second port is needed and no stranger can take part, and later
// the credits. Each of its messages is a kind and up to tetherChunk bytes.
//
//	'U' u8 1 if this side can have a lane, u32 window in bytes (little-endian)
//	'D' bytes of the lifeline
//	'E' the lifeline's end
//	'F' u8 1 if this side's end of the lane is made
//	'C' u64 bytes taken since the beginning, as messageCost counts
//	'L' u8 1 if there are to be lines, of the listening side with u16 port and 16 bytes token
const (
	tetherReady  = 'U'
	tetherData   = 'D'
	tetherEnd    = 'E'
	tetherFinal  = 'F'
	tetherCredit = 'C'
	tetherLines  = 'L'

	// tetherChunk fits the slots of package ucx: nothing is pinned or allocated.
	tetherChunk = 1000
)

type tether struct {
	ep     *meeting
	ctx    context.Context // ends with the tether
	cancel context.CancelFunc

	line  net.Conn // what the lane's lifeline gets
	inner net.Conn // its other end, which only the two goroutines below use

	ready  chan readiness // capacity 1
	final  chan bool      // capacity 1
	lines  chan lineWord  // capacity 1
	credit func(taken uint64)

	parted sync.Once
	ended  chan struct{} // closed when the peer's end of the lifeline is over
	pumped chan struct{} // closed when nothing more is received
	fed    chan struct{} // closed when nothing more is sent for the lifeline
}

// lineWord is what each side says about lines for frames on GPUs.
type lineWord struct {
	ok    bool
	port  uint16
	token []byte // 16 bytes
}

// lineWordSize is the length of the listening side's word.
const lineWordSize = 1 + 2 + 16

// readiness is what the other side says first.
type readiness struct {
	ok     bool
	window uint32
}

func newTether(ep *meeting, credit func(uint64)) *tether {
	t := &tether{
		ep: ep, ready: make(chan readiness, 1), final: make(chan bool, 1), lines: make(chan lineWord, 1),
		credit: credit,
		ended:  make(chan struct{}), pumped: make(chan struct{}), fed: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.line, t.inner = net.Pipe()
	go t.pump()
	go t.feed()
	return t
}

// close ends the goroutines and waits for them.
func (t *tether) close() {
	_ = t.line.Close()
	t.cancel()
	<-t.fed
	<-t.pumped
}

// partTime is how long an end waits for the other one's last word.
const partTime = 200 * time.Millisecond

// finish lets what the lifeline has written go out, takes in the peer's last word, which
// comes by itself, and closes.
func (t *tether) finish(ctx context.Context) {
	_ = t.line.Close() // the lane's close has done so in peace
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

func (t *tether) send(ctx context.Context, kind byte, payload ...byte) error {
	b := make([]byte, 0, 1+tetherChunk)
	return t.ep.Send(ctx, ucx.Bytes(append(append(b, kind), payload...)), ucx.ForceTag(t.ep.sideSend))
}

func (t *tether) sendReady(ctx context.Context, r readiness) error {
	return t.send(ctx, tetherReady, binary.LittleEndian.AppendUint32([]byte{flag(r.ok)}, r.window)...)
}

func (t *tether) sendFinal(ctx context.Context, ok bool) error {
	return t.send(ctx, tetherFinal, flag(ok))
}

func (t *tether) sendLines(ctx context.Context, w lineWord) error {
	b := []byte{flag(w.ok)}
	if w.token != nil {
		b = append(binary.LittleEndian.AppendUint16(b, w.port), w.token...)
	}
	return t.send(ctx, tetherLines, b...)
}

// sendCredit does not wait: it is called by readers, and lost only with the comm.
func (t *tether) sendCredit(taken uint64) {
	t.ep.StartSend(ucx.Bytes(binary.LittleEndian.AppendUint64([]byte{tetherCredit}, taken)),
		ucx.ForceTag(t.ep.sideSend))
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// pump takes in what the peer sends.
func (t *tether) pump() {
	defer close(t.pumped)
	defer t.inner.Close() // the lifeline ends with the connection: the peer is gone
	var b [1 + tetherChunk]byte
	for {
		n, err := t.ep.Recv(t.ctx, ucx.Bytes(b[:]), ucx.ForceTag(t.ep.sideRecv))
		if err != nil || t.take(b[:n]) != nil {
			return
		}
	}
}

var errTether = errors.New("a message that no Millstream program sends")

// take handles one message. An error ends the tether.
func (t *tether) take(b []byte) error {
	if len(b) == 0 {
		return errTether
	}
	switch p := b[1:]; b[0] {
	case tetherReady:
		if len(p) != 5 {
			return errTether
		}
		select {
		case t.ready <- readiness{p[0] == 1, binary.LittleEndian.Uint32(p[1:])}:
		default:
			return errTether
		}
	case tetherFinal:
		if len(p) != 1 {
			return errTether
		}
		select {
		case t.final <- p[0] == 1:
		default:
			return errTether
		}
	case tetherLines:
		w := lineWord{ok: len(p) > 0 && p[0] == 1}
		switch len(p) {
		case 1:
		case lineWordSize:
			w.port, w.token = binary.LittleEndian.Uint16(p[1:]), bytes.Clone(p[3:])
		default:
			return errTether
		}
		select {
		case t.lines <- w:
		default:
			return errTether
		}
	case tetherData:
		_, _ = t.inner.Write(p) // fails when this side's lifeline has ended; the rest still matters
	case tetherEnd:
		_ = t.inner.Close()
		t.parted.Do(func() { close(t.ended) })
	case tetherCredit:
		if len(p) != 8 {
			return errTether
		}
		t.credit(binary.LittleEndian.Uint64(p))
	default:
		return errTether
	}
	return nil
}

// feed sends what the lifeline writes, and its end.
func (t *tether) feed() {
	defer close(t.fed)
	var b [tetherChunk]byte
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
