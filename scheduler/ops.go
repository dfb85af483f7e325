package scheduler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/messages"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/scheduler/internal/workers"
	"go.millstream.dev/wire"
)

// dispatcher applies the messages of streams. The loop owns it.
type dispatcher struct {
	s *Scheduler

	// Memory that is reused by the next message.
	in struct {
		finished message.TaskFinished
		addKeys  message.AddKeys
		refresh  message.RequestRefreshWhoHas
		desires  message.ClientDesiresKeys
		releases message.ClientReleasesKeys
		cancels  message.CancelKeys
	}
	events struct {
		finished state.TaskFinished
		addKeys  state.AddKeys
		release  state.ReleaseWorkerData
	}
}

// post is a message of a stream for the loop.
type post struct {
	from   *peers.Stream
	msg    *wire.Message
	graphs []*graphs.Graph // of update-graph messages, decoded by the reader
}

// handle applies one post. A panic closes the stream that sent the message.
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
		p.from.In.Recycle(p.msg)
	} else {
		p.from.In.Release(p.msg)
	}
}

// message applies the messages of one post. It runs in the loop. The arguments borrow from the message, which is
// released afterwards. It reports whether certainly no part of the message was kept, as with reports of finished tasks,
// which are most of the traffic.
func (d *dispatcher) message(p *post) (unkept bool) {
	st := p.from
	ops := message.ReadOps(p.msg.Body())
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
		if bad := (*message.Error)(nil); err != nil && !errors.As(err, &bad) {
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

// badMessage closes the stream of a peer after a protocol error: the rest of the message may be lost.
func (d *dispatcher) badMessage(st *peers.Stream, err error) {
	d.s.log.Error("invalid stream message; closing stream", "peer", st.Comm.PeerAddr(), "error", err)
	if st.Worker != nil {
		d.s.workers.Remove(st.Worker, err.Error(), false, true)
	} else {
		st.Leaving = true
		d.s.clients.Ended(st)
	}
}

// finish serves task-finished, the most frequent message.
func (d *dispatcher) finish(w *peers.Worker, ops *message.Ops) error {
	f := &d.in.finished
	if err := f.Read(ops); err != nil {
		return err
	}
	ev := &d.events.finished
	*ev = state.TaskFinished{
		Worker: w.ID, Key: f.Key, RunID: f.RunID, NBytes: w.ClampSize(d.s.log, f.NBytes), Type: f.Type,
		TypeName: f.TypeName, Value: shortScalar(f.Value),
	}
	if t := &f.StartStops; t.Stop >= t.Start && t.Start > 0 {
		// A duration of zero by the worker's clock is a short task, not an unknown duration.
		ev.Duration = max(w.ClampTime(d.s.log, t.Stop-t.Start), 1)
	}
	d.s.stream.Finished(w.Address, f)
	d.s.collectors.Finished(ev.Key, f.Metadata)
	d.s.hooks.Finished(w.Address, f)
	d.s.apply(ev)
	d.s.hooks.Done()
	if feed := d.s.feed; feed != nil {
		feed.Begin(d.s.loop.Now())
		feed.Finished(w, f, ev.Prefix)
	}
	return nil
}

// maxShort is the length of encoded results up to which the scheduler passes them on.
const maxShort = 128

// shortScalar returns a short result that a worker reported: a number, a boolean or a text. It returns nil for any
// other value, which has to be fetched.
func shortScalar(raw message.Raw) []byte {
	if len(raw) == 0 || len(raw) > maxShort {
		return nil
	}
	r := msgpack.NewReader(raw)
	switch r.Kind() {
	case msgpack.Bool, msgpack.Int, msgpack.Float, msgpack.Str:
		return raw
	}
	return nil
}

// workerOp applies one message of a worker.
func (d *dispatcher) workerOp(st *peers.Stream, ops *message.Ops, m *wire.Message) error {
	w := st.Worker
	switch string(ops.Op()) {
	case finishedOp:
		return d.finish(w, ops)
	case "task-erred":
		return d.taskErred(w, ops, m)
	case "add-keys":
		return d.addKeys(w, ops)
	case "release-worker-data":
		var f message.ReleaseWorkerData
		if err := f.Read(ops); err != nil {
			return err
		}
		ev := &d.events.release
		*ev = state.ReleaseWorkerData{Worker: w.ID, Key: f.Key}
		d.s.apply(ev)
	case "long-running":
		var f message.LongRunning
		if err := f.Read(ops); err != nil {
			return err
		}
		took := time.Duration(-1)
		if d := f.ComputeDuration; d >= 0 && d < math.MaxInt64/float64(time.Second) {
			took = time.Duration(d * float64(time.Second))
		}
		d.s.apply(&state.LongRunning{Worker: w.ID, Key: f.Key, RunID: f.RunID, Duration: took})
	case "reschedule":
		var f message.Reschedule
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.apply(&state.Reschedule{Worker: w.ID, Key: f.Key, RunID: f.RunID})
	case "request-refresh-who-has":
		f := &d.in.refresh
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.apply(&state.RequestRefreshWhoHas{Worker: w.ID, Keys: f.Keys})
	case "steal-response":
		var f message.StealResponse
		if err := f.Read(ops); err != nil {
			return err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(f.StimulusID, messages.StealPrefix), 10, 64)
		if err != nil {
			return fmt.Errorf("stimulus_id %q was not sent by this scheduler", f.StimulusID)
		}
		d.s.apply(&state.StealResponse{Worker: w.ID, Key: f.Key, Steal: n, State: f.State})
	case "worker-status-change":
		var f message.WorkerStatusChange
		if err := f.Read(ops); err != nil {
			return err
		}
		return d.s.workers.SetStatus(w, f.Status)
	case "log-event":
		return d.logEvent(ops, m, w.Address)
	case "close-stream":
		var f message.CloseStream
		if err := f.Read(ops); err != nil {
			return err
		}
		// A worker that closes because of its tasks reports the cause, which counts as a failure of the tasks.
		if cause := workers.CleanCause(f.Reason); cause != "" && w.Cause == "" {
			w.Cause = cause
			close(w.Caused)
		}
		st.Leaving = w.Cause == ""
	case "keep-alive":
	default:
		if known, err := d.s.hooks.Stream(ops, m, "worker", w.Address); known {
			return err
		}
		return d.s.prims.Op(ops, "")
	}
	return nil
}

// clientOp applies one message of a client.
func (d *dispatcher) clientOp(st *peers.Stream, ops *message.Ops, p *post) error {
	c := st.Client
	switch string(ops.Op()) {
	case "update-graph":
		if len(p.graphs) == 0 {
			return errors.New("graph not decoded")
		}
		g := p.graphs[0]
		p.graphs = p.graphs[1:]
		d.s.updateGraph(c, g)
	case "client-desires-keys":
		f := &d.in.desires
		if err := f.Read(ops); err != nil {
			return err
		}
		if f.Client == peers.FireAndForget {
			d.s.clients.Desire(peers.FireAndForget, f.Keys...)
			return nil
		}
		d.s.clients.Desire(c.Name, f.Keys...)
	case "client-releases-keys":
		f := &d.in.releases
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.clients.Release(c.Name, f.Keys...)
	case "cancel-keys":
		f := &d.in.cancels
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.journal.Release(c.Name, f.Keys)
		d.s.apply(&state.CancelKeys{Client: c.ID, Keys: f.Keys, Force: f.Force, Reason: strings.Clone(f.Reason),
			Msg: strings.Clone(f.Msg)})
	case "report-key":
		var f message.ReportKey
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.apply(&state.ReportKey{Client: c.ID, Key: f.Key})
	case "heartbeat-client":
		c.LastSeen = d.s.loop.Now()
		st.Send(&message.AdjustHeartbeat{Interval: 10 * peers.IntervalFor(len(d.s.clients.ByName))})
	case "update-data":
		return d.s.data.UpdateOp(c, ops, p.msg)
	case "close-client", "close-stream":
		st.Leaving = true
	case "subscribe-topic":
		var f message.SubscribeTopic
		if err := f.Read(ops); err != nil {
			return err
		}
		return d.s.topics.Subscribe(strings.Clone(f.Topic), c.Name)
	case "unsubscribe-topic":
		var f message.UnsubscribeTopic
		if err := f.Read(ops); err != nil {
			return err
		}
		d.s.topics.Unsubscribe(f.Topic, c.Name)
	case "log-event":
		return d.logEvent(ops, p.msg, "")
	default:
		if known, err := d.s.hooks.Stream(ops, p.msg, "client", c.Name); known {
			return err
		}
		return d.s.prims.Op(ops, c.Name)
	}
	return nil
}

// keep returns an exception that outlives its message, still serialized.
func (d *dispatcher) keep(v any) any {
	c, err := val.Closed(v)
	if err != nil {
		d.s.log.Warn("exception not kept", "error", err)
		return nil
	}
	return c
}

// addKeys serves add-keys: results that a worker holds.
func (d *dispatcher) addKeys(w *peers.Worker, ops *message.Ops) error {
	f := &d.in.addKeys
	if err := f.Read(ops); err != nil {
		return err
	}
	if n := len(f.NBytes); n > 0 && n != len(f.Keys) {
		return fmt.Errorf("%d sizes for %d keys", n, len(f.Keys))
	}
	for i, n := range f.NBytes {
		f.NBytes[i] = w.ClampSize(d.s.log, n)
	}
	ev := &d.events.addKeys
	*ev = state.AddKeys{Worker: w.ID, Keys: f.Keys, Adopt: f.Adopt, NBytes: f.NBytes}
	d.s.apply(ev)
	return nil
}

// taskErred keeps the worker's exception, serialized, for the clients.
func (d *dispatcher) taskErred(w *peers.Worker, ops *message.Ops, m *wire.Message) error {
	var f message.TaskErred
	if err := f.Read(ops); err != nil {
		return err
	}
	exception, err := f.Exception.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	traceback, err := f.Traceback.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	ev := &state.TaskErred{Worker: w.ID, Key: task.Key(strings.Clone(string(f.Key))), RunID: f.RunID,
		ExceptionText: strings.Clone(f.ExceptionText), TracebackText: strings.Clone(f.TracebackText),
		Exception: d.keep(exception), Traceback: d.keep(traceback)}
	if len(f.StartStops.Raw) > 0 {
		d.s.stream.Erred(w.Address, &f)
	}
	known := d.s.state.Task(ev.Key)
	var prefix *state.Prefix
	if known != nil {
		prefix = known.Prefix()
	}
	d.s.hooks.Erred(w.Address, &f)
	d.s.apply(ev)
	d.s.hooks.Done()
	d.s.feed.Begin(d.s.loop.Now())
	d.s.feed.Erred(w, &f, prefix, known != nil && known.State() != state.Erred)
	return nil
}

// logEvent serves log-event on a stream: topic is a string or a list of strings.
func (d *dispatcher) logEvent(ops *message.Ops, m *wire.Message, worker string) error {
	var f message.LogEvent
	if err := f.Read(ops); err != nil {
		return err
	}
	names, err := f.Topic.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	msg, err := f.Msg.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	return d.s.topics.PublishFrom(names, wire.Clone(msg), worker)
}
