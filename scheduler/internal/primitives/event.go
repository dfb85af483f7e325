package primitives

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// events are Dask's Events, by name. The loop owns them.
type events struct {
	*base
	byName map[string]*flag
}

func newEvents(b *base) *events { return &events{b, map[string]*flag{}} }

func (s *events) register(r *rpc.Server) {
	rpc.Handle(r, "event_wait", s.waitRPC)
	rpc.Handle(r, "event_set", s.setRPC)
	rpc.Handle(r, "event_clear", s.clearRPC)
	rpc.Handle(r, "event_is_set", s.isSetRPC)
}

// flag is Dask's Event: set or not, with its waiters.
type flag struct {
	set     bool
	waiters int
	changed loop.Signal
}

type nameArg struct {
	Name any `rpc:"name"`
}

func (s *events) waitRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Timeout any `rpc:"timeout,optional"`
}) (bool, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return false, err
	}
	var mine *flag
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		if mine == nil {
			if mine = s.byName[name]; mine == nil {
				mine = &flag{}
				s.byName[name] = mine
			}
			mine.waiters++
		}
		if mine.set {
			return nil, nil
		}
		return mine.changed.Wait(), nil
	})
	_ = s.Loop.Do(context.WithoutCancel(ctx), func() {
		if mine == nil {
			return
		}
		if mine.waiters--; mine.waiters == 0 && !mine.set && s.byName[name] == mine {
			delete(s.byName, name) // an event that is not set need not be kept
		}
	})
	return ok, err
}

func (s *events) setRPC(ctx context.Context, _ *rpc.Request, in nameArg) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.put(name, true) })
}

func (s *events) clearRPC(ctx context.Context, _ *rpc.Request, in nameArg) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.put(name, false) })
}

func (s *events) isSetRPC(ctx context.Context, _ *rpc.Request, in nameArg) (bool, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return false, err
	}
	return loop.Ask(ctx, s.Loop, func() (bool, error) {
		e := s.byName[name]
		return e != nil && e.set, nil
	})
}

// put sets or clears an event. It runs in the loop.
func (s *events) put(name string, set bool) error {
	e := s.byName[name]
	if e == nil {
		if !set {
			return nil
		}
		e = &flag{}
		s.byName[name] = e
	}
	if e.set == set {
		return nil
	}
	if set {
		if err := s.Budget.Reserve("event", val.NameSize(name)); err != nil {
			return err
		}
		s.Budget.Add(val.NameSize(name))
	} else {
		s.Budget.Add(-val.NameSize(name))
	}
	op := "event_clear"
	if set {
		op = "event_set"
	}
	s.Journal.Note(op, msgpack.MapOf("name", val.Raw(name)))
	e.set = set
	if set {
		e.changed.Fire()
	} else if e.waiters == 0 {
		delete(s.byName, name)
	}
	return nil
}
