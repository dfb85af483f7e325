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

// reader reads the messages of a stream outside of the loop and posts them to the loop.
type reader struct {
	s     *Scheduler
	st    *peers.Stream
	flood flood
}

// read posts the peer's messages to the loop until the comm or ctx ends, the peer sends close-stream or sends an
// invalid message.
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

// deliver posts a message to the loop, which releases it.
func (rd *reader) deliver(ctx context.Context, m *wire.Message) error {
	st := rd.st
	p := post{from: st, msg: m}
	var last bool
	var err error
	if st.Client != nil { // workers send no graphs and too many messages to parse twice
		if rate, warn := rd.flood.message(rd.s.cfg.flood); warn {
			rd.s.log.Warn("client floods the scheduler with messages; slowing it down",
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

// prepare parses a message outside of the loop: it decodes graphs and detects the end of the stream. It checks that the
// whole body is well-formed.
func (rd *reader) prepare(ctx context.Context, m *wire.Message) (list []*graphs.Graph, last bool, err error) {
	ops := message.ReadOps(m.Body())
	for ops.Next() {
		switch string(ops.Op()) {
		case "update-graph":
			g, err := rd.s.opener.Decode(ctx, graphs.Source{Comm: rd.st.Comm, OpenContext: rd.openContext}, m, &ops)
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

// floodRate is the number of messages per second of one client above which a warning is logged: Dask clients send at
// most a hundred, Go clients some thousands.
const floodRate = 20_000

// flood detects clients that send too many messages. Backpressure slows them down as it does every peer that sends more
// than the loop handles; flood only identifies them, at most once a minute. The reader of the stream owns it.
type flood struct {
	count  int
	since  time.Time // time of the first counted message
	logged time.Time
}

// message counts one message. It returns the messages per second and true if a warning is due.
func (f *flood) message(rate int) (perSecond float64, warn bool) {
	if f.count++; f.count < rate {
		return 0, false
	}
	now := time.Now()
	took := now.Sub(f.since)
	f.count, f.since = 0, now
	if took > time.Second || !f.logged.IsZero() && now.Sub(f.logged) < time.Minute {
		return 0, false
	}
	f.logged = now
	return float64(rate) / max(took.Seconds(), 1e-6), true
}
