package scheduler

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/scheduler/internal/outbox"
	"go.millstream.dev/wire"
)

// streamCredits is how many messages of one stream may wait for the loop. A peer that
// sends more waits; others are served meanwhile.
const streamCredits = 8

// stream is the comm of a client or a worker after it has registered.
type stream struct {
	s    *Scheduler
	comm comm.Comm
	out  *outbox.Outbox
	// client or worker is whose it is.
	client *client
	worker *worker
	// ours tells that the peer is Millstream's.
	ours bool
	// credits holds a token for each message that waits for the loop.
	credits chan struct{}
	// ahead are messages that were read while a graph was opened, before the error that ended the comm. The reader
	// owns it.
	ahead []readAhead

	// The loop's:
	gone    bool // nothing that still arrives is heard
	dirty   bool // it is in Scheduler.dirty
	leaving bool // the peer has said that it leaves
}

func (s *Scheduler) newStream(c comm.Comm) *stream {
	var commit func(context.Context, uint64) error
	if s.journal.Enabled() {
		commit = s.journal.Commit
	}
	st := &stream{s: s, comm: c, ours: c.Info().Millstream != nil, out: outbox.New(c, s.cfg.Outgoing, commit), credits: make(chan struct{}, streamCredits)}
	st.out.Total = &s.backlog
	if !st.ours {
		st.out.Interval = pythonInterval
	}
	return st
}

// pythonInterval is how often Python's processes are sent something at most. Reading a message
// costs them a turn of their event loop however little is in it, so Dask's scheduler waits too
// (5 ms for workers, 2 ms for clients). Go's get everything at once.
const pythonInterval = 2 * time.Millisecond

func (st *stream) credit() { <-st.credits }

// begin starts a message to the peer. Only the loop calls it, and only while the stream is
// not gone.
func (st *stream) begin() *outbox.Batch {
	if !st.dirty {
		st.dirty = true
		st.s.dirty = append(st.s.dirty, st)
	}
	return st.out.Begin()
}

// end lets the stream go: what was said leaves, nothing more is heard, and then the comm is
// closed. Only the loop calls it.
func (st *stream) end() {
	if st.gone {
		return
	}
	st.gone = true
	if err := st.out.Flush(0); err != nil {
		st.s.log.Warn("peer dropped", "peer", st.comm.PeerAddr(), "error", err)
	}
	st.out.Finish()
	go st.closeWhenSent()
}

// closeWhenSent closes the comm when what was said has left. A peer that does not read is
// not waited for.
func (st *stream) closeWhenSent() {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-st.out.Done:
		_ = st.comm.Close()
	case <-t.C:
		st.out.Abort(outbox.ErrFull)
	}
}

// flush lets go of what was said in this turn. What was said to clients leaves when the
// journal has what they were told of.
func (s *Scheduler) flush() {
	for i, st := range s.dirty {
		st.dirty = false
		s.dirty[i] = nil
		var after uint64
		if st.client != nil {
			after = s.journal.Position()
		}
		if err := st.out.Flush(after); err != nil {
			s.log.Warn("peer dropped", "peer", st.comm.PeerAddr(), "error", err)
		}
	}
	s.dirty = s.dirty[:0]
}

// read posts the peer's messages to the loop until the comm or ctx ends, the peer says
// close-stream or sends what is no message.
func (st *stream) read(ctx context.Context) error {
	f := flood{since: time.Now()}
	defer st.releaseAhead()
	for {
		m, err := st.next(ctx)
		if errors.Is(err, comm.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if st.client != nil {
			if rate, tell := f.message(st.s.cfg.flood); tell {
				st.s.log.Warn("a client sends without end; it is slowed down, others are served as before",
					"client", st.client.name, "peer", st.comm.PeerAddr(), "rate", int(rate))
			}
		}
		p := post{from: st, msg: m}
		var last bool
		// Workers send no graphs, and so many messages that each is walked over once only.
		if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
			err = errNoBody
		} else if st.client != nil {
			p.graphs, last, err = st.prepare(ctx, m)
		}
		if err != nil {
			m.Release()
			return err
		}
		if st.client != nil {
			if err := st.s.journal.Room(ctx); err != nil {
				m.Release()
				return err
			}
		}
		select {
		case st.credits <- struct{}{}:
		case <-ctx.Done():
			m.Release()
			return context.Cause(ctx)
		case <-st.s.loop.Done():
			m.Release()
			return st.s.loop.ClosedError()
		}
		if !st.s.loop.Post(p) {
			m.Release()
			return st.s.loop.ClosedError()
		}
		if last {
			return nil
		}
	}
}

// prepare looks at a message outside of the loop: graphs are decoded, and the end of the
// stream is seen. It checks that all of the body is well-formed.
func (st *stream) prepare(ctx context.Context, m *wire.Message) (graphs []*graph, last bool, err error) {
	ops := wire.ReadOps(m.Body())
	for ops.Next() {
		switch string(ops.Op()) {
		case "update-graph":
			g, err := st.s.decodeGraph(ctx, st, m, &ops)
			if err != nil {
				return nil, false, err
			}
			graphs = append(graphs, g)
		case "close-stream":
			last = true
		}
	}
	return graphs, last, ops.Err()
}

var errNoBody = errors.New("the message has no body in host memory")
