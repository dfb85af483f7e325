package peers

import (
	"context"
	"log/slog"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Message is a message of a stream: one of the structs of package message.
type Message interface{ Append(*message.Buffer) }

// Send sends a message to the peer. Only the loop calls it, and only while the stream is not gone.
func (st *Stream) Send(m Message) { m.Append(&st.Begin().Buffer) }

// streamCredits is the number of messages of one stream that may wait for the loop. A peer that sends more waits;
// others are served meanwhile.
const streamCredits = 8

// Stream is the comm of a registered client or worker.
type Stream struct {
	set  *Streams
	Comm comm.Comm
	In   *rpc.Reader
	Out  *rpc.Writer
	// Client or Worker is the peer.
	Client *Client
	Worker *Worker
	// Ours reports whether the peer is a Millstream peer.
	Ours bool

	// Owner: the loop.
	Gone    bool // later messages are ignored
	dirty   bool // in Streams.dirty
	Leaving bool // the peer has announced that it disconnects
}

// Journal is the part of the journal that streams use: messages to clients are sent when the journal is on disk up to
// the position of the turn.
type Journal interface {
	Enabled() bool
	Position() uint64
	Commit(ctx context.Context, position uint64) error
}

// Streams are all streams of a scheduler. The loop owns it; any goroutine may call Open.
type Streams struct {
	loop    loop.Loop
	log     *slog.Logger
	journal Journal
	limit   int64       // bytes that may wait for one peer
	Backlog rpc.Backlog // bytes that wait for all peers
	dirty   []*Stream   // streams with messages of this turn
}

// NewStreams returns Streams that disconnect a peer when more than limit bytes wait for it, or more than total for all.
func NewStreams(l loop.Loop, log *slog.Logger, journal Journal, limit, total int64) *Streams {
	s := &Streams{loop: l, log: log, journal: journal, limit: limit}
	s.Backlog.Limit = total
	return s
}

// Open makes a comm a stream. The caller starts its sender.
func (s *Streams) Open(c comm.Comm) *Stream {
	st := &Stream{set: s, Comm: c, Ours: c.Info().Millstream != nil,
		In: rpc.NewReader(c, rpc.ReaderConfig{Credits: streamCredits, Owner: s.loop})}
	cfg := rpc.WriterConfig{Limit: s.limit, Backlog: &s.Backlog}
	if s.journal.Enabled() {
		cfg.Commit = s.journal.Commit
	}
	if !st.Ours {
		cfg.Interval = pythonInterval
	}
	st.Out = rpc.NewWriter(c, cfg)
	return st
}

// pythonInterval is the minimum interval between two sends to a Python process. Reading a message costs it a turn of
// its event loop whatever its size, so Dask's scheduler waits too (5 ms for workers, 2 ms for clients). Go processes
// receive messages immediately.
const pythonInterval = 2 * time.Millisecond

// Connected reports whether messages can be sent. Only the loop calls it; a nil stream is not connected.
func (st *Stream) Connected() bool { return st != nil && !st.Gone }

// Begin starts a message to the peer. Only the loop calls it, and only while the stream is not gone.
func (st *Stream) Begin() *rpc.Batch {
	st.mark()
	return st.Out.Begin()
}

// mark records that the stream has messages of this turn.
func (st *Stream) mark() {
	if !st.dirty {
		st.dirty = true
		st.set.dirty = append(st.set.dirty, st)
	}
}

// End closes the stream: pending messages are sent, later ones are ignored, and then the comm is closed. Only the loop
// calls it.
func (st *Stream) End() {
	if st.Gone {
		return
	}
	st.Gone = true
	if err := st.Out.Flush(0); err != nil {
		st.set.log.Warn("peer dropped", "peer", st.Comm.PeerAddr(), "error", err)
	}
	st.Out.Finish()
	go st.closeWhenSent()
}

// closeWhenSent closes the comm when the pending messages have been sent. It does not wait for a peer that does not
// read.
func (st *Stream) closeWhenSent() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Second, rpc.ErrSlowPeer)
	defer cancel()
	_ = st.Out.Shutdown(ctx)
}

// maxDirect is the number of peers up to which a loop with nothing else to do sends messages itself.
const maxDirect = 2

// Flush sends the messages of this turn. Those to clients are sent when the journal has the changes that they report.
func (s *Streams) Flush() {
	now := len(s.dirty) <= maxDirect && s.loop.Idle()
	for i, st := range s.dirty {
		st.dirty = false
		s.dirty[i] = nil
		var after uint64
		if st.Client != nil {
			after = s.journal.Position()
		}
		flush := st.Out.Flush
		if now {
			flush = st.Out.FlushNow
		}
		if err := flush(after); err != nil {
			s.log.Warn("peer dropped", "peer", st.Comm.PeerAddr(), "error", err)
		}
	}
	s.dirty = s.dirty[:0]
}

// SendValue encodes and sends a value. It is for rare messages.
func (st *Stream) SendValue(v any) {
	s := st.set
	m, err := wire.Encode(v, st.Comm.Info().EncodeOptions())
	if err != nil {
		s.log.Warn("message not encoded", "peer", st.Comm.PeerAddr(), "error", err)
		return
	}
	st.mark()
	st.Out.Add(m.Body(), m.Frames[1:])
}
