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

// Send writes a message to the peer. Only the loop calls it, and only while the stream is not gone.
func (st *Stream) Send(m Message) { m.Append(&st.Begin().Buffer) }

// streamCredits is how many messages of one stream may wait for the loop. A peer that
// sends more waits; others are served meanwhile.
const streamCredits = 8

// Stream is the comm of a client or a worker after it has registered.
type Stream struct {
	set  *Streams
	Comm comm.Comm
	In   *rpc.Reader
	Out  *rpc.Writer
	// Client or worker is whose it is.
	Client *Client
	Worker *Worker
	// Ours tells that the peer is Millstream's.
	Ours bool

	// The loop's:
	Gone    bool // nothing that still arrives is heard
	dirty   bool // in streams.dirty
	Leaving bool // the peer has said that it leaves
}

// Journal is what streams need of the journal: what is said to clients leaves when the journal is on disk up to the
// position of the turn.
type Journal interface {
	Enabled() bool
	Position() uint64
	Commit(ctx context.Context, position uint64) error
}

// Streams are all streams of a scheduler. The loop owns it; open may be called by any goroutine.
type Streams struct {
	loop    loop.Loop
	log     *slog.Logger
	journal Journal
	limit   int64       // of bytes that wait for one peer
	Backlog rpc.Backlog // what waits for all peers
	dirty   []*Stream   // those that something was said to in this turn
}

// NewStreams returns streams that drop a peer when more than limit bytes wait for it, or more than total for all.
func NewStreams(l loop.Loop, log *slog.Logger, journal Journal, limit, total int64) *Streams {
	s := &Streams{loop: l, log: log, journal: journal, limit: limit}
	s.Backlog.Limit = total
	return s
}

// Open makes a comm a stream. Its sender is started by the caller.
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

// pythonInterval is how often Python's processes are sent something at most. Reading a message
// costs them a turn of their event loop however little is in it, so Dask's scheduler waits too
// (5 ms for workers, 2 ms for clients). Go's get everything at once.
const pythonInterval = 2 * time.Millisecond

// Connected reports whether messages can be sent. Only the loop calls it; a nil stream is not connected.
func (st *Stream) Connected() bool { return st != nil && !st.Gone }

// Begin starts a message to the peer. Only the loop calls it, and only while the stream is
// not gone.
func (st *Stream) Begin() *rpc.Batch {
	st.mark()
	return st.Out.Begin()
}

// mark notes that something was said in this turn.
func (st *Stream) mark() {
	if !st.dirty {
		st.dirty = true
		st.set.dirty = append(st.set.dirty, st)
	}
}

// End lets the stream go: what was said leaves, nothing more is heard, and then the comm is
// closed. Only the loop calls it.
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

// closeWhenSent closes the comm when what was said has left. A peer that does not read is
// not waited for.
func (st *Stream) closeWhenSent() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Second, rpc.ErrSlowPeer)
	defer cancel()
	_ = st.Out.Shutdown(ctx)
}

// Flush lets go of what was said in this turn. What was said to clients leaves when the
// journal has what they were told of.
func (s *Streams) Flush() {
	for i, st := range s.dirty {
		st.dirty = false
		s.dirty[i] = nil
		var after uint64
		if st.Client != nil {
			after = s.journal.Position()
		}
		if err := st.Out.Flush(after); err != nil {
			s.log.Warn("peer dropped", "peer", st.Comm.PeerAddr(), "error", err)
		}
	}
	s.dirty = s.dirty[:0]
}

// SendValue sends a message that is rare enough to be made of values.
func (st *Stream) SendValue(v any) {
	s := st.set
	m, err := wire.Encode(v, st.Comm.Info().EncodeOptions())
	if err != nil {
		s.log.Warn("a message cannot be sent", "peer", st.Comm.PeerAddr(), "error", err)
		return
	}
	st.mark()
	st.Out.Add(m.Body(), m.Frames[1:])
}
