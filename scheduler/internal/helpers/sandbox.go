package helpers

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"go.millstream.dev/internal/dask/pyproc"
)

// Materializer is the module that opens graphs.
const Materializer = "millstream.materializer"

// Sandbox returns the configuration of a Python helper. Functions that clients run on the scheduler (run_on_scheduler,
// plugins, progress) have the network of the host, as in Dask: trackers and servers listen on it. Opening graphs and
// shuffles needs no network.
func (h *Helpers) Sandbox(in pyproc.Interpreter, module string) pyproc.Config {
	return pyproc.Config{
		Python: in.Path, Module: module, Isolate: true, Network: module == Service, Logger: h.cfg.Log,
		Hide: h.hidden(), AllowUnsafe: h.cfg.AllowUnsafe,
		Limits: h.cfg.Limits,
	}
}

// hidden returns the files and folders that helpers must not read.
func (h *Helpers) hidden() []string {
	var out []string
	for _, path := range h.cfg.Hide {
		if path == "" {
			continue
		}
		if abs, err := filepath.Abs(path); err == nil {
			out = append(out, abs)
		}
	}
	return out
}

// Setup returns the function that prepares a new helper of a module.
func (h *Helpers) Setup(module string) func(context.Context, *pyproc.Process) error {
	return func(ctx context.Context, p *pyproc.Process) error {
		h.logSandbox(ctx, module, p.Isolation())
		err := h.setupChild(ctx, p)
		if err == nil && module == Service && h.cfg.Restored != nil {
			h.cfg.Restored(ctx, p)
		}
		return err
	}
}

// logSandbox logs the sandbox of a helper: the first of each module at level info, others at level debug.
func (h *Helpers) logSandbox(ctx context.Context, module string, in pyproc.Isolation) {
	level := slog.LevelInfo
	if len(in.Missing) > 0 {
		level = slog.LevelWarn
	}
	if _, again := h.logged.LoadOrStore(module, true); again {
		level = slog.LevelDebug
	}
	h.cfg.Log.Log(ctx, level, "Python helper sandbox", "module", module, "network", in.Network(), "uid", in.UID,
		"in force", in.InForce, "missing", in.Missing)
	if in.UID == 0 && os.Getuid() == 0 && level != slog.LevelDebug {
		h.cfg.Log.Warn("Python helper runs as root", "module", module)
	}
}
