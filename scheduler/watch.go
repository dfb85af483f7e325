package scheduler

import (
	"context"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// logAction publishes and logs an event of the state.
func (s *Scheduler) logAction(a *state.Action) {
	msg := msgpack.MapOf("action", strings.Clone(a.Text))
	if a.Task != nil {
		msg = append(msg, msgpack.Pair{Key: "key", Value: a.Task.Key().String()})
	}
	topics := []string{"scheduler"}
	if w := s.workers.ByID(a.Worker); w != nil {
		msg = append(msg, msgpack.Pair{Key: "worker", Value: w.Address})
		topics = append(topics, w.Address)
	}
	s.topics.Publish(msg, topics...)
	if a.Text == state.Refused {
		s.log.Warn(state.Refused, "worker", msg.GetString("worker"), "key", msg.GetString("key"))
		return
	}
	s.log.Debug("state", "event", a.Text)
}

// watcher is a comm that receives added and removed workers (subscribe_worker_status).
type watcher struct {
	st *peers.Stream
}

// watch sends the event of an added or removed worker to the watchers, in the form of Dask: a list of the event's name
// and its subject.
func (s *Scheduler) watch(w *peers.Worker, added bool) {
	s.workersChanged.Fire()
	s.hooks.WorkerChanged(w.Address, added)
	for x := range s.watchers {
		if added {
			id := s.inspect.Worker(w)
			id.Delete("metrics")
			id.Delete("last_seen")
			x.st.SendValue([]any{"add", msgpack.MapOf("workers", msgpack.MapOf(w.Address, id))})
		} else {
			x.st.SendValue([]any{"remove", w.Address})
		}
	}
}

// subscribeWorkerStatus serves subscribe_worker_status: the comm becomes a stream of added and removed workers.
// Clusters of Dask use it.
func (s *Scheduler) subscribeWorkerStatus(ctx context.Context, r *rpc.Request) (any, error) {
	r.Takeover()
	st := s.streams.Open(r.Comm)
	x := &watcher{st}
	hello, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		s.watchers[x] = true
		id := s.inspect.Identity(-1)
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
	err = peers.Send(ctx, r.Comm, hello)
	st.Out.Start()
	for err == nil { // the peer sends nothing more; wait for the end of the comm
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.loop.Do(context.Background(), func() {
		delete(s.watchers, x)
		st.Gone = true
	})
	st.Out.Abort(err)
	<-st.Out.Done()
	return rpc.NoReply, nil
}

// registerNanny serves register_nanny: it sends a nanny its plugins and waits until the nanny has started its worker.
func (s *Scheduler) registerNanny(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Address string `rpc:"address"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	address := string([]byte(in.Address))
	r.Takeover()
	reply, err := loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		s.nannies[address] = true
		return msgpack.MapOf("status", "OK", "nanny-plugins", s.plugins.Nannies()), nil
	})
	if err != nil {
		return nil, err
	}
	if err = peers.Send(ctx, r.Comm, reply); err == nil {
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.loop.Do(context.WithoutCancel(ctx), func() { delete(s.nannies, address) })
	return rpc.NoReply, nil
}
