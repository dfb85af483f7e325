// Package pynanny manages the Python process of a nanny, which runs nanny preloads, nanny plugins, and functions of
// Dask's Client.run(nanny=True).
package pynanny

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Config configures a Helper.
type Config struct {
	// Interpreter is the path of the interpreter (default: the first one found).
	Interpreter string
	// Env is the environment of the process, in the form of os.Environ.
	Env []string
	// Preload are Python modules, paths of .py files or URLs that the process imports when it starts, and PreloadArgv
	// the arguments of a dask_setup that is a click command.
	Preload, PreloadArgv []string
	// Settings returns the settings of the nanny and of its worker that are sent to a process.
	Settings func() msgpack.Map
	// Nanny has the functions of the nanny.
	Nanny Nanny
	// Logger receives the log records and the output of the process, Keep the records for Client.get_worker_logs.
	Logger *slog.Logger
	Keep   func(level, text string)
}

// Nanny has the functions of a nanny that Python code calls.
type Nanny struct {
	// Info returns address, pid, state and directory of the worker.
	Info func() msgpack.Map
	// Kill ends the worker process, and Restart also waits for the next one.
	Kill, Restart func(ctx context.Context, reason string) error
	// Ready waits until the worker is registered.
	Ready func(ctx context.Context) error
	// End ends the nanny; if graceful, only when its worker ends. It does not wait.
	End func(graceful bool, reason string)
}

// Plugin is a pickled nanny plugin.
type Plugin struct {
	Name   string
	Pickle []byte
}

// maxPlugins bounds the plugins of a nanny.
const maxPlugins = 1000

// Helper is the Python process of a nanny. It is started on demand, and again after it has ended, with the same
// plugins. It is safe for concurrent use.
type Helper struct {
	cfg    Config
	super  *pyproc.Supervisor
	closed sync.Once

	mu      sync.Mutex // guards the fields below; never held across a call
	used    bool       // a process has been started
	plugins []Plugin
	last    Settings // of the last worker process
}

// New returns a Helper. It starts no process.
func New(cfg Config) *Helper {
	h := &Helper{cfg: cfg}
	h.super = pyproc.NewSupervisor(pyproc.SupervisorConfig{
		Config: pyproc.Config{Python: cfg.Interpreter, Module: "millstream.nanny", Name: "nanny", Env: cfg.Env,
			Handlers: h.handlers(), Logger: cfg.Logger},
		Setup: h.setUp,
		Exited: func(err error) {
			cfg.Logger.Error("Python process of the nanny died", "error", err)
		},
	})
	return h
}

// Start starts the process, and with it the preloads.
func (h *Helper) Start(ctx context.Context) error {
	_, err := h.process(ctx)
	return err
}

// process returns the process. It starts one if necessary.
func (h *Helper) process(ctx context.Context) (*pyproc.Process, error) {
	h.mu.Lock()
	h.used = true
	h.mu.Unlock()
	p, err := h.super.Process(ctx)
	if err != nil {
		return nil, fmt.Errorf("cluster: Python process of the nanny: %w", err)
	}
	return p, nil
}

// startTime bounds the preloads and plugins of a new process; a plugin may install packages.
const startTime = 10 * time.Minute

// setUp prepares a new process.
func (h *Helper) setUp(ctx context.Context, p *pyproc.Process) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	h.mu.Lock()
	plugins := slices.Clone(h.plugins)
	h.mu.Unlock()
	names, frames := make([]string, len(plugins)), make([][]byte, len(plugins))
	for i, g := range plugins {
		names[i], frames[i] = g.Name, g.Pickle
	}
	m := h.cfg.Settings()
	m.Set("preload_nanny", h.cfg.Preload)
	m.Set("preload_nanny_argv", h.cfg.PreloadArgv)
	m.Set("plugins", names)
	reply, err := p.Call(ctx, "start", m, frames)
	if err != nil {
		return err
	}
	h.logFailed(reply)
	h.cfg.Logger.Info("Python process of the nanny started", "pid", p.PID(), "python", p.Version())
	return nil
}

// logFailed logs the plugins that could not be set up, which Dask does not treat as an error of the nanny.
func (h *Helper) logFailed(reply *pyproc.Message) {
	var in struct{ Failed []any }
	if v, err := msgpack.Decode(reply.Body); err != nil || rpc.Assign(v, &in) != nil || len(in.Failed) == 0 {
		return
	}
	h.cfg.Logger.Error("nanny plugins failed", "plugins", fmt.Sprint(in.Failed))
}

// AddPlugins sets up the plugins that a scheduler sent at registration, in their order. None restarts the worker.
func (h *Helper) AddPlugins(ctx context.Context, plugins []Plugin) error {
	for _, g := range plugins {
		p, err := h.process(ctx)
		if err != nil {
			return err
		}
		reply, err := p.Call(ctx, "plugin", msgpack.MapOf("name", g.Name), [][]byte{g.Pickle})
		if err != nil {
			return fmt.Errorf("cluster: nanny plugin %s: %w", g.Name, err)
		}
		h.logFailed(reply)
		h.keep(g)
	}
	return nil
}

// keep stores a plugin for later processes. It replaces one of the same name.
func (h *Helper) keep(g Plugin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.plugins, func(o Plugin) bool { return o.Name == g.Name })
	switch {
	case i >= 0:
		h.plugins[i] = g
	case len(h.plugins) < maxPlugins:
		h.plugins = append(h.plugins, g)
	}
}

// Plugins returns the names of the plugins.
func (h *Helper) Plugins() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, len(h.plugins))
	for i, g := range h.plugins {
		names[i] = g.Name
	}
	return names
}

// PluginAdd serves plugin_add: it sets up a plugin in the process, and keeps it for later processes.
func (h *Helper) PluginAdd(ctx context.Context, r *rpc.Request) (any, error) {
	var g Plugin
	if _, err := r.Arg("plugin", &g.Pickle); err != nil {
		return nil, err
	}
	if _, err := r.Arg("name", &g.Name); err != nil {
		return nil, err
	}
	g = Plugin{string([]byte(g.Name)), slices.Clone(g.Pickle)}
	reply, err := h.Forward(ctx, r)
	if err == nil && g.Name != "" {
		h.keep(g)
	}
	return reply, err
}

// PluginRemove serves plugin_remove.
func (h *Helper) PluginRemove(ctx context.Context, r *rpc.Request) (any, error) {
	var name string
	if _, err := r.Arg("name", &name); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.plugins = slices.DeleteFunc(h.plugins, func(g Plugin) bool { return g.Name == name })
	h.mu.Unlock()
	return h.Forward(ctx, r)
}

// Forward returns the reply of the process to a request. Neither is decoded.
func (h *Helper) Forward(ctx context.Context, r *rpc.Request) (any, error) {
	p, err := h.process(ctx)
	if err != nil {
		return nil, err
	}
	frames := make([][]byte, len(r.Message().Frames))
	for i, f := range r.Message().Frames {
		if f.OnDevice() {
			return nil, errors.New("cluster: request for the Python process of a nanny contains GPU memory")
		}
		frames[i] = f.Bytes()
	}
	reply, err := p.Call(ctx, "rpc", msgpack.MapOf("peer", r.Comm.PeerAddr()), frames)
	if err != nil {
		if errors.Is(err, pyproc.ErrExited) {
			err = fmt.Errorf("cluster: Python process of the nanny died while handling %s: %w", r.Op, err)
		}
		return nil, err
	}
	if len(reply.Frames) == 0 {
		return nil, fmt.Errorf("cluster: empty reply of the Python process of the nanny to %s", r.Op)
	}
	m := &wire.Message{Frames: make([]wire.Frame, len(reply.Frames))}
	for i, f := range reply.Frames {
		m.Frames[i] = wire.HeapFrame(f)
	}
	return m, nil
}

// Close tears down preloads and plugins, for which it waits up to limit, and ends the process. It may be called more
// than once.
func (h *Helper) Close(limit time.Duration) {
	h.closed.Do(func() {
		if p := h.super.Current(); p != nil {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if _, err := p.Call(ctx, "close", nil, nil); err != nil && !errors.Is(err, pyproc.ErrExited) {
				h.cfg.Logger.Info("Python process of the nanny not closed cleanly", "error", err)
			}
		}
	})
	_ = h.super.Close()
}
