// Package plugins keeps the plugins for workers and nannies of a scheduler: pickled Python, which only Python workers
// open.
package plugins

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Plugins uses.
type Host struct {
	Loop    loop.Loop
	Journal primitives.Journal
	Budget  *primitives.Budget
	// Broadcast sends a request to all workers, or to all nannies, and returns their replies.
	Broadcast func(ctx context.Context, msg msgpack.Map, nanny bool) (any, error)
}

// Plugins are the plugins that workers and nannies receive when they register. The loop owns them; requests run in
// goroutines of their own.
type Plugins struct {
	Host
	worker, nanny set
	own           map[string]bool // built in and not in the journal, because they depend on the release
}

// New returns Plugins with the built-in worker plugins own.
func New(h Host, own msgpack.Map) *Plugins {
	s := &Plugins{Host: h, own: map[string]bool{}}
	for _, p := range own {
		name, _ := p.Key.(string)
		s.own[name] = true
		s.worker.set(name, p.Value)
	}
	return s
}

// Register sets the handlers of requests.
func (s *Plugins) Register(r *rpc.Server) {
	rpc.Handle(r, "register_worker_plugin", func(ctx context.Context, _ *rpc.Request, in Args) (any, error) {
		return s.Add(ctx, in, false)
	})
	rpc.Handle(r, "register_nanny_plugin", func(ctx context.Context, _ *rpc.Request, in Args) (any, error) {
		return s.Add(ctx, in, true)
	})
	rpc.Handle(r, "unregister_worker_plugin", func(ctx context.Context, _ *rpc.Request, in nameArgs) (any, error) {
		return s.drop(ctx, in.Name, false)
	})
	rpc.Handle(r, "unregister_nanny_plugin", func(ctx context.Context, _ *rpc.Request, in nameArgs) (any, error) {
		return s.drop(ctx, in.Name, true)
	})
}

// nameArgs are the arguments of requests that remove a plugin.
type nameArgs struct {
	Name string `rpc:"name"`
}

// Workers returns the plugins for workers that register.
func (s *Plugins) Workers() msgpack.Map { return s.worker.asMap() }

// Nannies returns the plugins for nannies that register.
func (s *Plugins) Nannies() msgpack.Map { return s.nanny.asMap() }

// of returns the plugins of nannies, or those of workers.
func (s *Plugins) of(nanny bool) *set {
	if nanny {
		return &s.nanny
	}
	return &s.worker
}

// set are plugins by name, in the order of their registration: a later one may override an earlier one.
type set struct{ list msgpack.Map }

func (p *set) has(name string) bool { return p.list.Has(name) }

func (p *set) set(name string, plugin any) { p.list.Set(name, plugin) }

// size returns the size of a plugin for the budget, in bytes; 0 if there is none of that name.
func (p *set) size(name string) int64 {
	if plugin, ok := p.list.Get(name); ok {
		return sizeOf(name, plugin)
	}
	return 0
}

func sizeOf(name string, plugin any) int64 {
	n, _ := val.Size(plugin)
	return n + val.NameSize(name)
}

func (p *set) delete(name string) { p.list.Delete(name) }

// asMap returns the plugins for a peer that registers.
func (p *set) asMap() msgpack.Map { return append(msgpack.Map{}, p.list...) }

// Args are the arguments of a request to register a plugin.
type Args struct {
	Plugin     any    `rpc:"plugin"`
	Name       string `rpc:"name"`
	Idempotent bool   `rpc:"idempotent,optional"`
}

// Add keeps a plugin for future peers, and sends it to the present ones, whose replies it returns.
func (s *Plugins) Add(ctx context.Context, in Args, nanny bool) (any, error) {
	set, op := s.of(nanny), "plugin-add"
	if nanny {
		op = "plugin_add"
	}
	name, plugin := string([]byte(in.Name)), wire.Clone(in.Plugin)
	known := false
	err := primitives.Change(ctx, s.Loop, s.Journal, func() error {
		if known = set.has(name) && in.Idempotent; !known {
			more := sizeOf(name, plugin) - set.size(name)
			_, err := val.CheckSize("plugin", plugin)
			if err == nil {
				err = s.Budget.Reserve("plugin", more)
			}
			if err == nil {
				err = s.Journal.Change(opAdd, msgpack.MapOf("name", name, "plugin", plugin, "nanny", nanny))
			}
			if err != nil {
				return err
			}
			s.Budget.Add(more)
			set.set(name, plugin)
		}
		return nil
	})
	if err != nil || known {
		return msgpack.Map{}, err
	}
	return s.Broadcast(ctx, msgpack.MapOf("op", op, "plugin", plugin, "name", name), nanny)
}

// drop removes a plugin, here and from the present peers.
func (s *Plugins) drop(ctx context.Context, name string, nanny bool) (any, error) {
	set, kind, op := s.of(nanny), "worker", "plugin-remove"
	if nanny {
		kind, op = "nanny", "plugin_remove"
	}
	err := primitives.Change(ctx, s.Loop, s.Journal, func() error {
		if !set.has(name) {
			return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("The %s plugin %s does not exist", kind,
				name)}
		}
		s.Journal.Note(opDrop, msgpack.MapOf("name", string([]byte(name)), "nanny", nanny))
		s.Budget.Add(-set.size(name))
		set.delete(name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Broadcast(ctx, msgpack.MapOf("op", op, "name", name), nanny)
}

// Changes in the journal.
const (
	opAdd  = "plugin-add"    // name, plugin, nanny
	opDrop = "plugin-remove" // name, nanny
)

// Replay applies a change from the journal. It reports whether the op is one of plugins.
func (s *Plugins) Replay(op string, args msgpack.Map) bool {
	if op != opAdd && op != opDrop {
		return false
	}
	v, _ := args.Get("nanny")
	nanny, _ := v.(bool)
	set, name := s.of(nanny), args.GetString("name")
	if op == opDrop {
		s.Budget.Add(-set.size(name))
		set.delete(name)
		return true
	}
	plugin, _ := args.Get("plugin")
	s.Budget.Add(sizeOf(name, plugin) - set.size(name))
	set.set(name, plugin)
	return true
}

// EachChange calls f with changes that recreate the current plugins.
func (s *Plugins) EachChange(f func(op string, args msgpack.Map)) {
	for _, nanny := range []bool{false, true} {
		for _, p := range s.of(nanny).asMap() {
			if name, _ := p.Key.(string); nanny || !s.own[name] {
				f(opAdd, msgpack.MapOf("name", p.Key, "plugin", p.Value, "nanny", nanny))
			}
		}
	}
}
