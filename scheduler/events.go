package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// maxTopics bounds the topics that peers can make by logging to them. Beyond it one without
// subscribers makes room.
const maxTopics = 100_000

// topic is what was logged under one name, and who wants to hear of it. The loop owns it.
type topic struct {
	events      []event // the oldest first, from first on
	first       int
	count       int64
	bytes       int64 // of events
	subscribers map[string]bool
}

type event struct {
	at    time.Time
	msg   any
	bytes int64
}

// add appends an event and drops the oldest beyond the limits. It returns by how many bytes the topic has grown.
func (t *topic) add(e event, limit int, limitBytes int64) int64 {
	before := t.bytes
	t.count++
	t.events = append(t.events, e)
	t.bytes += e.bytes
	for t.len() > limit || t.bytes > limitBytes && t.len() > 1 {
		t.drop()
	}
	return t.bytes - before
}

func (t *topic) len() int { return len(t.events) - t.first }

// drop forgets the oldest event.
func (t *topic) drop() {
	t.bytes -= t.events[t.first].bytes
	t.events[t.first] = event{}
	if t.first++; t.first > 16 && t.first > len(t.events)/2 {
		n := copy(t.events, t.events[t.first:])
		clear(t.events[n:])
		t.events, t.first = t.events[:n], 0
	}
}

func (t *topic) list() []any {
	out := make([]any, 0, t.len())
	for _, e := range t.events[t.first:] {
		out = append(out, []any{seconds(e.at), e.msg})
	}
	return out
}

// topic returns a topic, new if need be; nil when there are too many with subscribers.
func (s *Scheduler) topic(name string) *topic {
	t := s.topics[name]
	if t != nil {
		return t
	}
	if len(s.topics) >= maxTopics && !s.dropTopic() {
		return nil
	}
	t = &topic{subscribers: map[string]bool{}}
	s.topics[name] = t
	return t
}

// dropTopic forgets some topic that no client has subscribed to.
func (s *Scheduler) dropTopic() bool {
	tried := 0
	for name, t := range s.topics { // in no order
		if len(t.subscribers) == 0 && name != "all" && name != "scheduler" {
			s.eventBytes -= t.bytes
			delete(s.topics, name)
			return true
		}
		if tried++; tried > 1000 {
			return false
		}
	}
	return false
}

// logEvent logs a message, which must not change any more, under topics and tells those
// who have subscribed. It runs in the loop.
func (s *Scheduler) logEvent(msg any, topics ...string) {
	size, _ := measure(msg)
	limit := s.cfg.EventBytes
	for _, name := range topics {
		t := s.topic(name)
		if t == nil {
			continue
		}
		e := event{s.now, msg, size + nameSize("")}
		if size <= limit/16 { // larger ones are heard, not kept
			s.eventBytes += t.add(e, s.cfg.LogLength, limit/8)
		}
		for c := range t.subscribers {
			if to := s.clients[c]; to != nil && to.st != nil && !to.st.gone {
				s.sendValue(to.st, msgpack.MapOf("op", "event", "topic", name, "event", []any{seconds(e.at), msg}))
			}
		}
	}
	if s.eventBytes > limit {
		s.thinEvents()
	}
}

// thinEvents forgets the older half of the events of each topic: what all of them hold is above the limit.
func (s *Scheduler) thinEvents() {
	before := s.eventBytes
	for s.eventBytes > s.cfg.EventBytes/2 {
		s.eventBytes = 0
		for name, t := range s.topics {
			for range (t.len() + 1) / 2 {
				t.drop()
			}
			s.eventBytes += t.bytes
			if t.len() == 0 && len(t.subscribers) == 0 {
				delete(s.topics, name)
			}
		}
	}
	s.log.Warn("events dropped: above the limit in bytes", "before", before, "after", s.eventBytes, "limit", s.cfg.EventBytes)
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

func (s *Scheduler) subscribe(topic, client string) error {
	t := s.topic(topic)
	if t == nil {
		return fmt.Errorf("topic %.60q: there are %d topics with subscribers", topic, len(s.topics))
	}
	t.subscribers[client] = true
	return nil
}

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
	if a.Text == state.Refused {
		s.log.Warn(state.Refused, "worker", msg.GetString("worker"), "key", msg.GetString("key"))
		return
	}
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
