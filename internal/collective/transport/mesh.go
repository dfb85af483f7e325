package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/wire"
)

// Kinds of messages between ranks, the first byte of their header; eight bytes for the channel follow.
const (
	msgData  byte = 1
	msgAbort byte = 2 // data: the rank that failed in four bytes, the reason
	msgLeave byte = 3 // the sender has closed its group; the last message
)

// maxReason bounds the text of an abort that a peer may send.
const maxReason = 4096

func putHead(h *[9]byte, kind byte, ch uint64) {
	h[0] = kind
	binary.LittleEndian.PutUint64(h[1:], ch)
}

func parseHead(b []byte) (kind byte, ch uint64, err error) {
	if len(b) != 9 || b[0] < msgData || b[0] > msgLeave {
		return 0, 0, fmt.Errorf("not a group message (%d bytes)", len(b))
	}
	return b[0], binary.LittleEndian.Uint64(b[1:]), nil
}

func parseAbort(b []byte, size int) (*RankError, error) {
	if len(b) < 4 || len(b) > 4+maxReason {
		return nil, fmt.Errorf("invalid abort of %d bytes", len(b))
	}
	rank := binary.LittleEndian.Uint32(b)
	if int64(rank) >= int64(size) {
		return nil, fmt.Errorf("invalid abort for rank %d of %d", rank, size)
	}
	return &RankError{Rank: int(rank), Reason: string(b[4:])}, nil
}

func appendAbort(e *RankError) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(e.Rank))
	reason := e.Reason
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return append(b, reason...)
}

// mesh is the transport over plain comms: a connection between every two ranks.
type mesh struct {
	rank, size int
	name       string
	in         []*inbox
	out        []*outbox // nil for this rank
	comms      []comm.Comm
	failures   chan *RankError
	readers    sync.WaitGroup
	stop       context.CancelFunc // stops the readers

	mu      sync.Mutex
	aborted bool
	closed  chan struct{} // closed when Close is done
	closing bool
}

// NewComm returns a transport over plain comms (tcp, tls, inproc). peers[r] is the connection to rank r, nil for this
// rank. The transport owns them, even if NewComm fails. A comm that ends without a leave message is the loss of its
// rank.
func NewComm(rank int, peers []comm.Comm) (Transport, error) {
	fail := func(format string, args ...any) (Transport, error) {
		for _, c := range peers {
			if c != nil {
				c.Abort()
			}
		}
		return nil, fmt.Errorf("collective: "+format, args...)
	}
	if rank < 0 || rank >= len(peers) || len(peers) > MaxRanks {
		return fail("invalid rank %d of %d: want 0 to one less than the number of ranks, at most %d", rank, len(peers),
			MaxRanks)
	}
	m := &mesh{rank: rank, size: len(peers), name: "inproc", comms: peers, closed: make(chan struct{}),
		failures: make(chan *RankError, 3*len(peers)+1)} // for each rank: lost, left and one abort
	for r, c := range peers {
		if (c == nil) != (r == rank) {
			return fail("rank %d has %d connections: want one to every other rank, none to itself", rank,
				len(peers))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for r, c := range peers {
		m.in = append(m.in, &inbox{from: r})
		if c == nil {
			m.out = append(m.out, nil)
			continue
		}
		scheme, _ := commaddr.Parse(c.LocalAddr())
		m.name = scheme
		m.out = append(m.out, newOutbox(c, scheme != "tcp" && scheme != "tls"))
	}
	for r, c := range peers {
		if c != nil {
			m.readers.Add(1)
			go m.read(ctx, r, c)
		}
	}
	return m, nil
}

func (m *mesh) Name() string                { return m.name }
func (m *mesh) Rank() int                   { return m.rank }
func (m *mesh) Size() int                   { return m.size }
func (m *mesh) Failures() <-chan *RankError { return m.failures }

func (m *mesh) Send(ctx context.Context, to int, ch uint64, b []byte) error {
	_, err := m.StartSend(to, ch, b).Wait(ctx)
	return err
}

func (m *mesh) Recv(ctx context.Context, from int, ch uint64, b []byte) (int, error) {
	return m.in[from].start(ch, b).Wait(ctx)
}

func (m *mesh) StartRecv(from int, ch uint64, b []byte) Pending { return m.in[from].start(ch, b) }

func (m *mesh) StartSend(to int, ch uint64, b []byte) Pending {
	if to == m.rank {
		data := append([]byte(nil), b...)
		err := m.in[to].put(ch, data, func() {})
		return Finished{len(b), err}
	}
	return m.out[to].start(msgData, ch, b)
}

// Finished is an operation that has ended.
type Finished struct {
	N   int
	Err error
}

// Wait implements Pending.
func (f Finished) Wait(context.Context) (int, error) { return f.N, f.Err }

// read reads the messages of one rank until its comm ends.
func (m *mesh) read(ctx context.Context, from int, c comm.Comm) {
	defer m.readers.Done()
	err := m.readAll(ctx, from, c)
	m.mu.Lock()
	closing := m.closing
	m.mu.Unlock()
	if closing && err != nil { // this side has closed the comm
		m.in[from].fail(ErrClosed)
		return
	}
	e := LeftError(from)
	if err != nil {
		e = &RankError{Rank: from, Reason: "connection lost: " + err.Error(), Err: err}
	}
	m.in[from].fail(e)
	m.failures <- e
}

func (m *mesh) readAll(ctx context.Context, from int, c comm.Comm) error {
	aborts := 0
	for {
		msg, err := c.Read(ctx)
		if err != nil {
			return err
		}
		left, err := m.handle(from, msg, &aborts)
		if left || err != nil {
			return err
		}
	}
}

// handle processes one message. The message is released now or when it is received.
func (m *mesh) handle(from int, msg *wire.Message, aborts *int) (left bool, err error) {
	kept := false
	defer func() {
		if !kept {
			msg.Release()
		}
	}()
	if len(msg.Frames) != 2 || msg.Frames[0].OnDevice() || msg.Frames[1].OnDevice() {
		return false, errors.New("not a group message")
	}
	kind, ch, err := parseHead(msg.Frames[0].Bytes())
	if err != nil {
		return false, err
	}
	data := msg.Frames[1].Bytes()
	switch kind {
	case msgLeave:
		return true, nil
	case msgAbort:
		e, err := parseAbort(data, m.size)
		if err != nil {
			return false, err
		}
		if *aborts++; *aborts == 1 { // failures has room for one
			m.failures <- e
		}
		return false, nil
	}
	kept = true
	return false, m.in[from].put(ch, data, msg.Release)
}

// Abort sends an abort to the other ranks after the current messages, and then cancels operations in flight.
func (m *mesh) Abort(e *RankError) {
	m.mu.Lock()
	if m.aborted || m.closing {
		m.mu.Unlock()
		return
	}
	m.aborted = true
	m.mu.Unlock()
	for _, b := range m.in {
		b.fail(e)
	}
	notice := appendAbort(e)
	for _, o := range m.out {
		if o == nil {
			continue
		}
		o.start(msgAbort, 0, notice)
		time.AfterFunc(Grace, o.cancel)
	}
}

// Close implements Transport.
func (m *mesh) Close() error {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		<-m.closed
		return nil
	}
	m.closing = true
	m.mu.Unlock()
	var all sync.WaitGroup
	for r, o := range m.out {
		if o == nil {
			continue
		}
		all.Go(func() {
			op := o.start(msgLeave, 0, nil)
			timer := time.NewTimer(Grace)
			defer timer.Stop()
			sent := false
			select {
			case <-op.done:
				sent = op.err == nil
			case <-timer.C:
				select {
				case <-op.done: // both, after a pause of the process
					sent = op.err == nil
				default:
				}
			}
			o.cancel()
			if sent {
				_ = m.comms[r].Close() // it fails only if the peer is gone
			} else {
				m.comms[r].Abort()
			}
			<-o.done
		})
	}
	all.Wait()
	m.stop()
	m.readers.Wait()
	for _, b := range m.in {
		b.fail(ErrClosed)
		b.clear()
	}
	close(m.failures)
	close(m.closed)
	return nil
}

// Kill closes the connections of a transport without a leave message, as the crash of its process does. It is for
// tests.
func Kill(t Transport) {
	var m *mesh
	switch t := t.(type) {
	case *mesh:
		m = t
	case *ucxTransport:
		m = t.mesh
	}
	m.mu.Lock()
	m.aborted = true // a crashed process sends no abort
	m.mu.Unlock()
	for _, c := range m.comms {
		if c != nil {
			c.Abort()
		}
	}
}
