package ucx

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// frameConn collects the parts of the messages of one connection.
type frameConn struct {
	ep      *Endpoint
	sendSeq atomic.Uint64
	ready   mailbox[*frameMessage] // whose tables have come, in sequence

	mu     sync.Mutex
	next   uint64 // the first sequence number whose table has not come
	msgs   map[uint64]*frameMessage
	queued int64 // what waits, as frameCost counts it
	over   error // why nothing more comes
	shut   bool
}

// frameMessage is a message under way. Its fields are guarded by frameConn.mu.
type frameMessage struct {
	seq   uint64
	count int
	table *AM
	parts map[uint32]*AM
	want  uint32   // the frame that the receiver waits for
	wait  *Request // its wait
	drop  bool     // the receiver gave up: frames that still come are released
	left  int      // how many that are
}

// frameCost is what an arrived part counts for against WorkerConfig.MaxQueuedMessages.
// The data of a rendezvous is still at the sender.
func frameCost(m *AM) int64 {
	if m.rndv {
		return 512
	}
	return 128 + int64(m.Len)
}

// framesArrived takes in a part of a message. The token is held.
func (w *Worker) framesArrived(m *AM) {
	h, err := decodeFrameHeader(m.Header)
	if err != nil {
		w.strayMessage(m)
		return
	}
	var ep *Endpoint
	w.mu.Lock()
	if l := w.lines[h.number]; l != nil {
		ep = l.ep
	}
	w.mu.Unlock()
	if ep == nil {
		w.strayMessage(m) // its connection has ended, or never was
		return
	}
	m.ReplyTo = ep // a rendezvous ends with the connection
	if release, err := ep.frameConn().arrived(h, m); release || err != nil {
		go func() { // both need the token, which the caller holds
			m.Release()
			if err != nil {
				ep.abort(err)
			}
		}()
	}
}

// strayMessage drops a message that belongs to no connection. The token is held.
func (w *Worker) strayMessage(m *AM) {
	if f := w.ctx.cfg.Events.MessageDropped; f != nil {
		f(dropOf(w, m))
	}
	if m.event != nil {
		go m.Release()
	}
}

// arrived enters a part. It reports whether the part is not wanted, and an error when
// the peer breaks the protocol.
func (fc *frameConn) arrived(h frameHeader, m *AM) (release bool, err error) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if fc.shut {
		return true, nil
	}
	msg := fc.msgs[h.seq]
	if msg == nil {
		if h.seq < fc.next {
			return true, fmt.Errorf("ucx: the peer sent more of frame message %d, which is complete", h.seq)
		}
		msg = &frameMessage{seq: h.seq}
		fc.msgs[h.seq] = msg
	}
	if msg.drop {
		if msg.left--; msg.left == 0 {
			delete(fc.msgs, h.seq)
		}
		return true, nil
	}
	limit := fc.ep.w.cfg.MaxQueuedMessages
	if fc.queued += frameCost(m); fc.queued > limit {
		fc.queued -= frameCost(m)
		return true, fmt.Errorf("%w: frame messages of more than %d bytes wait for RecvFrames (WorkerConfig.MaxQueuedMessages)", ErrExceedsLimit, limit)
	}
	if h.kind == frameTable {
		if msg.table != nil || h.seq < fc.next {
			return true, fmt.Errorf("ucx: the peer sent the table of frame message %d twice", h.seq)
		}
		msg.table, msg.count = m, int(h.n)
		for {
			first := fc.msgs[fc.next]
			if first == nil || first.table == nil {
				return false, nil
			}
			fc.next++
			fc.ready.put(first)
		}
	}
	if _, twice := msg.parts[h.n]; twice {
		return true, fmt.Errorf("ucx: the peer sent frame %d of frame message %d twice", h.n, h.seq)
	}
	if msg.parts == nil {
		msg.parts = map[uint32]*AM{}
	}
	msg.parts[h.n] = m
	if msg.wait != nil && msg.want == h.n {
		msg.wait.finish()
		msg.wait = nil
	}
	return false, nil
}

// ended is called when the endpoint is over; the token may be held.
func (fc *frameConn) ended(reason error) {
	fc.mu.Lock()
	fc.over = reason
	for _, msg := range fc.msgs {
		if msg.wait != nil {
			msg.wait.finish()
			msg.wait = nil
		}
	}
	fc.mu.Unlock()
	fc.ready.fail(reason)
}

// discard gives back what nobody will take.
func (fc *frameConn) discard() {
	fc.mu.Lock()
	fc.shut = true
	msgs := fc.msgs
	fc.msgs = map[uint64]*frameMessage{}
	var ams []*AM
	for _, msg := range msgs {
		if msg.table != nil {
			ams = append(ams, msg.table)
		}
		for _, m := range msg.parts {
			ams = append(ams, m)
		}
		msg.parts = nil
	}
	fc.mu.Unlock()
	fc.ready.close(ErrClosed)
	for _, m := range ams {
		m.Release()
	}
}

// paid takes a part off the account of what waits.
func (fc *frameConn) paid(m *AM) {
	fc.mu.Lock()
	fc.queued -= frameCost(m)
	fc.mu.Unlock()
}

// giveUp drops a message of which some frames, left in number, were not taken.
func (fc *frameConn) giveUp(msg *frameMessage, left int) {
	fc.mu.Lock()
	var ams []*AM
	for _, m := range msg.parts {
		fc.queued -= frameCost(m)
		ams = append(ams, m)
	}
	msg.parts, msg.drop, msg.left = nil, true, left-len(ams)
	if msg.left <= 0 {
		delete(fc.msgs, msg.seq)
	}
	fc.mu.Unlock()
	for _, m := range ams {
		m.Release()
	}
}
