package scheduler

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// registerWorker takes a worker in. The comm becomes its stream for as long as it lives.
// Workers do not ask for a reply, but wait for one: errors are said by hand.
func (s *Scheduler) registerWorker(ctx context.Context, r *rpc.Request) (any, error) {
	arrived := time.Now()
	var in peers.Registration
	err := r.Args(&in)
	var w *peers.Worker
	var ev *state.AddWorker
	if err == nil {
		w, ev, err = peers.NewWorker(&in)
	}
	if err == nil {
		err = s.checkRelease(ctx, "worker "+w.Address, in.Versions)
	}
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	r.Takeover()
	st := s.streams.Open(r.Comm)
	st.Worker, w.Stream = w, st
	reply, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) { return s.addWorker(w, ev, &in) })
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	// Dask's workers set their clocks by this, taken to be the middle of their wait. The first
	// registration may have waited for Python to be found.
	reply.Set("time", val.Seconds(arrived.Add(time.Since(arrived)/2)))
	err = peers.Say(ctx, r.Comm, reply)
	st.Out.Start()
	if err == nil {
		err = (&reader{s: s, st: st}).read(ctx)
	}
	s.streamEnded(st, err)
	return rpc.NoReply, nil
}

// refuse answers a registration with an error, both as Dask's workers and as ours read it,
// and ends the comm.
func (s *Scheduler) refuse(ctx context.Context, c comm.Comm, why error) error {
	s.log.Warn("a worker is refused", "peer", c.PeerAddr(), "error", why)
	m, err := rpc.ErrorMessage(why, "uncaught-error")
	var taken *peers.NameTaken
	var old *oldRelease
	if errors.As(why, &taken) || errors.As(why, &old) {
		// Dask's workers look at the status, not for an exception.
		m, err = msgpack.MapOf("status", "error", "message", why.Error(), "time", val.Seconds(time.Now())), nil
	}
	if err == nil {
		err = peers.Say(ctx, c, m)
	}
	return errors.Join(err, c.Close())
}

// addWorker puts a worker into the state and makes the answer. It runs in the loop.
func (s *Scheduler) addWorker(w *peers.Worker, ev *state.AddWorker, in *peers.Registration) (msgpack.Map, error) {
	if old := s.workers.ByAddress[w.Address]; old != nil {
		if !old.Same(w) && old.Stream.Comm.Err() == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Worker already exists " + w.Address}
		}
		// The same process has lost its connection before we noticed, or another one has
		// got the address of a dead one.
		if old.Stream.Comm.Err() == nil { // the peer says that it is the same process
			s.log.Warn("worker address taken over", "worker", w.Address, "peer", w.Stream.Comm.PeerAddr(), "before", old.Stream.Comm.PeerAddr())
		}
		old.MayReturn = old.Same(w)
		s.removeWorker(old, "it registered again", old.Same(w), false)
	}
	if other := s.workers.Named(w.Alias); other != nil {
		if !other.Same(w) && other.Stream.Comm.Err() == nil {
			return nil, &peers.NameTaken{Name: w.Name}
		}
		// Another process in the place of one that died was faster than the end of that one's stream.
		if other.Stream.Comm.Err() == nil {
			s.log.Warn("worker name taken over", "worker", other.Address, "peer", w.Stream.Comm.PeerAddr(), "before", other.Stream.Comm.PeerAddr())
		}
		s.removeWorker(other, "replaced by "+w.Address, other.Same(w), false)
	}
	ev.Token = w.Incarnation
	ev.Returning = s.recovery.Returning(w.Address)
	s.apply(ev)
	if ev.Err != nil {
		return nil, &rpc.Exception{Type: "ValueError", Message: ev.Err.Error()}
	}
	w.ID, w.LastSeen = ev.Worker, s.loop.Now()
	s.workers.Add(w)
	delete(s.removed, w.Address)
	s.totals.WorkersAdded++
	s.heartbeat(w, in.Metrics, nil)
	s.topics.Publish(msgpack.MapOf("action", "add-worker"), w.Address)
	s.topics.Publish(msgpack.MapOf("action", "add-worker", "worker", w.Address), "all")
	s.watch(w, true)
	s.journal.Worker(w.Address, true)
	s.recovery.Back(w.Address)
	s.log.Info("register worker", "address", w.Address, "name", w.Name, "threads", ev.Threads)
	reply := msgpack.MapOf("status", "OK", "time", val.Seconds(s.loop.Now()), "heartbeat-interval", s.heartbeatInterval(),
		"worker-plugins", s.plugins.Workers())
	reply = append(reply, s.versionCheck(w.Versions, w.ServerID)...)
	// Our own workers learn which life of the scheduler this is.
	reply.Set("millstream", msgpack.MapOf("id", s.id, "epoch", s.journal.Epoch()))
	return reply, nil
}

// heartbeatInterval is how often workers are asked to report, in seconds: Dask's rule, and
// four times within the time after which a silent worker is taken to be dead.
func (s *Scheduler) heartbeatInterval() float64 {
	d := peers.IntervalFor(len(s.workers.ByAddress))
	if ttl := s.cfg.WorkerTTL.Seconds(); ttl > 0 {
		d = min(d, ttl/4)
	}
	return d
}
