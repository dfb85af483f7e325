package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// answers are replies of workers that are passed on: their values borrow from messages,
// which live until release.
type answers struct {
	mu       sync.Mutex
	messages []*wire.Message
}

func (a *answers) keep(m *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages = append(a.messages, m)
}

func (a *answers) release() {
	for _, m := range a.messages {
		m.Release()
	}
	a.messages = nil
}

// reply makes the message of a value that borrows from the answers.
func (a *answers) reply(c comm.Comm, v any) (*wire.Message, error) {
	defer a.release()
	return wire.Encode(v, c.Info().EncodeOptions())
}

// call sends a request and returns the answer, whose closed values stay closed. The answer
// borrows from what a keeps. An error of the handler is a *rpc.RemoteError.
func (s *Scheduler) call(ctx context.Context, address string, request msgpack.Map, a *answers) (any, error) {
	op := request.GetString("op")
	request = append(request[:len(request):len(request)], msgpack.Pair{Key: "reply", Value: true})
	m, err := s.pool.Do(ctx, address, op, request)
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

// broadcast is one request to many workers, or to their nannies.
type broadcast struct {
	msg     msgpack.Map
	workers []any // nil: all
	hosts   []any
	nanny   bool
	onError string
}

func (s *Scheduler) broadcastRPC(ctx context.Context, r *rpc.Request, in struct {
	Msg     msgpack.Map `rpc:"msg"`
	Workers []any       `rpc:"workers,optional"`
	Hosts   []any       `rpc:"hosts,optional"`
	Nanny   bool        `rpc:"nanny,optional"`
	OnError string      `rpc:"on_error,optional"`
}) (any, error) {
	var a answers
	out, err := s.broadcastTo(ctx, broadcast{in.Msg, in.Workers, in.Hosts, in.Nanny, val.OrText(in.OnError, "raise")}, &a)
	if err != nil {
		a.release()
		return nil, err
	}
	return a.reply(r.Comm, out)
}

// broadcast is broadcastTo for answers that are small and not borrowed.
func (s *Scheduler) broadcast(ctx context.Context, b broadcast) (any, error) {
	var a answers
	defer a.release()
	out, err := s.broadcastTo(ctx, b, &a)
	if err != nil {
		return nil, err
	}
	return wire.Clone(out), nil
}

type target struct{ worker, address string }

// targets are who a broadcast goes to. It runs in the loop.
func (s *Scheduler) targets(b *broadcast) ([]target, error) {
	var list []target
	var err error
	seen := map[string]bool{}
	add := func(w *peers.Worker, _ *state.Worker) {
		address := w.Address
		if b.nanny {
			address, _ = w.Nanny.(string)
		}
		if address != "" && !seen[address] {
			seen[address] = true
			list = append(list, target{w.Address, address})
		}
	}
	if b.workers != nil {
		for _, v := range b.workers {
			if w := s.workers.Find(v); w != nil {
				add(w, nil)
			} else {
				err = &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("no worker %v", v)}
			}
		}
	} else if b.hosts == nil {
		s.workers.Each(nil, add)
	}
	for _, h := range b.hosts {
		for _, w := range s.workers.ByAddress {
			if host, _ := h.(string); host == w.Host {
				add(w, nil)
			}
		}
	}
	return list, err
}

func (s *Scheduler) broadcastTo(ctx context.Context, b broadcast, a *answers) (msgpack.Map, error) {
	switch b.onError {
	case "raise", "return", "return_pickle", "ignore":
	default:
		return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("on_error must be 'raise', 'return', 'return_pickle', or 'ignore'; got '%s'", b.onError)}
	}
	to, err := loop.Ask(ctx, s.loop, func() ([]target, error) { return s.targets(&b) })
	if err != nil {
		return nil, err
	}
	values, errs := make([]any, len(to)), make([]error, len(to))
	var wg sync.WaitGroup
	for i, t := range to {
		wg.Go(func() { values[i], errs[i] = s.call(ctx, t.address, b.msg, a) })
	}
	wg.Wait()
	out := msgpack.Map{}
	for i, t := range to {
		if errs[i] == nil {
			out = append(out, msgpack.Pair{Key: t.worker, Value: values[i]})
			continue
		}
		s.log.Warn("broadcast failed", "op", b.msg.GetString("op"), "worker", t.worker, "error", errs[i])
		switch b.onError {
		case "raise":
			return nil, passOn(b.msg.GetString("op"), t.worker, errs[i])
		case "return", "return_pickle":
			cause := passOn(b.msg.GetString("op"), t.worker, errs[i])
			if e, ok := cause.(*rpc.Exception); ok {
				cause = pickle.NewException("builtins", e.Type, e.Message)
			}
			data, err := wire.PickleException(cause)
			if err != nil {
				return nil, err
			}
			if b.onError == "return" {
				out = append(out, msgpack.Pair{Key: t.worker, Value: &wire.Pickled{Data: data}})
			} else {
				out = append(out, msgpack.Pair{Key: t.worker, Value: data})
			}
		}
	}
	return out, nil
}

// passOn returns the error of a request that went on to a worker. An exception of the worker's handler is passed on in
// Dask's form, an Exception with its repr; the log has op and worker.
func passOn(op, worker string, err error) error {
	var remote *rpc.RemoteError
	if errors.As(err, &remote) {
		return &rpc.Exception{Type: "Exception", Message: remote.Repr()}
	}
	return fmt.Errorf("%s on %s: %w", op, worker, err)
}

func (s *Scheduler) proxy(ctx context.Context, r *rpc.Request, in struct {
	Msg    msgpack.Map `rpc:"msg"`
	Worker any         `rpc:"worker"`
}) (any, error) {
	if err := s.checkProxy(r.Comm, in.Msg); err != nil {
		return nil, err
	}
	var a answers
	out, err := s.broadcastTo(ctx, broadcast{msg: in.Msg, workers: []any{in.Worker}, onError: "raise"}, &a)
	if err != nil {
		a.release()
		return nil, err
	}
	return a.reply(r.Comm, out[0].Value)
}

func (s *Scheduler) workerLogs(ctx context.Context, _ *rpc.Request, in struct {
	N       any   `rpc:"n,optional"`
	Workers []any `rpc:"workers,optional"`
	Nanny   bool  `rpc:"nanny,optional"`
}) (any, error) {
	return s.broadcast(ctx, broadcast{msg: msgpack.MapOf("op", "get_logs", "n", in.N), workers: in.Workers, nanny: in.Nanny, onError: "raise"})
}

// callStack asks the workers that run tasks, or that tasks wait for, what they are doing.
func (s *Scheduler) callStack(ctx context.Context, _ *rpc.Request, in inspect.KeysArg) (any, error) {
	if in.Keys == nil {
		return s.broadcast(ctx, broadcast{msg: msgpack.MapOf("op", "call_stack", "keys", nil), onError: "ignore"})
	}
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	byWorker, err := loop.Ask(ctx, s.loop, func() (map[string][]any, error) {
		out := map[string][]any{}
		seen := map[*state.Task]bool{}
		var todo []*state.Task
		for _, k := range keys {
			t := s.state.Task(k)
			if t == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
			todo = append(todo, t)
		}
		for len(todo) > 0 {
			t := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[t] {
				continue
			}
			seen[t] = true
			if w := t.ProcessingOn(); w != nil {
				out[w.Address()] = append(out[w.Address()], t.Key().Raw())
			}
			for d := range t.WaitingOn() {
				todo = append(todo, d)
			}
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	out := msgpack.Map{}
	for address, keys := range byWorker {
		v, err := s.broadcast(ctx, broadcast{msg: msgpack.MapOf("op", "call_stack", "keys", keys), workers: []any{address}, onError: "ignore"})
		if err != nil {
			return nil, err
		}
		m, _ := v.(msgpack.Map)
		out = append(out, m...)
	}
	return out, nil
}
