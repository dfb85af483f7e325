package scheduler

import (
	"context"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// sendValue says a message that is rare enough to be made of values.
func (s *Scheduler) sendValue(st *stream, v any) {
	m, err := wire.Encode(v, st.comm.Info().EncodeOptions())
	if err != nil {
		s.log.Warn("a message cannot be sent", "peer", st.comm.PeerAddr(), "error", err)
		return
	}
	if len(m.Frames) > 1 {
		// Its markers count frames from the first: it goes in a batch of its own.
		if err := st.out.Flush(s.journal.Position()); err != nil {
			s.log.Warn("peer dropped", "error", err)
		}
	}
	out := st.begin()
	out.Body = append(out.Body, m.Body()...)
	out.Frames = append(out.Frames, m.Frames[1:]...)
	if len(m.Frames) > 1 {
		if err := st.out.Flush(s.journal.Position()); err != nil {
			s.log.Warn("peer dropped", "error", err)
		}
	}
}

// logAction logs what the state wants people to know.
func (s *Scheduler) logAction(a *state.Action) {
	msg := msgpack.MapOf("action", strings.Clone(a.Text))
	if a.Task != nil {
		msg = append(msg, msgpack.Pair{Key: "key", Value: a.Task.Key().String()})
	}
	topics := []string{"scheduler"}
	if w := s.worker(a.Worker); w != nil {
		msg = append(msg, msgpack.Pair{Key: "worker", Value: w.address})
		topics = append(topics, w.address)
	}
	s.topics.Publish(msg, topics...)
	if a.Text == state.Refused {
		s.log.Warn(state.Refused, "worker", msg.GetString("worker"), "key", msg.GetString("key"))
		return
	}
	s.log.Debug("state", "event", a.Text)
}

// streamLogEvent is log-event on a stream: topic is a text or a list of them.
func (s *Scheduler) streamLogEvent(ops *wire.Ops, m *wire.Message, worker string) error {
	values, err := val.OpFields(ops, m)
	if err != nil {
		return err
	}
	msg, _ := values.Get("msg")
	names, _ := values.Get("topic")
	return s.topics.PublishFrom(names, wire.Clone(msg), worker)
}

// watcher is a comm that wants to hear of workers that come and go
// (subscribe_worker_status).
type watcher struct {
	st *stream
}

// watch sends the event of a worker that came or went to the watchers, in Dask's form: a list of the event's name and
// what it is about.
func (s *Scheduler) watch(w *worker, came bool) {
	s.workersChanged.Fire()
	for x := range s.watchers {
		if came {
			id := s.workerIdentity(w)
			id.Delete("metrics")
			id.Delete("last_seen")
			s.sendValue(x.st, []any{"add", msgpack.MapOf("workers", msgpack.MapOf(w.address, id))})
		} else {
			s.sendValue(x.st, []any{"remove", w.address})
		}
	}
}

// subscribeWorkerStatus is subscribe_worker_status: the comm becomes a stream of workers
// that come and go. Dask's clusters use it.
func (s *Scheduler) subscribeWorkerStatus(ctx context.Context, r *rpc.Request) (any, error) {
	r.Takeover()
	st := s.newStream(r.Comm)
	x := &watcher{st}
	hello, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		s.watchers[x] = true
		id := s.identity(-1)
		workers, _ := id.Get("workers")
		m, _ := workers.(msgpack.Map)
		for i := range m {
			d, _ := m[i].Value.(msgpack.Map)
			d.Delete("metrics")
			d.Delete("last_seen")
			m[i].Value = d
		}
		return id, nil
	})
	if err != nil {
		return nil, err
	}
	err = s.say(ctx, r.Comm, hello)
	st.out.Start()
	for err == nil { // it says nothing more; its end is all that matters
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.loop.Do(context.Background(), func() {
		delete(s.watchers, x)
		st.gone = true
	})
	st.out.Abort(err)
	<-st.out.Done
	return rpc.NoReply, nil
}
