// Package workers takes in the workers of a scheduler, watches over them and lets them go.
package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shuffle"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/scheduler/internal/versions"
)

// Host is what workers need of the scheduler.
type Host struct {
	Loop      loop.Loop
	Log       *slog.Logger
	State     *state.State
	Apply     func(state.Event)
	Streams   *peers.Streams
	Journal   *recovery.Log
	Recovery  *recovery.Recovery
	Topics    *topics.Topics
	Plugins   *plugins.Plugins
	Shuffles  *shuffle.Shuffles
	Transfers *history.Transfers
	Versions  *versions.Versions
	Totals    *inspect.Totals
	Pool      *rpc.Pool
	// Context ends what runs in the background, which Go starts. Dial connects to a worker.
	Context context.Context
	Go      func(func())
	Dial    func(ctx context.Context, address string) (comm.Comm, error)
	// Changed is fired when the status of a worker has changed.
	Changed *loop.Signal
	// Serve reads a stream to its end.
	Serve func(context.Context, *peers.Stream)
	// Watch, Joined and Left are called for a worker that has come or gone, ClientEnded when the stream of a client has
	// ended. Ending reports whether the scheduler closes. All run in the loop.
	Watch        func(w *peers.Worker, came bool)
	Joined, Left func(address string)
	ClientEnded  func(*peers.Stream)
	Ending       func() bool
	// ID is that of the scheduler. TTL is how long a worker may be silent, negative for ever. Reattach is how long data
	// is kept whose only worker has lost its connection.
	ID            string
	TTL, Reattach time.Duration
}

// Workers takes in workers, watches over them and lets them go. The loop owns it; requests run in goroutines of their
// own.
type Workers struct {
	Host
	*peers.Workers
	beat state.Heartbeat // used from one heartbeat to the next
}

// New returns workers that are listed in all.
func New(h Host, all *peers.Workers) *Workers {
	return &Workers{Host: h, Workers: all}
}

// Register sets the handlers of requests.
func (s *Workers) Register(r *rpc.Server) {
	r.Handle("register-worker", s.registerRPC)
	rpc.Handle(r, "heartbeat_worker", s.heartbeatRPC)
	rpc.Handle(r, DeathOp, s.deathRPC)
}

// registerRPC takes a worker in. The comm becomes its stream for as long as it lives.
// Workers do not ask for a reply, but wait for one: errors are said by hand.
func (s *Workers) registerRPC(ctx context.Context, r *rpc.Request) (any, error) {
	arrived := time.Now()
	var in peers.Registration
	err := r.Args(&in)
	var w *peers.Worker
	var ev *state.AddWorker
	if err == nil {
		w, ev, err = peers.NewWorker(&in)
	}
	if err == nil {
		err = s.Versions.CheckRelease(ctx, "worker "+w.Address, in.Versions)
	}
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	r.Takeover()
	st := s.Streams.Open(r.Comm)
	st.Worker, w.Stream = w, st
	reply, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) { return s.add(w, ev, &in) })
	if err != nil {
		return rpc.NoReply, s.refuse(ctx, r.Comm, err)
	}
	// Dask's workers set their clocks by this, taken to be the middle of their wait. The first
	// registration may have waited for Python to be found.
	reply.Set("time", val.Seconds(arrived.Add(time.Since(arrived)/2)))
	err = peers.Say(ctx, r.Comm, reply)
	st.Out.Start()
	if err != nil {
		s.StreamEnded(st, err)
		return rpc.NoReply, nil
	}
	s.Serve(ctx, st)
	return rpc.NoReply, nil
}

// refuse answers a registration with an error, both as Dask's workers and as ours read it,
// and ends the comm.
func (s *Workers) refuse(ctx context.Context, c comm.Comm, why error) error {
	s.Log.Warn("a worker is refused", "peer", c.PeerAddr(), "error", why)
	m, err := rpc.ErrorMessage(why, "uncaught-error")
	var taken *peers.NameTaken
	var old *versions.OldRelease
	if errors.As(why, &taken) || errors.As(why, &old) {
		// Dask's workers look at the status, not for an exception.
		m, err = msgpack.MapOf("status", "error", "message", why.Error(), "time", val.Seconds(time.Now())), nil
	}
	if err == nil {
		err = peers.Say(ctx, c, m)
	}
	return errors.Join(err, c.Close())
}

// add puts a worker into the state and makes the answer. It runs in the loop.
func (s *Workers) add(w *peers.Worker, ev *state.AddWorker, in *peers.Registration) (msgpack.Map, error) {
	if old := s.ByAddress[w.Address]; old != nil {
		if !old.Same(w) && old.Stream.Comm.Err() == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Worker already exists " + w.Address}
		}
		// The same process has lost its connection before we noticed, or another one has
		// got the address of a dead one.
		if old.Stream.Comm.Err() == nil { // the peer says that it is the same process
			s.Log.Warn("worker address taken over", "worker", w.Address, "peer", w.Stream.Comm.PeerAddr(), "before",
				old.Stream.Comm.PeerAddr())
		}
		old.MayReturn = old.Same(w)
		s.Remove(old, "it registered again", old.Same(w), false)
	}
	if other := s.Named(w.Alias); other != nil {
		if !other.Same(w) && other.Stream.Comm.Err() == nil {
			return nil, &peers.NameTaken{Name: w.Name}
		}
		// Another process in the place of one that died was faster than the end of that one's stream.
		if other.Stream.Comm.Err() == nil {
			s.Log.Warn("worker name taken over", "worker", other.Address, "peer", w.Stream.Comm.PeerAddr(), "before",
				other.Stream.Comm.PeerAddr())
		}
		s.Remove(other, "replaced by "+w.Address, other.Same(w), false)
	}
	ev.Token = w.Incarnation
	ev.Returning = s.Recovery.Returning(w.Address)
	s.Apply(ev)
	if ev.Err != nil {
		return nil, &rpc.Exception{Type: "ValueError", Message: ev.Err.Error()}
	}
	w.ID, w.LastSeen = ev.Worker, s.Loop.Now()
	s.Add(w)
	s.Joined(w.Address)
	s.Totals.WorkersAdded++
	s.heartbeat(w, in.Metrics, nil)
	s.Topics.Publish(msgpack.MapOf("action", "add-worker"), w.Address)
	s.Topics.Publish(msgpack.MapOf("action", "add-worker", "worker", w.Address), "all")
	s.Watch(w, true)
	s.Journal.Worker(w.Address, true)
	s.Recovery.Back(w.Address)
	s.Log.Info("register worker", "address", w.Address, "name", w.Name, "threads", ev.Threads)
	reply := msgpack.MapOf("status", "OK", "time", val.Seconds(s.Loop.Now()), "heartbeat-interval", s.interval(),
		"worker-plugins", s.Plugins.Workers())
	reply = append(reply, msgpack.MapOf("warning", s.Versions.Check(w.Versions, w.ServerID), "error", "")...)
	// Our own workers learn which life of the scheduler this is.
	reply.Set("millstream", msgpack.MapOf("id", s.ID, "epoch", s.Journal.Epoch()))
	return reply, nil
}

// interval is how often workers are asked to report, in seconds: Dask's rule, and
// four times within the time after which a silent worker is taken to be dead.
func (s *Workers) interval() float64 {
	d := peers.IntervalFor(len(s.ByAddress))
	if ttl := s.TTL.Seconds(); ttl > 0 {
		d = min(d, ttl/4)
	}
	return d
}

func (s *Workers) SetStatus(w *peers.Worker, name string) error {
	status, ok := state.ParseStatus(name)
	if !ok {
		return fmt.Errorf("status %q is not known", name)
	}
	sw := s.State.Worker(w.ID)
	if sw == nil || sw.Data != w || sw.Status() == status {
		return nil
	}
	before := sw.Status()
	s.Apply(&state.WorkerStatusChange{Worker: w.ID, Status: status})
	s.Topics.Publish(msgpack.MapOf("action", "worker-status-change", "prev-status", before.String(), "status",
		status.String()), w.Address)
	s.Changed.Fire()
	return nil
}
