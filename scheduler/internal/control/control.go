// Package control serves the requests that control a cluster: restart, retire, terminate, restrictions.
package control

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/access"
	"go.millstream.dev/scheduler/internal/data"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/val"
)

// Host is the part of the scheduler that Control uses.
type Host struct {
	Loop     loop.Loop
	Log      *slog.Logger
	State    *state.State
	Apply    func(state.Event)
	Workers  *peers.Workers
	Clients  *peers.Clients
	Journal  *recovery.Log
	Pool     *rpc.Pool
	Requests *data.Requests
	// WorkersChanged is fired when a worker is added, removed or changed.
	WorkersChanged *loop.Signal
	// RemoveWorker removes a worker, Identity returns the identity of a worker, and Publish publishes an event to
	// topics. All run in the loop.
	RemoveWorker func(w *peers.Worker, why string, safe, notify bool)
	Identity     func(*peers.Worker) msgpack.Map
	Publish      func(msg any, topics ...string)
	// Restarted is called after the tasks were released by a restart, in the loop. Removable returns those of some
	// workers that plugins allow to be closed; false if all may. Both may be nil.
	Restarted func()
	Removable func(ctx context.Context, addresses []string) (map[string]bool, bool)
	// End closes the scheduler and its workers.
	End func(reason string)
}

// Control serves the requests that control the cluster: restart, retire, terminate, restrictions. It has no state of
// its own; the loop owns the state that it changes.
type Control struct{ Host }

// New returns a Control.
func New(h Host) *Control { return &Control{h} }

// Register sets the handlers of requests.
func (s *Control) Register(r *rpc.Server) {
	rpc.Handle(r, "unregister", s.unregisterRPC)
	rpc.Handle(r, "retire_workers", s.retireRPC)
	rpc.Handle(r, "workers_to_close", s.toCloseRPC)
	rpc.Handle(r, "adaptive_target", s.targetRPC)
	rpc.Handle(r, "restart", s.restartRPC)
	rpc.Handle(r, "restart_workers", s.restartWorkersRPC)
	rpc.Handle(r, "terminate", s.terminateRPC)
	rpc.Handle(r, "retry", s.retryRPC)
	rpc.Handle(r, "set_resources", s.resourcesRPC)
	rpc.Handle(r, "set_restrictions", s.restrictRPC)
}

func (s *Control) unregisterRPC(ctx context.Context, _ *rpc.Request, in struct {
	Address  string `rpc:"address"`
	Stimulus string `rpc:"stimulus_id,optional"`
	Expected bool   `rpc:"expected,optional"`
	Close    *bool  `rpc:"close"`
}) (string, error) {
	return loop.Ask(ctx, s.Loop, func() (string, error) {
		w := s.Workers.Find(in.Address)
		if w == nil {
			return "already-removed", nil
		}
		s.RemoveWorker(w, "unregistered", in.Expected, in.Close == nil || *in.Close)
		return "OK", nil
	})
}

func (s *Control) retryRPC(ctx context.Context, _ *rpc.Request, in struct {
	Keys   []any `rpc:"keys"`
	Client any   `rpc:"client,optional"`
}) ([]any, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() ([]any, error) {
		for _, k := range keys {
			if s.State.Task(k) == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
		}
		ev := state.Retry{Client: state.NoClient, Keys: keys}
		if name, ok := in.Client.(string); ok && s.Clients.ByName[name] != nil {
			ev.Client = s.Clients.ByName[name].ID
		}
		s.Apply(&ev)
		return val.RawKeys(append([]task.Key(nil), ev.Retried...)), nil
	})
}

func (s *Control) resourcesRPC(ctx context.Context, _ *rpc.Request, in struct {
	Worker    any         `rpc:"worker"`
	Resources msgpack.Map `rpc:"resources,optional"`
}) (string, error) {
	list, err := peers.Resources(in.Resources)
	if err != nil {
		return "", &rpc.Exception{Type: "ValueError", Message: err.Error()}
	}
	return loop.Ask(ctx, s.Loop, func() (string, error) {
		w := s.Workers.Find(in.Worker)
		if w == nil {
			return "", &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("no worker %v", in.Worker)}
		}
		s.Apply(&state.SetResources{Worker: w.ID, Resources: list})
		return "OK", nil
	})
}

func (s *Control) restrictRPC(ctx context.Context, _ *rpc.Request, in struct {
	Worker msgpack.Map `rpc:"worker"`
}) (any, error) {
	type one struct {
		key     task.Key
		workers []string
	}
	var list []one
	for _, p := range in.Worker {
		k, err := task.KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		names, err := val.Texts(p.Value)
		if err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
		list = append(list, one{k, names})
	}
	_, err := loop.Ask(ctx, s.Loop, func() (any, error) {
		for _, x := range list {
			if s.State.Task(x.key) == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: x.key.String()}
			}
			s.Apply(&state.SetRestrictions{Keys: []task.Key{x.key}, Workers: x.workers})
		}
		return nil, nil
	})
	return nil, err
}

// checkRetire lets a worker retire itself, as it does when it receives a signal, and no other worker. A Millstream
// worker proves its identity with the secret of its registration, since all workers may have the same certificate. A
// Dask worker has no secret and is identified by its host only.
func (s *Control) checkRetire(ctx context.Context, c comm.Comm, workers []any, other bool, incarnation string) error {
	if !access.IsOnlyWorker(c) {
		return nil
	}
	if len(workers) == 1 && !other {
		own, err := loop.Ask(ctx, s.Loop, func() (bool, error) {
			w := s.Workers.Find(workers[0])
			if w == nil || w.Incarnation == "" {
				// Its address may be of another interface than the one from which it connects.
				return w == nil || access.SameHost(w.Address, c.PeerAddr()) ||
					access.SameHost(w.Stream.Comm.PeerAddr(), c.PeerAddr()), nil
			}
			return subtle.ConstantTimeCompare([]byte(w.Incarnation), []byte(incarnation)) == 1, nil
		})
		if err != nil || own {
			return err
		}
	}
	return access.Reject(s.Log, c, "retire_workers", "retire another worker")
}
