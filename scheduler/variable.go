package scheduler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// variable is Dask's Variable: one value, a future or data, under a name.
type variable struct {
	record record
	set    bool
	// given are tokens of futures that were given out and not confirmed, by key: as long as
	// there are some, the variable keeps the key for who is about to want it.
	given   map[task.Key]map[string]bool
	old     map[task.Key]bool // keys to release when nobody is about to want them
	waiters int               // who wait until it is set
	changed signal
}

type putArgs struct {
	Name    any         `rpc:"name"`
	Key     msgpack.Raw `rpc:"key,optional"`
	Data    any         `rpc:"data,optional"`
	Client  any         `rpc:"client,optional"`
	Timeout any         `rpc:"timeout,optional"`
}

// record makes the record that is put, once its task, if it is one, is known.
func (in *putArgs) record(ctx context.Context, s *Scheduler) (name string, r record, err error) {
	if name, err = nameOf(in.Name); err != nil {
		return "", r, err
	}
	if r.key, err = parseKey(in.Key); err != nil {
		return "", r, err
	}
	if r.key == "" {
		r.data = wire.Clone(in.Data)
		r.bytes, err = measured("value", r.data)
		return name, r, err
	}
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		if s.state.Task(r.key) != nil {
			return nil, nil
		}
		return s.prims.tasks.wait(), nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("Task %s unknown to scheduler.", r.key)}
	}
	return name, r, err
}

func (s *Scheduler) variableSetRPC(ctx context.Context, _ *rpc.Request, in putArgs) (any, error) {
	name, r, err := in.record(ctx, s)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.variableSet(name, r) })
}

func (s *Scheduler) variable(name string) *variable {
	v := s.prims.variables[name]
	if v == nil {
		v = &variable{given: map[task.Key]map[string]bool{}, old: map[task.Key]bool{}}
		s.prims.variables[name] = v
	}
	return v
}

// variableSet runs in the loop.
func (s *Scheduler) variableSet(name string, r record) error {
	var old int64
	if v := s.prims.variables[name]; v != nil && v.set {
		old = v.record.size(name)
	}
	size := r.size(name)
	if err := s.prims.reserve("variable", size-old); err != nil {
		return err
	}
	if err := s.recordChange("variable_set", r.args(name)); err != nil {
		return err
	}
	s.prims.add(size - old)
	v := s.variable(name)
	owner := "variable-" + label(name)
	if r.key != "" {
		s.desire(owner, r.key)
		delete(v.old, r.key)
	}
	if v.set && v.record.key != "" && v.record.key != r.key {
		v.old[v.record.key] = true
		s.variableSettle(owner, v, v.record.key)
	}
	v.record, v.set = r, true
	v.changed.fire()
	return nil
}

// variableSettle releases a key that was replaced when nobody is about to want it.
func (s *Scheduler) variableSettle(owner string, v *variable, key task.Key) {
	if v.old[key] && len(v.given[key]) == 0 {
		delete(v.old, key)
		delete(v.given, key)
		s.release(owner, key)
	}
}

func (s *Scheduler) variableGetRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Client  any `rpc:"client,optional"`
	Timeout any `rpc:"timeout,optional"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	var out msgpack.Map
	var given task.Key
	var token string
	waiting := false
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		v := s.variable(name)
		if !waiting {
			waiting = true
			v.waiters++
		}
		if !v.set {
			return v.changed.wait(), nil
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
	_ = s.do(context.WithoutCancel(ctx), func() {
		if v := s.prims.variables[name]; v != nil && waiting {
			if v.waiters--; v.waiters <= 0 && !v.set {
				delete(s.prims.variables, name) // it only stood for those who waited
			}
		}
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("the variable %s is not set", label(name))}
	}
	if err != nil || given == "" {
		return out, err
	}
	// A token that its caller never got would keep the key for ever.
	return rpc.Delivery{Value: out, Lost: func() {
		_ = s.do(context.WithoutCancel(ctx), func() { s.variableReceived(name, given, token, "") })
	}}, nil
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// variableReceived is the confirmation that a client now wants a future that it was given.
func (s *Scheduler) variableReceived(name string, key task.Key, token, client string) {
	if client != "" {
		s.desire(client, key)
	}
	if v := s.prims.variables[name]; v != nil {
		delete(v.given[key], token)
		s.variableSettle("variable-"+label(name), v, key)
	}
}

// variableDelete runs in the loop.
func (s *Scheduler) variableDelete(name string) {
	v := s.prims.variables[name]
	if v == nil {
		return
	}
	s.noteChange("variable_delete", msgpack.MapOf("name", raw(name)))
	if v.set {
		s.prims.add(-v.record.size(name))
	}
	v.set, v.record = false, record{}
	clear(v.given)
	clear(v.old)
	if v.waiters <= 0 {
		delete(s.prims.variables, name)
	}
	if c := s.clients["variable-"+label(name)]; c != nil {
		s.removeClient(c)
	}
}
