package scheduler

import (
	"fmt"
	"strconv"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// post is a message of a stream for the loop.
type post struct {
	from   *stream
	msg    *wire.Message
	graphs []*graph // those of its update-graph messages, decoded by the reader
}

// handle does one post. A panic of a message ends the stream that sent it.
func (s *Scheduler) handle(p *post) {
	unkept := false
	if !p.from.gone {
		if err := s.loop.Protect(func() { unkept = s.message(p) }); err != nil {
			unkept = false
			s.log.Error("stream message panicked", "peer", p.from.comm.PeerAddr(), "panic", err, "stack", string(err.Stack))
			s.badMessage(p.from, err)
		}
	}
	if unkept && p.from.out.Reuse {
		p.msg.Recycle()
	} else {
		p.msg.Release()
	}
	p.from.credit()
}

// message does what the messages of one post say. It runs in the loop. What it reads
// borrows from the message, which is released after it. It tells whether nothing of it was
// kept for certain: reports of finished tasks are most of what arrives.
func (s *Scheduler) message(p *post) (unkept bool) {
	st := p.from
	ops := wire.ReadOps(p.msg.Body())
	var err error
	unkept = true
	for err == nil && !st.gone && ops.Next() {
		if st.worker != nil {
			unkept = unkept && string(ops.Op()) == finishedOp
			err = s.workerOp(st, &ops, p.msg)
		} else {
			unkept = false
			err = s.clientOp(st, &ops, p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", ops.Op(), err)
		}
	}
	if err == nil {
		err = ops.Err()
	}
	if err != nil {
		s.badMessage(st, err)
		return false
	}
	return unkept
}

const finishedOp = "task-finished"

// badMessage ends the stream of a peer that does not speak the protocol: what it meant is
// not known, and a part of it may be lost already.
func (s *Scheduler) badMessage(st *stream, err error) {
	s.log.Error("a peer sent what cannot be read; its stream ends", "peer", st.comm.PeerAddr(), "error", err)
	if st.worker != nil {
		s.removeWorker(st.worker, err.Error(), false, true)
	} else {
		st.leaving = true
		s.clientEnded(st)
	}
}

// finish is task-finished, the hottest message of all.
func (s *Scheduler) finish(w *worker, ops *wire.Ops) error {
	f := &s.scratch.finished
	if err := ops.TaskFinished(f); err != nil {
		return err
	}
	if len(f.Key) == 0 {
		return errNoKey
	}
	if f.RunID < 0 {
		return fmt.Errorf("run_id %d: run ids are not negative", f.RunID)
	}
	ev := &s.events.finished
	*ev = state.TaskFinished{
		Worker: w.id, Key: task.Key(val.Borrow(f.Key)), RunID: f.RunID, NBytes: s.believedSize(w, f.NBytes), Type: f.Type, TypeName: val.Borrow(f.TypeName),
	}
	if f.Stop >= f.Start && f.Start > 0 {
		// A task that took no time by the worker's clock is a short one, not one of
		// which nothing is known.
		ev.Duration = max(s.believedTime(w, f.Stop-f.Start), 1)
	}
	s.stream.finished(s, w, f)
	for _, c := range s.collectors {
		c.said(ev.Key, f.Metadata)
	}
	s.apply(ev)
	return nil
}

var errNoKey = fmt.Errorf("it has no key")

// workerOp does one message of a worker.
func (s *Scheduler) workerOp(st *stream, ops *wire.Ops, m *wire.Message) error {
	w := st.worker
	switch string(ops.Op()) {
	case finishedOp:
		return s.finish(w, ops)
	case "task-erred":
		return s.taskErred(w, ops, m)
	case "add-keys":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		for i, n := range f.sizes {
			f.sizes[i] = s.believedSize(w, n)
		}
		ev := &s.events.addKeys
		*ev = state.AddKeys{Worker: w.id, Keys: f.keys, Adopt: f.adopt, NBytes: f.sizes}
		s.apply(ev)
	case "release-worker-data":
		f, err := s.keyFields(ops)
		if err != nil {
			return err
		}
		ev := &s.events.release
		*ev = state.ReleaseWorkerData{Worker: w.id, Key: f.key}
		s.apply(ev)
	case "long-running":
		f, err := s.keyFields(ops)
		if err != nil {
			return err
		}
		s.apply(&state.LongRunning{Worker: w.id, Key: f.key, RunID: f.runID, Duration: f.duration})
	case "reschedule":
		f, err := s.keyFields(ops)
		if err != nil {
			return err
		}
		s.apply(&state.Reschedule{Worker: w.id, Key: f.key, RunID: f.runID})
	case "request-refresh-who-has":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		s.apply(&state.RequestRefreshWhoHas{Worker: w.id, Keys: f.keys})
	case "steal-response":
		f, err := s.keyFields(ops)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(f.stimulus, stealPrefix), 10, 64)
		if err != nil {
			return fmt.Errorf("stimulus_id %q is none of ours", f.stimulus)
		}
		s.apply(&state.StealResponse{Worker: w.id, Key: f.key, Steal: n, State: f.state})
	case "worker-status-change":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		return s.statusChange(w, f.status)
	case "log-event":
		return s.streamLogEvent(ops, m, w.address)
	case "close-stream":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		// A worker that ends because of what its tasks did says so, and they are to blame.
		if cause := cleanCause(f.reason); cause != "" && w.cause == "" {
			w.cause = cause
			close(w.caused)
		}
		st.leaving = w.cause == ""
	case "keep-alive":
	default:
		return s.prims.Op(ops, m, "")
	}
	return nil
}

func (s *Scheduler) statusChange(w *worker, name string) error {
	status, ok := state.ParseStatus(name)
	if !ok {
		return fmt.Errorf("status %q is not known", name)
	}
	sw := s.state.Worker(w.id)
	if sw == nil || sw.Data != w || sw.Status() == status {
		return nil
	}
	before := sw.Status()
	s.apply(&state.WorkerStatusChange{Worker: w.id, Status: status})
	s.topics.Publish(msgpack.MapOf("action", "worker-status-change", "prev-status", before.String(), "status", status.String()), w.address)
	s.workersChanged.Fire()
	return nil
}

// fireAndForget is the client in whose name others make tasks run once that they do not
// want to wait for.
const fireAndForget = "fire-and-forget"

// clientOp does one message of a client.
func (s *Scheduler) clientOp(st *stream, ops *wire.Ops, p *post) error {
	c := st.client
	switch string(ops.Op()) {
	case "update-graph":
		if len(p.graphs) == 0 {
			return fmt.Errorf("it was not decoded")
		}
		g := p.graphs[0]
		p.graphs = p.graphs[1:]
		s.updateGraph(c, g)
	case "client-desires-keys":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		if f.client == fireAndForget {
			s.desire(fireAndForget, f.keys...)
			return nil
		}
		s.desire(c.name, f.keys...)
	case "client-releases-keys":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		s.release(c.name, f.keys...)
	case "cancel-keys":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		s.journal.Release(c.name, f.keys)
		s.apply(&state.CancelKeys{Client: c.id, Keys: f.keys, Force: f.force, Reason: strings.Clone(f.reason), Msg: strings.Clone(f.msg)})
	case "report-key":
		f, err := s.keyFields(ops)
		if err != nil {
			return err
		}
		s.apply(&state.ReportKey{Client: c.id, Key: f.key})
	case "heartbeat-client":
		c.lastSeen = s.loop.Now()
		out := st.begin()
		out.Body, _ = msgpack.Append(out.Body, msgpack.MapOf("op", "adjust-heartbeat-interval", "interval", 10*intervalFor(len(s.clients))))
	case "update-data":
		return s.updateDataOp(c, ops, p.msg)
	case "close-client", "close-stream":
		st.leaving = true
	case "subscribe-topic":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		return s.topics.Subscribe(strings.Clone(f.topic), c.name)
	case "unsubscribe-topic":
		f, err := s.fields(ops)
		if err != nil {
			return err
		}
		s.topics.Unsubscribe(f.topic, c.name)
	case "log-event":
		return s.streamLogEvent(ops, p.msg, "")
	default:
		return s.prims.Op(ops, p.msg, c.name)
	}
	return nil
}

// keep returns an exception that outlives its message, still closed.
func (s *Scheduler) keep(v any) any {
	c, err := val.Closed(v)
	if err != nil {
		s.log.Warn("an exception cannot be kept", "error", err)
		return nil
	}
	return c
}

// taskErred keeps the worker's exception, closed, for the clients.
func (s *Scheduler) taskErred(w *worker, ops *wire.Ops, m *wire.Message) error {
	values, err := val.OpFields(ops, m)
	if err != nil {
		return err
	}
	ev := &state.TaskErred{Worker: w.id}
	if ev.Key, err = val.KeyOf(values, "key"); err != nil {
		return err
	}
	ev.RunID = val.Field(values, "run_id")
	ev.ExceptionText, ev.TracebackText = values.GetString("exception_text"), values.GetString("traceback_text")
	if v, ok := values.Get("exception"); ok {
		ev.Exception = s.keep(v)
	}
	if v, ok := values.Get("traceback"); ok {
		ev.Traceback = s.keep(v)
	}
	if v, ok := values.Get("startstops"); ok {
		s.stream.erred(s, w, ev.Key, v, values)
	}
	s.apply(ev)
	return nil
}
