package scheduler

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// reader reads the messages of a stream outside of the loop and posts them to it.
type reader struct {
	s  *Scheduler
	st *peers.Stream
	// ahead are messages that were read while a graph was opened, before the error that ended the comm.
	ahead []readAhead
}

// read posts the peer's messages to the loop until the comm or ctx ends, the peer says
// close-stream or sends what is no message.
func (rd *reader) read(ctx context.Context) error {
	f := flood{since: time.Now()}
	st := rd.st
	defer rd.releaseAhead()
	for {
		m, err := rd.next(ctx)
		if errors.Is(err, comm.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if st.Client != nil {
			if rate, tell := f.message(rd.s.cfg.flood); tell {
				rd.s.log.Warn("a client sends without end; it is slowed down, others are served as before",
					"client", st.Client.Name, "peer", st.Comm.PeerAddr(), "rate", int(rate))
			}
		}
		p := post{from: st, msg: m}
		var last bool
		// Workers send no graphs, and so many messages that each is walked over once only.
		if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
			err = errNoBody
		} else if st.Client != nil {
			p.graphs, last, err = rd.prepare(ctx, m)
		}
		if err != nil {
			m.Release()
			return err
		}
		if st.Client != nil {
			if err := rd.s.journal.Room(ctx); err != nil {
				m.Release()
				return err
			}
		}
		if err := st.Admit(ctx, rd.s.loop); err != nil {
			m.Release()
			return err
		}
		if !rd.s.loop.Post(p) {
			m.Release()
			return rd.s.loop.ClosedError()
		}
		if last {
			return nil
		}
	}
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

var errNoBody = errors.New("the message has no body in host memory")

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
