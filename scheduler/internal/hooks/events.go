package hooks

import (
	"strconv"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

// Events are arrays of a hook's name and its arguments: see internal/dask/python/millstream/_plugins.py. All functions
// of this file run in the loop, and do nothing if no plugin has the hook.

// finishing is the report of a worker about a task whose event is being applied.
type finishing struct {
	key                  task.Key
	worker               string
	typename             string
	nbytes               int64
	startstops, metadata msgpack.Raw
	exception, traceback string
	erred                bool
}

// holding are events that are queued after the event of the graph that causes them.
type holding struct {
	buf  []byte
	ends []int
	lost int
}

// Finished provides the arguments of the transitions of a task that a worker has finished, until Done.
func (s *Hooks) Finished(worker string, f *message.TaskFinished) {
	if s.want&Transition != 0 {
		s.finish = &finishing{key: f.Key, worker: worker, typename: f.TypeName, nbytes: f.NBytes,
			startstops: f.StartStops.Raw, metadata: f.Metadata}
	}
}

// Erred provides the arguments of the transitions of a task that has failed on a worker, until Done.
func (s *Hooks) Erred(worker string, f *message.TaskErred) {
	if s.want&Transition != 0 {
		s.finish = &finishing{key: f.Key, worker: worker, startstops: f.StartStops.Raw, exception: f.ExceptionText,
			traceback: f.TracebackText, erred: true}
	}
}

// Done ends Finished and Erred: the event has been applied.
func (s *Hooks) Done() { s.finish = nil }

// moved queues a transition of a task. The state calls it while it applies an event.
func (s *Hooks) moved(t *state.Task, to state.TaskState) {
	encode := func(b []byte) []byte { return s.appendTransition(b, t, to) }
	h := s.held
	switch {
	case h == nil:
		s.queue.put(false, encode)
	case len(h.ends) >= s.MaxEvents || len(h.buf) >= s.MaxBytes:
		h.lost++
	default:
		h.buf = encode(h.buf)
		h.ends = append(h.ends, len(h.buf))
	}
}

func (s *Hooks) appendTransition(b []byte, t *state.Task, to state.TaskState) []byte {
	b = msgpack.AppendString(msgpack.AppendArrayHeader(b, 6), "transition")
	b = t.Key().Append(b)
	b = msgpack.AppendString(b, t.State().String())
	b = msgpack.AppendString(b, to.String())
	b = s.appendStimulus(b)
	f := s.finish
	if f == nil || f.key != t.Key() || t.State() != state.Processing {
		return msgpack.AppendMapHeader(b, 0)
	}
	b = msgpack.AppendMapHeader(b, 4)
	b = msgpack.AppendString(msgpack.AppendString(b, "worker"), f.worker)
	b = appendRaw(msgpack.AppendString(b, "startstops"), f.startstops)
	if f.erred {
		b = msgpack.AppendString(msgpack.AppendString(b, "exception_text"), f.exception)
		return msgpack.AppendString(msgpack.AppendString(b, "traceback_text"), f.traceback)
	}
	b = msgpack.AppendString(msgpack.AppendString(b, "typename"), f.typename)
	return msgpack.AppendInt(msgpack.AppendString(b, "nbytes"), f.nbytes)
}

func appendRaw(b []byte, raw msgpack.Raw) []byte {
	if len(raw) == 0 {
		return msgpack.AppendNil(b)
	}
	return append(b, raw...)
}

// appendStimulus appends the ID of the event that is applied, in the form of transition logs.
func (s *Hooks) appendStimulus(b []byte) []byte {
	cause, event := state.Stimulus(s.State)
	return msgpack.AppendString(b, cause+"-"+strconv.FormatUint(event, 10))
}

// Hold delays transitions until Graph, so that plugins see the graph first.
func (s *Hooks) Hold() {
	if s.want&UpdateGraph != 0 {
		s.held = &holding{}
	}
}

// Graph queues update_graph, and the transitions since Hold.
func (s *Hooks) Graph(client string, ev *state.UpdateGraph) {
	h := s.held
	if h == nil {
		return
	}
	s.held = nil
	if ev.Err == nil {
		s.queue.put(false, func(b []byte) []byte { return s.appendGraph(b, client, ev) })
	}
	at := 0
	for _, end := range h.ends {
		s.queue.put(false, func(b []byte) []byte { return append(b, h.buf[at:end]...) })
		at = end
	}
	if h.lost > 0 {
		s.queue.mu.Lock()
		s.queue.skipped += uint64(h.lost)
		s.queue.dropped += uint64(h.lost)
		s.queue.mu.Unlock()
	}
}

func (s *Hooks) appendGraph(b []byte, client string, ev *state.UpdateGraph) []byte {
	b = msgpack.AppendString(msgpack.AppendArrayHeader(b, 5), "update_graph")
	b = msgpack.AppendString(b, client)
	b = msgpack.AppendArrayHeader(b, len(ev.Keys))
	for _, k := range ev.Keys {
		b = k.Append(b)
	}
	b = msgpack.AppendArrayHeader(b, len(ev.Graph.Nodes))
	for i := range ev.Graph.Nodes {
		n := &ev.Graph.Nodes[i]
		b = n.Key.Append(msgpack.AppendArrayHeader(b, 3))
		if t := s.State.Task(n.Key); t != nil {
			p := t.Priority()
			b = msgpack.AppendFloat(msgpack.AppendArrayHeader(b, 3), p.User)
			b = msgpack.AppendInt(msgpack.AppendFloat(b, p.Generation), p.Order)
		} else {
			b = msgpack.AppendNil(b)
		}
		if n.Annotations != nil {
			b = appendRaw(b, n.Annotations.Raw)
		} else {
			b = msgpack.AppendNil(b)
		}
	}
	return s.appendStimulus(b)
}

// WorkerChanged queues add_worker or remove_worker.
func (s *Hooks) WorkerChanged(address string, added bool) {
	if added {
		s.named(AddWorker, "add_worker", address)
	} else {
		s.named(RemoveWorker, "remove_worker", address)
	}
}

// ClientChanged queues add_client or remove_client.
func (s *Hooks) ClientChanged(name string, added bool) {
	if added {
		s.named(AddClient, "add_client", name)
	} else {
		s.named(RemoveClient, "remove_client", name)
	}
}

// Restarted queues restart.
func (s *Hooks) Restarted() { s.named(Restart, "restart", "") }

// named queues an event of a worker or client, with the ID of its stimulus.
func (s *Hooks) named(h Hook, hook, name string) {
	if s.want&h == 0 {
		return
	}
	s.queue.put(true, func(b []byte) []byte {
		b = msgpack.AppendString(msgpack.AppendArrayHeader(b, 3), hook)
		return s.appendStimulus(msgpack.AppendString(b, name))
	})
}

// Logged queues log_event.
func (s *Hooks) Logged(topic string, msg any) {
	if s.want&LogEvent == 0 {
		return
	}
	s.queue.put(false, func(b []byte) []byte {
		before := len(b)
		b = msgpack.AppendString(msgpack.AppendArrayHeader(b, 3), "log_event")
		b, err := msgpack.Append(msgpack.AppendString(b, topic), msg)
		if err != nil { // a message that only Python can open
			b = msgpack.AppendString(msgpack.AppendArrayHeader(b[:before], 3), "log_event")
			b = msgpack.AppendNil(msgpack.AppendString(b, topic))
		}
		return b
	})
}
