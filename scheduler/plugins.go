package scheduler

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// plugins are what workers and nannies get when they register: pickled Python, which only
// Python workers open. The loop owns them.
type plugins struct {
	worker, nanny *pluginSet
}

func (p *plugins) init() {
	p.worker, p.nanny = &pluginSet{}, &pluginSet{}
	p.worker.set(ownPlugin, shufflePlugin())
}

// ownPlugin is one that is there from the start, and not in the journal: another release
// has another.
const ownPlugin = "shuffle"

// of is the plugins of nannies, or those of workers.
func (p *plugins) of(nanny bool) *pluginSet {
	if nanny {
		return p.nanny
	}
	return p.worker
}

// pluginSet is plugins by name, in the order in which they came: a later one may replace
// what an earlier one did.
type pluginSet struct{ list msgpack.Map }

func (p *pluginSet) has(name string) bool { return p.list.Has(name) }

func (p *pluginSet) set(name string, plugin any) { p.list.Set(name, plugin) }

// size is what a plugin counts for, in bytes; 0 if there is none of that name.
func (p *pluginSet) size(name string) int64 {
	if plugin, ok := p.list.Get(name); ok {
		return pluginSize(name, plugin)
	}
	return 0
}

func pluginSize(name string, plugin any) int64 {
	n, _ := measure(plugin)
	return n + nameSize(name)
}

func (p *pluginSet) delete(name string) { p.list.Delete(name) }

// asMap is what those who register get.
func (p *pluginSet) asMap() msgpack.Map { return append(msgpack.Map{}, p.list...) }

type pluginArgs struct {
	Plugin     any    `rpc:"plugin"`
	Name       string `rpc:"name"`
	Idempotent bool   `rpc:"idempotent,optional"`
}

func (s *Scheduler) registerWorkerPlugin(ctx context.Context, _ *rpc.Request, in pluginArgs) (any, error) {
	return s.addPlugin(ctx, s.plugins.worker, in, "plugin-add", false)
}

func (s *Scheduler) registerNannyPlugin(ctx context.Context, _ *rpc.Request, in pluginArgs) (any, error) {
	return s.addPlugin(ctx, s.plugins.nanny, in, "plugin_add", true)
}

// addPlugin keeps a plugin for those who come, and gives it to those who are there.
func (s *Scheduler) addPlugin(ctx context.Context, set *pluginSet, in pluginArgs, op string, nanny bool) (any, error) {
	name, plugin := string([]byte(in.Name)), wire.Clone(in.Plugin)
	known := false
	err := s.change(ctx, func() error {
		if known = set.has(name) && in.Idempotent; !known {
			more := pluginSize(name, plugin) - set.size(name)
			_, err := measured("plugin", plugin)
			if err == nil {
				err = s.prims.reserve("plugin", more)
			}
			if err == nil {
				err = s.recordChange(pluginAdded, msgpack.MapOf("name", name, "plugin", plugin, "nanny", nanny))
			}
			if err != nil {
				return err
			}
			s.prims.add(more)
			set.set(name, plugin)
		}
		return nil
	})
	if err != nil || known {
		return msgpack.Map{}, err
	}
	return s.broadcast(ctx, broadcast{msg: msgpack.MapOf("op", op, "plugin", plugin, "name", name), nanny: nanny, onError: "raise"})
}

func (s *Scheduler) unregisterWorkerPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name"`
}) (any, error) {
	return s.dropPlugin(ctx, s.plugins.worker, in.Name, "plugin-remove", false)
}

func (s *Scheduler) unregisterNannyPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name"`
}) (any, error) {
	return s.dropPlugin(ctx, s.plugins.nanny, in.Name, "plugin_remove", true)
}

func (s *Scheduler) dropPlugin(ctx context.Context, set *pluginSet, name, op string, nanny bool) (any, error) {
	kind := "worker"
	if nanny {
		kind = "nanny"
	}
	err := s.change(ctx, func() error {
		if !set.has(name) {
			return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("The %s plugin %s does not exist", kind, name)}
		}
		s.noteChange(pluginDropped, msgpack.MapOf("name", string([]byte(name)), "nanny", nanny))
		s.prims.add(-set.size(name))
		set.delete(name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.broadcast(ctx, broadcast{msg: msgpack.MapOf("op", op, "name", name), nanny: nanny, onError: "raise"})
}

// registerNanny is register_nanny: a nanny is told of its plugins and says when its worker
// has been started.
func (s *Scheduler) registerNanny(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Address string `rpc:"address"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	address := string([]byte(in.Address))
	r.Takeover()
	reply, err := ask(ctx, s, func() (msgpack.Map, error) {
		s.nannies[address] = true
		return msgpack.MapOf("status", "OK", "nanny-plugins", s.plugins.nanny.asMap()), nil
	})
	if err != nil {
		return nil, err
	}
	if err = s.say(ctx, r.Comm, reply); err == nil {
		var m *wire.Message
		if m, err = r.Comm.Read(ctx); err == nil {
			m.Release()
		}
	}
	_ = s.do(context.WithoutCancel(ctx), func() { delete(s.nannies, address) })
	return rpc.NoReply, nil
}
