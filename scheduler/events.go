package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/rpc"
	"go.millstream.dev/scheduler/state"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// maxTopics bounds the topics that peers can make by logging to them.
const maxTopics = 100_000

// topic is what was logged under one name, and who wants to hear of it. The loop owns it.
type topic struct {
	events      []event // a ring, oldest at next
	next        int
	count       int64
	subscribers map[string]bool
}

type event struct {
	at  time.Time
	msg any
}

func (t *topic) add(e event, limit int) {
	t.count++
	if len(t.events) < limit {
		t.events = append(t.events, e)
		return
	}
	t.events[t.next] = e
	t.next = (t.next + 1) % limit
}

func (t *topic) list() []any {
	out := make([]any, 0, len(t.events))
	for i := range t.events {
		e := &t.events[(t.next+i)%len(t.events)]
		out = append(out, []any{seconds(e.at), e.msg})
	}
	return out
}

func (s *Scheduler) topic(name string) *topic {
	t := s.topics[name]
	if t == nil {
		if len(s.topics) >= maxTopics {
			return &topic{}
		}
		t = &topic{subscribers: map[string]bool{}}
		s.topics[name] = t
	}
	return t
}

// logEvent logs a message, which must not change any more, under topics and tells those
// who have subscribed. It runs in the loop.
func (s *Scheduler) logEvent(msg any, topics ...string) {
	for _, name := range topics {
		t := s.topic(name)
		e := event{s.now, msg}
		t.add(e, s.cfg.LogLength)
		for c := range t.subscribers {
			if to := s.clients[c]; to != nil && to.st != nil && !to.st.gone {
				s.sendValue(to.st, msgpack.MapOf("op", "event", "topic", name, "event", []any{seconds(e.at), msg}))
			}
		}
	}
}

// sendValue says a message that is rare enough to be made of values.
func (s *Scheduler) sendValue(st *stream, v any) {
	m, err := wire.Encode(v, st.comm.Info().EncodeOptions())
	if err != nil {
		s.log.Warn("a message cannot be sent", "peer", st.comm.PeerAddr(), "error", err)
		return
	}
	if len(m.Frames) > 1 {
		// Its markers count frames from the first: it goes in a batch of its own.
		if err := st.out.flush(s.position); err != nil {
			s.log.Warn("peer dropped", "error", err)
		}
	}
	out := st.begin()
	out.body = append(out.body, m.Body()...)
	out.frames = append(out.frames, m.Frames[1:]...)
	if len(m.Frames) > 1 {
		if err := st.out.flush(s.position); err != nil {
			s.log.Warn("peer dropped", "error", err)
		}
	}
}

func (s *Scheduler) subscribe(topic, client string) { s.topic(topic).subscribers[client] = true }

func (s *Scheduler) unsubscribe(topic, client string) {
	if t := s.topics[topic]; t != nil {
		delete(t.subscribers, client)
	}
}

func (s *Scheduler) unsubscribeAll(client string) {
	for _, t := range s.topics {
		delete(t.subscribers, client)
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
	s.logEvent(msg, topics...)
	s.log.Debug("state", "event", a.Text)
}

// streamLogEvent is log-event on a stream: topic is a text or a list of them.
func (s *Scheduler) streamLogEvent(ops *wire.Ops, m *wire.Message, worker string) error {
	values, err := opValues(ops, m)
	if err != nil {
		return err
	}
	msg, _ := values.Get("msg")
	names, _ := values.Get("topic")
	return s.logFrom(names, wire.Clone(msg), worker)
}

func (s *Scheduler) logFrom(names, msg any, worker string) error {
	topics, err := texts(wire.Clone(names))
	if err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	for _, t := range topics {
		if d, ok := msg.(msgpack.Map); ok && worker != "" && worker != t {
			d.Set("worker", worker)
			msg = d
		}
	}
	s.logEvent(msg, topics...)
	return nil
}

// texts reads one text or a list of them.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, 0, len(v))
		for _, x := range v {
			t, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("%v is no text", x)
			}
			out = append(out, t)
		}
		return out, nil
	case wire.Set:
		return texts([]any(v))
	}
	return nil, fmt.Errorf("%v is no text or list of them", v)
}

// watcher is a comm that wants to hear of workers that come and go
// (subscribe_worker_status).
type watcher struct {
	st *stream
}

// watch sends the event of a worker that came or went to the watchers, in Dask's form: a list of the event's name and
// what it is about.
func (s *Scheduler) watch(w *worker, came bool) {
	s.signalWorkers()
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
	hello, err := ask(ctx, s, func() (msgpack.Map, error) {
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
	st.out.start()
	for err == nil { // it says nothing more; its end is all that matters
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.do(context.Background(), func() {
		delete(s.watchers, x)
		st.gone = true
	})
	st.out.abort(err)
	<-st.out.done
	return rpc.NoReply, nil
}
