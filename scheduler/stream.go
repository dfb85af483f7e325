package scheduler

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// reader reads the messages of a stream outside of the loop and posts them to it.
type reader struct {
	s     *Scheduler
	st    *peers.Stream
	flood flood
}

// read posts the peer's messages to the loop until the comm or ctx ends, the peer says
// close-stream or sends what is no message.
func (rd *reader) read(ctx context.Context) error {
	rd.flood.since = time.Now()
	err := rd.st.In.Run(ctx, func(m *wire.Message) error { return rd.deliver(ctx, m) })
	if rd.st.In.PeerClosed() || errors.Is(err, errLast) {
		return nil
	}
	return err
}

// errLast is returned for the last message of a stream.
var errLast = errors.New("close-stream")

// deliver posts a message to the loop, which gives it back.
func (rd *reader) deliver(ctx context.Context, m *wire.Message) error {
	st := rd.st
	p := post{from: st, msg: m}
	var last bool
	var err error
	if st.Client != nil { // workers send no graphs, and so many messages that each is walked over once only
		if rate, tell := rd.flood.message(rd.s.cfg.flood); tell {
			rd.s.log.Warn("a client sends without end; it is slowed down, others are served as before",
				"client", st.Client.Name, "peer", st.Comm.PeerAddr(), "rate", int(rate))
		}
		if p.graphs, last, err = rd.prepare(ctx, m); err == nil {
			err = rd.s.journal.Room(ctx)
		}
	}
	if err == nil && !rd.s.loop.Post(p) {
		err = rd.s.loop.ClosedError()
	}
	if err != nil {
		st.In.Release(m)
		return err
	}
	if last {
		return errLast
	}
	return nil
}

// prepare looks at a message outside of the loop: graphs are decoded, and the end of the
// stream is seen. It checks that all of the body is well-formed.
func (rd *reader) prepare(ctx context.Context, m *wire.Message) (list []*graphs.Graph, last bool, err error) {
	ops := message.ReadOps(m.Body())
	for ops.Next() {
		switch string(ops.Op()) {
		case "update-graph":
			g, err := rd.s.opener.Decode(ctx, graphs.Source{Comm: rd.st.Comm, UntilLeft: rd.untilLeft}, m, &ops)
			if err != nil {
				return nil, false, err
			}
			list = append(list, g)
		case "close-stream":
			last = true
		}
	}
	return list, last, ops.Err()
}

// floodRate is how many messages a second one client may send before the log names it: Dask's
// send at most a hundred, Go's some thousand.
const floodRate = 20_000

// flood notices a client that sends without end. It is slowed down as every peer is that sends
// more than the loop takes; this only says who it is, at most once a minute. The reader of the
// stream owns it.
type flood struct {
	count int
	since time.Time // of the first message that is counted
	told  time.Time
}

// message counts one and reports true, with the messages per second, when it is time to say
// something.
func (f *flood) message(rate int) (perSecond float64, tell bool) {
	if f.count++; f.count < rate {
		return 0, false
	}
	now := time.Now()
	took := now.Sub(f.since)
	f.count, f.since = 0, now
	if took > time.Second || !f.told.IsZero() && now.Sub(f.told) < time.Minute {
		return 0, false
	}
	f.told = now
	return float64(rate) / max(took.Seconds(), 1e-6), true
}
