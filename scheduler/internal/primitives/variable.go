package primitives

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// variables are Dask's Variables, by name. The loop owns them.
type variables struct {
	*base
	byName map[string]*variable
}

func newVariables(b *base) *variables { return &variables{b, map[string]*variable{}} }

func (s *variables) register(r *rpc.Server) {
	rpc.Handle(r, "variable_set", s.setRPC)
	rpc.Handle(r, "variable_get", s.getRPC)
}

// variable is Dask's Variable: one value, a future or data, under a name.
type variable struct {
	record record
	set    bool
	// given are tokens of futures that were sent and not confirmed, by key. While there are some, the variable holds
	// the key for the clients that will confirm.
	given   map[task.Key]map[string]bool
	old     map[task.Key]bool // replaced keys, released when all their tokens are confirmed
	waiters int               // number of requests that wait until it is set
	changed loop.Signal
}

type putArgs struct {
	Name    any         `rpc:"name"`
	Key     msgpack.Raw `rpc:"key,optional"`
	Data    any         `rpc:"data,optional"`
	Client  any         `rpc:"client,optional"`
	Timeout any         `rpc:"timeout,optional"`
}

// record returns the record to put, once its task, if any, is known.
func (in *putArgs) record(ctx context.Context, s *base) (name string, r record, err error) {
	if name, err = val.NameOf(in.Name); err != nil {
		return "", r, err
	}
	if r.key, err = val.ParseKey(in.Key); err != nil {
		return "", r, err
	}
	if r.key == "" {
		r.data = wire.Clone(in.Data)
		r.bytes, err = val.CheckSize("value", r.data)
		return name, r, err
	}
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		if s.Known(r.key) {
			return nil, nil
		}
		return s.Tasks.Wait(), nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("Task %s unknown to scheduler.", r.key)}
	}
	return name, r, err
}

func (s *variables) setRPC(ctx context.Context, _ *rpc.Request, in putArgs) (any, error) {
	name, r, err := in.record(ctx, s.base)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.set(name, r) })
}

func (s *variables) named(name string) *variable {
	v := s.byName[name]
	if v == nil {
		v = &variable{given: map[task.Key]map[string]bool{}, old: map[task.Key]bool{}}
		s.byName[name] = v
	}
	return v
}

// set sets a variable. It runs in the loop.
func (s *variables) set(name string, r record) error {
	var old int64
	if v := s.byName[name]; v != nil && v.set {
		old = v.record.size(name)
	}
	size := r.size(name)
	if err := s.Budget.Reserve("variable", size-old); err != nil {
		return err
	}
	if err := s.Journal.Change("variable_set", r.args(name)); err != nil {
		return err
	}
	s.Budget.Add(size - old)
	v := s.named(name)
	owner := "variable-" + val.Label(name)
	if r.key != "" {
		s.Clients.Desire(owner, r.key)
		delete(v.old, r.key)
	}
	if v.set && v.record.key != "" && v.record.key != r.key {
		v.old[v.record.key] = true
		s.releaseOld(owner, v, v.record.key)
	}
	v.record, v.set = r, true
	v.changed.Fire()
	return nil
}

// releaseOld releases a replaced key when all its tokens are confirmed.
func (s *variables) releaseOld(owner string, v *variable, key task.Key) {
	if v.old[key] && len(v.given[key]) == 0 {
		delete(v.old, key)
		delete(v.given, key)
		s.Clients.Release(owner, key)
	}
}

func (s *variables) getRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Client  any `rpc:"client,optional"`
	Timeout any `rpc:"timeout,optional"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	var out msgpack.Map
	var given task.Key
	var token string
	waiting := false
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		v := s.named(name)
		if !waiting {
			waiting = true
			v.waiters++
		}
		if !v.set {
			return v.changed.Wait(), nil
		}
		out = s.recordReply(v.record)
		if key := v.record.key; key != "" {
			given, token = key, newToken()
			out = append(out, msgpack.Pair{Key: "token", Value: token})
			if v.given[key] == nil {
				v.given[key] = map[string]bool{}
			}
			v.given[key][token] = true
		}
		return nil, nil
	})
	_ = s.Loop.Do(context.WithoutCancel(ctx), func() {
		if v := s.byName[name]; v != nil && waiting {
			if v.waiters--; v.waiters <= 0 && !v.set {
				delete(s.byName, name) // it existed for waiters only
			}
		}
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("variable %s is not set", val.Label(name))}
	}
	if err != nil || given == "" {
		return out, err
	}
	// A token that was not delivered would hold the key without limit.
	return rpc.Delivery{Value: out, Lost: func() {
		_ = s.Loop.Do(context.WithoutCancel(ctx), func() { s.received(name, given, token, "") })
	}}, nil
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// received handles the confirmation of a client that holds a future of the variable.
func (s *variables) received(name string, key task.Key, token, client string) {
	if client != "" {
		s.Clients.Desire(client, key)
	}
	if v := s.byName[name]; v != nil {
		delete(v.given[key], token)
		s.releaseOld("variable-"+val.Label(name), v, key)
	}
}

// remove removes a variable. It runs in the loop.
func (s *variables) remove(name string) {
	v := s.byName[name]
	if v == nil {
		return
	}
	s.Journal.Note("variable_delete", msgpack.MapOf("name", val.Raw(name)))
	if v.set {
		s.Budget.Add(-v.record.size(name))
	}
	v.set, v.record = false, record{}
	clear(v.given)
	clear(v.old)
	if v.waiters <= 0 {
		delete(s.byName, name)
	}
	s.Clients.Forget("variable-" + val.Label(name))
}
