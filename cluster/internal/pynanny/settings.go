package pynanny

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Settings are the changes of Python code to the next worker process. Nil pointers are unchanged.
type Settings struct {
	// Env are environment variables, NAME=value, sorted.
	Env         []string
	Threads     *int
	Name        *string
	MemoryLimit *int64 // bytes; 0 means no limit
	Resources   map[string]float64
	Preload     []string
	PreloadArgv []string
}

// settingsTime bounds how long the start of a worker waits for the process.
const settingsTime = 30 * time.Second

// WorkerSettings returns the changes of preloads, plugins and functions. If the process does not reply, they are those
// of the last worker.
func (h *Helper) WorkerSettings(ctx context.Context) Settings {
	h.mu.Lock()
	used, last := h.used, h.last
	h.mu.Unlock()
	if !used {
		return Settings{}
	}
	ctx, cancel := context.WithTimeout(ctx, settingsTime)
	defer cancel()
	s, err := h.askSettings(ctx)
	if err != nil {
		if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded {
			h.cfg.Logger.Warn("Python process of the nanny does not reply; the worker starts with earlier settings",
				"error", err)
		}
		return last
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = s
	return s
}

func (h *Helper) askSettings(ctx context.Context) (Settings, error) {
	p, err := h.process(ctx)
	if err != nil {
		return Settings{}, err
	}
	reply, err := p.Call(ctx, "worker", nil, nil)
	if err != nil {
		return Settings{}, err
	}
	return readSettings(reply.Body)
}

// readSettings decodes the reply of the process.
func readSettings(body []byte) (Settings, error) {
	var in struct {
		Env         map[string]string
		Threads     *int               `rpc:"nthreads,optional"`
		Name        *string            `rpc:"name,optional"`
		MemoryLimit *int64             `rpc:"memory_limit,optional"`
		Resources   map[string]float64 `rpc:"resources,optional"`
		Preload     []string           `rpc:"preload,optional"`
		PreloadArgv []string           `rpc:"preload_argv,optional"`
	}
	v, err := msgpack.Decode(body)
	if err == nil {
		err = rpc.Assign(wire.Clone(v), &in)
	}
	if err != nil {
		return Settings{}, err
	}
	s := Settings{Threads: in.Threads, Name: in.Name, MemoryLimit: in.MemoryLimit, Resources: in.Resources,
		Preload: in.Preload, PreloadArgv: in.PreloadArgv}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(in.Env[name], "\x00") {
			continue // not a variable
		}
		s.Env = append(s.Env, name+"="+in.Env[name])
	}
	return s, nil
}

// handlers returns the handlers of the calls of the process.
func (h *Helper) handlers() map[string]pyproc.Handler {
	n := &h.cfg.Nanny
	type args struct {
		Reason   string `rpc:"reason,optional"`
		Graceful bool   `rpc:"graceful,optional"`
		Level    int    `rpc:"level,optional"`
		Name     string `rpc:"name,optional"`
		Text     string `rpc:"text,optional"`
	}
	handle := func(f func(context.Context, args) (any, error)) pyproc.Handler {
		return func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			var in args
			v, err := msgpack.Decode(m.Body)
			if v != nil && err == nil {
				err = rpc.Assign(wire.Clone(v), &in)
			}
			if err != nil {
				return nil, nil, err
			}
			out, err := f(ctx, in)
			return out, nil, err
		}
	}
	return map[string]pyproc.Handler{
		"info":    handle(func(context.Context, args) (any, error) { return n.Info(), nil }),
		"kill":    handle(func(ctx context.Context, in args) (any, error) { return nil, n.Kill(ctx, in.Reason) }),
		"restart": handle(func(ctx context.Context, in args) (any, error) { return nil, n.Restart(ctx, in.Reason) }),
		"ready":   handle(func(ctx context.Context, _ args) (any, error) { return nil, n.Ready(ctx) }),
		"end": handle(func(_ context.Context, in args) (any, error) {
			n.End(in.Graceful, in.Reason)
			return nil, nil
		}),
		"log": handle(func(ctx context.Context, in args) (any, error) {
			h.log(ctx, in.Level, in.Name, in.Text)
			return nil, nil
		}),
	}
}

// log writes a Python log record to the log, and keeps it for get_logs.
func (h *Helper) log(ctx context.Context, level int, name, text string) {
	to, title := slog.LevelDebug, "DEBUG"
	switch {
	case level >= 40:
		to, title = slog.LevelError, "ERROR"
	case level >= 30:
		to, title = slog.LevelWarn, "WARNING"
	case level >= 20:
		to, title = slog.LevelInfo, "INFO"
	}
	h.cfg.Logger.Log(ctx, to, text, "logger", name)
	if to > slog.LevelDebug {
		h.cfg.Keep(title, text)
	}
}
