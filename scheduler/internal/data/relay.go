package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/access"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// RelayHost is the part of the scheduler that Relay uses.
type RelayHost struct {
	Loop    loop.Loop
	Log     *slog.Logger
	State   *state.State
	Workers *peers.Workers
	Pool    *rpc.Pool
}

// Relay forwards requests to workers and nannies, and their replies still serialized. Any goroutine may use it.
type Relay struct{ RelayHost }

// NewRelay returns a Relay.
func NewRelay(h RelayHost) *Relay { return &Relay{h} }

// Register sets the handlers of requests.
func (s *Relay) Register(r *rpc.Server) {
	rpc.Handle(r, "broadcast", s.broadcastRPC)
	rpc.Handle(r, "proxy", s.proxyRPC)
	rpc.Handle(r, "worker_logs", s.logsRPC)
	rpc.Handle(r, "benchmark_hardware", s.hardwareRPC)
}

// Answers are replies of workers that are forwarded. Their values borrow from messages, which are valid until Release.
type Answers struct {
	mu       sync.Mutex
	messages []*wire.Message
}

func (a *Answers) keep(m *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages = append(a.messages, m)
}

func (a *Answers) Release() {
	for _, m := range a.messages {
		m.Release()
	}
	a.messages = nil
}

// reply returns a message with a value that borrows from the answers.
func (a *Answers) reply(c comm.Comm, v any) (*wire.Message, error) {
	defer a.Release()
	return wire.Encode(v, c.Info().EncodeOptions())
}

// Call sends a request and returns the reply, whose serialized values stay serialized. The reply borrows from messages
// that a keeps. An error of the handler is a *rpc.RemoteError.
func (s *Relay) Call(ctx context.Context, address string, request msgpack.Map, a *Answers) (any, error) {
	op := request.GetString("op")
	request = append(request[:len(request):len(request)], msgpack.Pair{Key: "reply", Value: true})
	m, err := s.Pool.Do(ctx, address, op, request)
	if err != nil {
		return nil, err
	}
	v, err := wire.Decode(m, val.KeepClosed)
	if err != nil {
		m.Release()
		return nil, err
	}
	if d, ok := v.(msgpack.Map); ok && d.GetString("status") == "uncaught-error" {
		defer m.Release()
		opened, err := wire.Decode(m, val.Untrusted)
		if err != nil {
			return nil, err
		}
		if err := rpc.ReplyError(op, address, wire.Clone(opened)); err != nil {
			return nil, err
		}
	}
	a.keep(m)
	return v, nil
}

// Broadcast is one request to many workers, or to their nannies.
type Broadcast struct {
	Msg     msgpack.Map
	workers []any // nil: all
	hosts   []any
	Nanny   bool
	OnError string
}

func (s *Relay) broadcastRPC(ctx context.Context, r *rpc.Request, in struct {
	Msg     msgpack.Map `rpc:"msg"`
	Workers []any       `rpc:"workers,optional"`
	Hosts   []any       `rpc:"hosts,optional"`
	Nanny   bool        `rpc:"nanny,optional"`
	OnError string      `rpc:"on_error,optional"`
}) (any, error) {
	var a Answers
	out, err := s.send(ctx, Broadcast{in.Msg, in.Workers, in.Hosts, in.Nanny, val.OrText(in.OnError, "raise")}, &a)
	if err != nil {
		a.Release()
		return nil, err
	}
	return a.reply(r.Comm, out)
}

// Broadcast sends a broadcast whose replies are small. The result borrows nothing.
func (s *Relay) Broadcast(ctx context.Context, b Broadcast) (any, error) {
	var a Answers
	defer a.Release()
	out, err := s.send(ctx, b, &a)
	if err != nil {
		return nil, err
	}
	return wire.Clone(out), nil
}

type target struct{ worker, address string }

// targets returns the recipients of a broadcast. It runs in the loop.
func (s *Relay) targets(b *Broadcast) ([]target, error) {
	var list []target
	var err error
	seen := map[string]bool{}
	add := func(w *peers.Worker, _ *state.Worker) {
		address := w.Address
		if b.Nanny {
			address, _ = w.Nanny.(string)
		}
		if address != "" && !seen[address] {
			seen[address] = true
			list = append(list, target{w.Address, address})
		}
	}
	if b.workers != nil {
		for _, v := range b.workers {
			if w := s.Workers.Find(v); w != nil {
				add(w, nil)
			} else {
				err = &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("no worker %v", v)}
			}
		}
	} else if b.hosts == nil {
		s.Workers.Each(nil, add)
	}
	for _, h := range b.hosts {
		for _, w := range s.Workers.ByAddress {
			if host, _ := h.(string); host == w.Host {
				add(w, nil)
			}
		}
	}
	return list, err
}

func (s *Relay) send(ctx context.Context, b Broadcast, a *Answers) (msgpack.Map, error) {
	switch b.OnError {
	case "raise", "return", "return_pickle", "ignore":
	default:
		return nil, &rpc.Exception{Type: "ValueError",
			Message: fmt.Sprintf("on_error must be 'raise', 'return', 'return_pickle', or 'ignore'; got '%s'",
				b.OnError)}
	}
	to, err := loop.Ask(ctx, s.Loop, func() ([]target, error) { return s.targets(&b) })
	if err != nil {
		return nil, err
	}
	values, errs := make([]any, len(to)), make([]error, len(to))
	var wg sync.WaitGroup
	for i, t := range to {
		wg.Go(func() { values[i], errs[i] = s.Call(ctx, t.address, b.Msg, a) })
	}
	wg.Wait()
	out := msgpack.Map{}
	for i, t := range to {
		if errs[i] == nil {
			out = append(out, msgpack.Pair{Key: t.worker, Value: values[i]})
			continue
		}
		s.Log.Warn("broadcast failed", "op", b.Msg.GetString("op"), "worker", t.worker, "error", errs[i])
		switch b.OnError {
		case "raise":
			return nil, passOn(b.Msg.GetString("op"), t.worker, errs[i])
		case "return", "return_pickle":
			cause := passOn(b.Msg.GetString("op"), t.worker, errs[i])
			if e, ok := cause.(*rpc.Exception); ok {
				cause = pickle.NewException("builtins", e.Type, e.Message)
			}
			data, err := pickle.DumpException(cause)
			if err != nil {
				return nil, err
			}
			if b.OnError == "return" {
				out = append(out, msgpack.Pair{Key: t.worker, Value: &wire.Pickled{Data: data}})
			} else {
				out = append(out, msgpack.Pair{Key: t.worker, Value: data})
			}
		}
	}
	return out, nil
}

// passOn returns the error of a request that was forwarded to a worker. An exception of the worker's handler has the
// form of Dask, an Exception with its repr; the log has op and worker.
func passOn(op, worker string, err error) error {
	var remote *rpc.RemoteError
	if errors.As(err, &remote) {
		return &rpc.Exception{Type: "Exception", Message: remote.Repr()}
	}
	return fmt.Errorf("%s on %s: %w", op, worker, err)
}

func (s *Relay) proxyRPC(ctx context.Context, r *rpc.Request, in struct {
	Msg    msgpack.Map `rpc:"msg"`
	Worker any         `rpc:"worker"`
}) (any, error) {
	if err := access.CheckProxy(s.Log, r.Comm, in.Msg); err != nil {
		return nil, err
	}
	var a Answers
	out, err := s.send(ctx, Broadcast{Msg: in.Msg, workers: []any{in.Worker}, OnError: "raise"}, &a)
	if err != nil {
		a.Release()
		return nil, err
	}
	return a.reply(r.Comm, out[0].Value)
}

func (s *Relay) logsRPC(ctx context.Context, _ *rpc.Request, in struct {
	N       any   `rpc:"n,optional"`
	Workers []any `rpc:"workers,optional"`
	Nanny   bool  `rpc:"nanny,optional"`
}) (any, error) {
	return s.Broadcast(ctx, Broadcast{Msg: msgpack.MapOf("op", "get_logs", "n", in.N), workers: in.Workers,
		Nanny: in.Nanny, OnError: "raise"})
}
