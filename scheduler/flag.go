package scheduler

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// flag is Dask's Event: set or not, with those who wait for it.
type flag struct {
	set     bool
	waiters int
	changed signal
}

type nameArg struct {
	Name any `rpc:"name"`
}

func (s *Scheduler) eventWaitRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Timeout any `rpc:"timeout,optional"`
}) (bool, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return false, err
	}
	var mine *flag
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		if mine == nil {
			if mine = s.prims.events[name]; mine == nil {
				mine = &flag{}
				s.prims.events[name] = mine
			}
			mine.waiters++
		}
		if mine.set {
			return nil, nil
		}
		return mine.changed.wait(), nil
	})
	_ = s.do(context.WithoutCancel(ctx), func() {
		if mine == nil {
			return
		}
		if mine.waiters--; mine.waiters == 0 && !mine.set && s.prims.events[name] == mine {
			delete(s.prims.events, name) // what is not set is as good as not there
		}
	})
	return ok, err
}

func (s *Scheduler) eventSetRPC(ctx context.Context, _ *rpc.Request, in nameArg) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.eventSet(name, true) })
}

func (s *Scheduler) eventClearRPC(ctx context.Context, _ *rpc.Request, in nameArg) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.eventSet(name, false) })
}

func (s *Scheduler) eventIsSetRPC(ctx context.Context, _ *rpc.Request, in nameArg) (bool, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return false, err
	}
	return ask(ctx, s, func() (bool, error) {
		e := s.prims.events[name]
		return e != nil && e.set, nil
	})
}

// eventSet runs in the loop.
func (s *Scheduler) eventSet(name string, set bool) error {
	e := s.prims.events[name]
	if e == nil {
		if !set {
			return nil
		}
		e = &flag{}
		s.prims.events[name] = e
	}
	if e.set == set {
		return nil
	}
	if set {
		if err := s.prims.reserve("event", nameSize(name)); err != nil {
			return err
		}
		s.prims.add(nameSize(name))
	} else {
		s.prims.add(-nameSize(name))
	}
	op := "event_clear"
	if set {
		op = "event_set"
	}
	s.noteChange(op, msgpack.MapOf("name", raw(name)))
	e.set = set
	if set {
		e.changed.fire()
	} else if e.waiters == 0 {
		delete(s.prims.events, name)
	}
	return nil
}
