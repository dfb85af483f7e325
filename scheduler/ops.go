package scheduler

import (
	"fmt"
	"strconv"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/messages"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/scheduler/internal/workers"
	"go.millstream.dev/wire"
)

// dispatcher does what the messages of streams say. The loop owns it.
type dispatcher struct {
	s *Scheduler

	// Memory that is used from one message to the next.
	finished wire.TaskFinished
	keys     []task.Key
	events   struct {
		finished state.TaskFinished
		addKeys  state.AddKeys
		release  state.ReleaseWorkerData
	}
}

// post is a message of a stream for the loop.
type post struct {
	from   *peers.Stream
	msg    *wire.Message
	graphs []*graphs.Graph // those of its update-graph messages, decoded by the reader
}

// handle does one post. A panic of a message ends the stream that sent it.
func (d *dispatcher) handle(p *post) {
	unkept := false
	if !p.from.Gone {
		if err := d.s.loop.Protect(func() { unkept = d.message(p) }); err != nil {
			unkept = false
			d.s.log.Error("stream message panicked", "peer", p.from.Comm.PeerAddr(), "panic", err, "stack",
				string(err.Stack))
			d.badMessage(p.from, err)
		}
	}
	if unkept && p.from.Out.Copies() {
		p.msg.Recycle()
	} else {
		p.msg.Release()
	}
	p.from.Credit()
}

// message does what the messages of one post say. It runs in the loop. What it reads
// borrows from the message, which is released after it. It tells whether nothing of it was
// kept for certain: reports of finished tasks are most of what arrives.
func (d *dispatcher) message(p *post) (unkept bool) {
	st := p.from
	ops := wire.ReadOps(p.msg.Body())
	var err error
	unkept = true
	for err == nil && !st.Gone && ops.Next() {
		if st.Worker != nil {
			unkept = unkept && string(ops.Op()) == finishedOp
			err = d.workerOp(st, &ops, p.msg)
		} else {
			unkept = false
			err = d.clientOp(st, &ops, p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", ops.Op(), err)
		}
	}
	if err == nil {
		err = ops.Err()
	}
	if err != nil {
		d.badMessage(st, err)
		return false
	}
	return unkept
}

const finishedOp = "task-finished"

// badMessage ends the stream of a peer that does not speak the protocol: what it meant is
// not known, and a part of it may be lost already.
func (d *dispatcher) badMessage(st *peers.Stream, err error) {
	d.s.log.Error("a peer sent what cannot be read; its stream ends", "peer", st.Comm.PeerAddr(), "error", err)
	if st.Worker != nil {
		d.s.workers.Remove(st.Worker, err.Error(), false, true)
	} else {
		st.Leaving = true
		d.s.clients.Ended(st)
	}
}

// finish is task-finished, the hottest message of all.
func (d *dispatcher) finish(w *peers.Worker, ops *wire.Ops) error {
	f := &d.finished
	if err := ops.TaskFinished(f); err != nil {
		return err
	}
	if len(f.Key) == 0 {
		return errNoKey
	}
	if f.RunID < 0 {
		return fmt.Errorf("run_id %d: run ids are not negative", f.RunID)
	}
	ev := &d.events.finished
	*ev = state.TaskFinished{
		Worker: w.ID, Key: task.Key(val.Borrow(f.Key)), RunID: f.RunID, NBytes: w.BelievedSize(d.s.log, f.NBytes),
		Type: f.Type, TypeName: val.Borrow(f.TypeName),
	}
	if f.Stop >= f.Start && f.Start > 0 {
		// A task that took no time by the worker's clock is a short one, not one of
		// which nothing is known.
		ev.Duration = max(w.BelievedTime(d.s.log, f.Stop-f.Start), 1)
	}
	d.s.stream.Finished(w.Address, f)
	d.s.collectors.Finished(ev.Key, f.Metadata)
	d.s.apply(ev)
	return nil
}

var errNoKey = fmt.Errorf("it has no key")

// workerOp does one message of a worker.
func (d *dispatcher) workerOp(st *peers.Stream, ops *wire.Ops, m *wire.Message) error {
	w := st.Worker
	switch string(ops.Op()) {
	case finishedOp:
		return d.finish(w, ops)
	case "task-erred":
		return d.taskErred(w, ops, m)
	case "add-keys":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		for i, n := range f.sizes {
			f.sizes[i] = w.BelievedSize(d.s.log, n)
		}
		ev := &d.events.addKeys
		*ev = state.AddKeys{Worker: w.ID, Keys: f.keys, Adopt: f.adopt, NBytes: f.sizes}
		d.s.apply(ev)
	case "release-worker-data":
		f, err := d.keyFields(ops)
		if err != nil {
			return err
		}
		ev := &d.events.release
		*ev = state.ReleaseWorkerData{Worker: w.ID, Key: f.key}
		d.s.apply(ev)
	case "long-running":
		f, err := d.keyFields(ops)
		if err != nil {
			return err
		}
		d.s.apply(&state.LongRunning{Worker: w.ID, Key: f.key, RunID: f.runID, Duration: f.duration})
	case "reschedule":
		f, err := d.keyFields(ops)
		if err != nil {
			return err
		}
		d.s.apply(&state.Reschedule{Worker: w.ID, Key: f.key, RunID: f.runID})
	case "request-refresh-who-has":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		d.s.apply(&state.RequestRefreshWhoHas{Worker: w.ID, Keys: f.keys})
	case "steal-response":
		f, err := d.keyFields(ops)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(f.stimulus, messages.StealPrefix), 10, 64)
		if err != nil {
			return fmt.Errorf("stimulus_id %q is none of ours", f.stimulus)
		}
		d.s.apply(&state.StealResponse{Worker: w.ID, Key: f.key, Steal: n, State: f.state})
	case "worker-status-change":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		return d.s.workers.SetStatus(w, f.status)
	case "log-event":
		return d.logEvent(ops, m, w.Address)
	case "close-stream":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		// A worker that ends because of what its tasks did says so, and they are to blame.
		if cause := workers.CleanCause(f.reason); cause != "" && w.Cause == "" {
			w.Cause = cause
			close(w.Caused)
		}
		st.Leaving = w.Cause == ""
	case "keep-alive":
	default:
		return d.s.prims.Op(ops, m, "")
	}
	return nil
}

// clientOp does one message of a client.
func (d *dispatcher) clientOp(st *peers.Stream, ops *wire.Ops, p *post) error {
	c := st.Client
	switch string(ops.Op()) {
	case "update-graph":
		if len(p.graphs) == 0 {
			return fmt.Errorf("it was not decoded")
		}
		g := p.graphs[0]
		p.graphs = p.graphs[1:]
		d.s.updateGraph(c, g)
	case "client-desires-keys":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		if f.client == peers.FireAndForget {
			d.s.clients.Desire(peers.FireAndForget, f.keys...)
			return nil
		}
		d.s.clients.Desire(c.Name, f.keys...)
	case "client-releases-keys":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		d.s.clients.Release(c.Name, f.keys...)
	case "cancel-keys":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		d.s.journal.Release(c.Name, f.keys)
		d.s.apply(&state.CancelKeys{Client: c.ID, Keys: f.keys, Force: f.force, Reason: strings.Clone(f.reason),
			Msg: strings.Clone(f.msg)})
	case "report-key":
		f, err := d.keyFields(ops)
		if err != nil {
			return err
		}
		d.s.apply(&state.ReportKey{Client: c.ID, Key: f.key})
	case "heartbeat-client":
		c.LastSeen = d.s.loop.Now()
		out := st.Begin()
		out.Body, _ = msgpack.Append(out.Body, msgpack.MapOf("op", "adjust-heartbeat-interval", "interval",
			10*peers.IntervalFor(len(d.s.clients.ByName))))
	case "update-data":
		return d.s.data.UpdateOp(c, ops, p.msg)
	case "close-client", "close-stream":
		st.Leaving = true
	case "subscribe-topic":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		return d.s.topics.Subscribe(strings.Clone(f.topic), c.Name)
	case "unsubscribe-topic":
		f, err := d.fields(ops)
		if err != nil {
			return err
		}
		d.s.topics.Unsubscribe(f.topic, c.Name)
	case "log-event":
		return d.logEvent(ops, p.msg, "")
	default:
		return d.s.prims.Op(ops, p.msg, c.Name)
	}
	return nil
}

// keep returns an exception that outlives its message, still closed.
func (d *dispatcher) keep(v any) any {
	c, err := val.Closed(v)
	if err != nil {
		d.s.log.Warn("an exception cannot be kept", "error", err)
		return nil
	}
	return c
}

// taskErred keeps the worker's exception, closed, for the clients.
func (d *dispatcher) taskErred(w *peers.Worker, ops *wire.Ops, m *wire.Message) error {
	values, err := val.OpFields(ops, m)
	if err != nil {
		return err
	}
	ev := &state.TaskErred{Worker: w.ID}
	if ev.Key, err = val.KeyOf(values, "key"); err != nil {
		return err
	}
	ev.RunID = val.Field(values, "run_id")
	ev.ExceptionText, ev.TracebackText = values.GetString("exception_text"), values.GetString("traceback_text")
	if v, ok := values.Get("exception"); ok {
		ev.Exception = d.keep(v)
	}
	if v, ok := values.Get("traceback"); ok {
		ev.Traceback = d.keep(v)
	}
	if v, ok := values.Get("startstops"); ok {
		d.s.stream.Erred(w.Address, ev.Key, v, values)
	}
	d.s.apply(ev)
	return nil
}

// logEvent is log-event on a stream: topic is a text or a list of them.
func (d *dispatcher) logEvent(ops *wire.Ops, m *wire.Message, worker string) error {
	values, err := val.OpFields(ops, m)
	if err != nil {
		return err
	}
	msg, _ := values.Get("msg")
	names, _ := values.Get("topic")
	return d.s.topics.PublishFrom(names, wire.Clone(msg), worker)
}
