// Package workers registers the workers of a scheduler, monitors them and removes them.
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
	"go.millstream.dev/scheduler/internal/feed"
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

// Host is the part of the scheduler that Workers uses.
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
	Feed      func() *feed.Feed // of the dashboard; nil without one
	Pool      *rpc.Pool
	// Context ends background work, which Go starts. Dial connects to a worker.
	Context context.Context
	Go      func(func())
	Dial    func(ctx context.Context, address string) (comm.Comm, error)
	// Changed is fired when the status of a worker has changed.
	Changed *loop.Signal
	// Serve reads a stream until it closes.
	Serve func(context.Context, *peers.Stream)
	// Watch, Joined and Left are called for a worker that was added or removed, ClientEnded when the stream of a client
	// has ended. Ending reports whether the scheduler closes. All run in the loop.
	Watch        func(w *peers.Worker, added bool)
	Joined, Left func(address string)
	ClientEnded  func(*peers.Stream)
	Ending       func() bool
	// ID is the ID of the scheduler. TTL is how long a worker may send no heartbeat, negative for no limit. Reattach is
	// how long data is kept after its only worker has lost its connection.
	ID            string
	TTL, Reattach time.Duration
}

// Workers registers workers, monitors them and removes them. The loop owns it; requests run in goroutines of their own.
type Workers struct {
	Host
	*peers.Workers
	beat state.Heartbeat // reused by the next heartbeat
}

// New returns Workers that are listed in all.
func New(h Host, all *peers.Workers) *Workers {
	return &Workers{Host: h, Workers: all}
}

// feed returns the Feed of the dashboard; nil without one.
func (s *Workers) feed() *feed.Feed {
	if s.Feed == nil {
		return nil
	}
	return s.Feed()
}

// Register sets the handlers of requests.
func (s *Workers) Register(r *rpc.Server) {
	r.Handle("register-worker", s.registerRPC)
	rpc.Handle(r, "heartbeat_worker", s.heartbeatRPC)
	rpc.Handle(r, DeathOp, s.deathRPC)
}

// registerRPC registers a worker. The comm becomes its stream until the worker disconnects. Workers request no reply
// but wait for one, so errors are sent explicitly.
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
		return rpc.NoReply, s.reject(ctx, r.Comm, err)
	}
	r.Takeover()
	st := s.Streams.Open(r.Comm)
	st.Worker, w.Stream = w, st
	reply, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) { return s.add(w, ev, &in) })
	if err != nil {
		return rpc.NoReply, s.reject(ctx, r.Comm, err)
	}
	// Dask workers set their clocks by this, assuming that it is the middle of their wait. The first registration may
	// have waited for the search for Python.
	reply.Set("time", val.Seconds(arrived.Add(time.Since(arrived)/2)))
	err = peers.Send(ctx, r.Comm, reply)
	st.Out.Start()
	if err != nil {
		s.StreamEnded(st, err)
		return rpc.NoReply, nil
	}
	s.Serve(ctx, st)
	return rpc.NoReply, nil
}

// reject answers a registration with an error, in the forms of Dask and of Millstream workers, and closes the comm.
func (s *Workers) reject(ctx context.Context, c comm.Comm, why error) error {
	s.Log.Warn("worker rejected", "peer", c.PeerAddr(), "error", why)
	m, err := rpc.ErrorMessage(why, "uncaught-error")
	var taken *peers.NameTaken
	var old *versions.OldRelease
	if errors.As(why, &taken) || errors.As(why, &old) {
		// Dask workers check the status, not an exception.
		m, err = msgpack.MapOf("status", "error", "message", why.Error(), "time", val.Seconds(time.Now())), nil
	}
	if err == nil {
		err = peers.Send(ctx, c, m)
	}
	return errors.Join(err, c.Close())
}

// add adds a worker to the state and returns the reply. It runs in the loop.
func (s *Workers) add(w *peers.Worker, ev *state.AddWorker, in *peers.Registration) (msgpack.Map, error) {
	if old := s.ByAddress[w.Address]; old != nil {
		if !old.Same(w) && old.Stream.Comm.Err() == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Worker already exists " + w.Address}
		}
		// The same process has lost its connection without notice, or another process has the address of a process that
		// has ended.
		if old.Stream.Comm.Err() == nil { // the peer claims to be the same process
			s.Log.Warn("worker address taken over", "worker", w.Address, "peer", w.Stream.Comm.PeerAddr(), "before",
				old.Stream.Comm.PeerAddr())
		}
		old.MayReturn = old.Same(w)
		s.Remove(old, "worker registered again", old.Same(w), false)
	}
	if other := s.Named(w.Alias); other != nil {
		if !other.Same(w) && other.Stream.Comm.Err() == nil {
			return nil, &peers.NameTaken{Name: w.Name}
		}
		// A replacement process has registered before the end of the old stream was noticed.
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
	s.Log.Info("worker registered", "address", w.Address, "name", w.Name, "threads", ev.Threads)
	reply := msgpack.MapOf("status", "OK", "time", val.Seconds(s.Loop.Now()), "heartbeat-interval", s.interval(),
		"worker-plugins", s.Plugins.Workers())
	reply = append(reply, msgpack.MapOf("warning", s.Versions.Check(w.Versions, w.ServerID), "error", "")...)
	// Millstream workers receive the epoch of the scheduler.
	reply.Set("millstream", msgpack.MapOf("id", s.ID, "epoch", s.Journal.Epoch()))
	return reply, nil
}

// interval returns the interval of heartbeats in seconds: Dask's rule, and at most a quarter of TTL.
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
		return fmt.Errorf("unknown status %q", name)
	}
	sw := s.State.Worker(w.ID)
	if sw == nil || sw.Data != w || sw.Status() == status {
		return nil
	}
	before := sw.Status()
	s.Apply(&state.WorkerStatusChange{Worker: w.ID, Status: status})
	f := s.feed()
	f.Begin(s.Loop.Now())
	f.Status(w, status == state.StatusPaused)
	s.Topics.Publish(msgpack.MapOf("action", "worker-status-change", "prev-status", before.String(), "status",
		status.String()), w.Address)
	s.Changed.Fire()
	return nil
}
