// Package hooks delivers the events of a scheduler to scheduler plugins, which run in its Python helper. Events are
// queued in order and delivered in batches; the scheduler never waits for a plugin.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// Hook is a set of hooks of plugins.
type Hook uint16

// Hooks of scheduler plugins.
const (
	Transition Hook = 1 << iota
	UpdateGraph
	AddWorker
	RemoveWorker
	AddClient
	RemoveClient
	Restart
	LogEvent
	Downscale
	Closing
)

// byName are the hooks by the names of their methods in distributed.diagnostics.plugin.SchedulerPlugin.
var byName = map[string]Hook{
	"transition": Transition, "update_graph": UpdateGraph, "add_worker": AddWorker, "remove_worker": RemoveWorker,
	"add_client": AddClient, "remove_client": RemoveClient, "restart": Restart, "log_event": LogEvent,
	"valid_workers_downscaling": Downscale, "before_close": Closing, "close": Closing,
}

// Host is the part of the scheduler that Hooks uses.
type Host struct {
	Loop  loop.Loop
	Log   *slog.Logger
	State *state.State
	// Server is the server whose requests plugins may handle.
	Server *rpc.Server
	// Call calls a function of the Python helper. It starts the helper if necessary.
	Call func(ctx context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error)
	// Context ends background work, which Go starts.
	Context context.Context
	Go      func(func())
	// Preloads are modules, files and URLs that run in the helper, and PreloadArgv their arguments.
	Preloads, PreloadArgv []string
	// MaxEvents and MaxBytes bound the queue of events (default 100,000 and 64 MiB).
	MaxEvents int
	MaxBytes  int
	// Patience bounds the time for which requests and the end of the scheduler wait for plugins (default 5 s).
	Patience time.Duration
}

// Hooks are the scheduler plugins, and the hooks and handlers that they have. The loop owns want, streams and held.
type Hooks struct {
	Host
	want    Hook            // hooks that some plugin has
	streams map[string]bool // ops of stream messages that plugins handle
	held    *holding        // events of a graph that is being added; nil otherwise
	finish  *finishing      // report of the task whose event is applied; nil otherwise

	queue  queue
	active atomic.Bool // want or streams are not empty
	calls  atomic.Int64
	loaded atomic.Bool // Preloads have run in the current helper

	mu      sync.Mutex
	plugins []plugin        // registered by clients, oldest first; guarded by mu
	rpcs    map[string]bool // ops of requests that plugins handle; guarded by mu
	builtin map[string]bool // ops of the scheduler itself; guarded by mu, nil until needed
	exits   []time.Time     // recent exits of the helper; guarded by mu
	failed  error           // of the last preloads; guarded by mu
}

// plugin is a plugin that is sent to a restarted helper.
type plugin struct {
	name   string
	pickle []byte
}

// Limits of what a helper may request.
const (
	maxNames   = 1000     // handlers of one kind
	maxName    = 256      // bytes of the name of a handler
	maxPlugins = 1000     // plugins
	maxPickle  = 64 << 20 // bytes of one plugin
	maxCalls   = 256      // requests that plugins handle at once
)

// New returns Hooks without plugins.
func New(h Host) *Hooks {
	if h.MaxEvents <= 0 {
		h.MaxEvents = 100_000
	}
	if h.MaxBytes <= 0 {
		h.MaxBytes = 64 << 20
	}
	if h.Patience <= 0 {
		h.Patience = 5 * time.Second
	}
	s := &Hooks{Host: h, rpcs: map[string]bool{}}
	s.queue.init(h.MaxEvents, h.MaxBytes)
	return s
}

// Wants reports whether some plugin has a hook. It runs in the loop.
func (s *Hooks) Wants(h Hook) bool { return s.want&h != 0 }

// Active reports whether plugins receive any events or messages. Any goroutine may call it.
func (s *Hooks) Active() bool { return s.active.Load() }

// Dropped returns the number of events that were dropped because the queue was full, or lost with the helper.
func (s *Hooks) Dropped() uint64 { return s.queue.lost() }

// Interest has the names of the hooks that plugins have, and the ops of stream messages and requests that they handle.
type Interest struct{ Hooks, Streams, Requests []string }

// Set sets what plugins receive from now on. The helper calls it when a plugin or a handler is added or removed.
func (s *Hooks) Set(ctx context.Context, in Interest) error {
	var want Hook
	for _, name := range in.Hooks {
		want |= byName[name]
	}
	for _, names := range [][]string{in.Streams, in.Requests} {
		if len(names) > maxNames {
			return fmt.Errorf("%d handlers exceed the limit of %d", len(names), maxNames)
		}
		for _, name := range names {
			if name == "" || len(name) > maxName {
				return fmt.Errorf("the name of a handler has %d bytes, want 1 to %d", len(name), maxName)
			}
		}
	}
	if err := s.setRequests(in.Requests); err != nil {
		return err
	}
	return s.Loop.Do(ctx, func() {
		s.want, s.streams = want, nil
		for _, name := range in.Streams {
			if s.streams == nil {
				s.streams = map[string]bool{}
			}
			s.streams[name] = true
		}
		var observe func(*state.Task, state.TaskState)
		if want&Transition != 0 {
			observe = s.moved
		}
		state.Observe(s.State, observe)
		s.active.Store(want != 0 || s.streams != nil)
		if s.active.Load() && s.queue.start() {
			s.Go(s.deliver)
		}
	})
}

// setRequests makes the server pass requests to plugins.
func (s *Hooks) setRequests(ops []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.builtin == nil {
		s.builtin = map[string]bool{"close": true}
		for _, op := range s.Server.Ops() {
			s.builtin[op] = true
		}
	}
	for _, op := range ops {
		if s.builtin[op] {
			return fmt.Errorf("handler %q is built in and cannot be replaced", op)
		}
	}
	for op := range maps.Clone(s.rpcs) {
		if !slices.Contains(ops, op) {
			s.Server.Handle(op, nil)
			delete(s.rpcs, op)
		}
	}
	for _, op := range ops {
		s.rpcs[op] = true
		s.Server.Handle(op, s.request)
	}
	return nil
}

// Register passes a plugin to the helper, which starts it and reports whether it has to be registered again after a
// restart of the helper.
func (s *Hooks) Register(ctx context.Context, name string, pickle []byte, idempotent bool) error {
	if len(pickle) > maxPickle {
		return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf(
			"scheduler plugin %q has %d bytes, the limit is %d", name, len(pickle), maxPickle)}
	}
	m, err := s.Call(ctx, "register-plugin", msgpack.MapOf("name", name, "idempotent", idempotent), [][]byte{pickle})
	if err != nil {
		return err
	}
	v, _ := msgpack.Decode(m.Body)
	if keep, _ := v.(bool); !keep {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
	if len(s.plugins) == maxPlugins {
		s.Log.Warn("scheduler plugin is lost when the Python helper restarts: too many plugins", "name", name, "limit",
			maxPlugins)
		return nil
	}
	s.plugins = append(s.plugins, plugin{name, pickle})
	return nil
}

// Unregister removes a plugin. Events that are still queued do not reach it.
func (s *Hooks) Unregister(ctx context.Context, name string) error {
	_, err := s.Call(ctx, "unregister-plugin", msgpack.MapOf("name", name), nil)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(name)
	}
	return err
}

// drop removes a plugin from the list. The caller holds mu.
func (s *Hooks) drop(name string) {
	s.plugins = slices.DeleteFunc(s.plugins, func(p plugin) bool { return p.name == name })
}

// Exits of the helper in giveUpTime after which plugins are removed, because one of them probably causes them.
const (
	giveUpExits = 5
	giveUpTime  = 10 * time.Minute
)

// Exited is called when the helper has ended. Plugins of clients are registered again in a new one.
func (s *Hooks) Exited() {
	if s.Context.Err() != nil {
		return
	}
	if err := s.Set(s.Context, Interest{}); err != nil {
		return // the scheduler has closed
	}
	s.mu.Lock()
	now := time.Now()
	s.exits = append(slices.DeleteFunc(s.exits, func(t time.Time) bool { return now.Sub(t) > giveUpTime }), now)
	if len(s.exits) > giveUpExits && len(s.plugins) > 0 {
		s.Log.Error("scheduler plugins removed: the Python helper keeps ending", "plugins", s.names())
		s.plugins = nil
	}
	s.loaded.Store(false)
	again := len(s.plugins) > 0 || len(s.Preloads) > 0 && len(s.exits) <= giveUpExits
	s.mu.Unlock()
	if again {
		s.Go(func() { // starts a helper, for which Restore is called
			if _, err := s.Call(s.Context, "plugin-events", []any{}, nil); err != nil && s.Context.Err() == nil {
				s.Log.Error("scheduler plugins not restarted", "error", err)
			}
		})
	}
}

func (s *Hooks) names() (out []string) {
	for _, p := range s.plugins {
		out = append(out, p.name)
	}
	return out
}

// Restore runs the preloads and registers the plugins of clients in a new helper. Plugins that fail are removed.
func (s *Hooks) Restore(ctx context.Context, p *pyproc.Process) {
	s.restorePreload(ctx, p)
	s.mu.Lock()
	list := slices.Clone(s.plugins)
	s.mu.Unlock()
	for _, x := range list {
		_, err := p.Call(ctx, "register-plugin", msgpack.MapOf("name", x.name, "idempotent", false), [][]byte{x.pickle})
		switch {
		case err == nil:
			s.Log.Info("scheduler plugin restarted; its state is lost", "name", x.name)
		case errors.Is(err, pyproc.ErrExited) || ctx.Err() != nil:
			return
		default:
			s.Log.Error("scheduler plugin removed: it cannot be restarted", "name", x.name, "error", err)
			s.mu.Lock()
			s.drop(x.name)
			s.mu.Unlock()
		}
	}
}

// Close delivers the remaining events and calls before_close and close of the plugins, and dask_teardown of preloads,
// for at most Patience.
func (s *Hooks) Close(ctx context.Context) {
	if !s.Active() && !s.loaded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	s.Flush(ctx)
	if _, err := s.Call(ctx, "close-plugins", nil, nil); err != nil {
		s.Log.Warn("scheduler plugins not closed", "error", err)
	}
}
