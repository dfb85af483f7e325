package scheduler

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"go.millstream.dev/internal/dask/pyproc"
)

// moduleMaterialiser opens graphs.
const moduleMaterialiser = "millstream.materialiser"

// sandbox returns the configuration of a Python helper. Functions that clients run on the
// scheduler (run_on_scheduler, plugins, progress) have the network of the host, as they
// have with Dask: trackers and servers listen on it. Graphs and shuffles are only opened,
// which needs none.
func (s *Scheduler) sandbox(in pyproc.Interpreter, module string) pyproc.Config {
	c := s.cfg.Python
	return pyproc.Config{
		Python: in.Path, Module: module, Isolate: true, Network: module == moduleService, Logger: s.log,
		Hide: s.hidden(), AllowUnsafe: c.AllowUnsafe,
		Limits: pyproc.Limits{Memory: c.Memory, Disk: c.Disk, Processes: c.MaxProcesses},
	}
}

// hidden returns the files and folders that helpers must not see.
func (s *Scheduler) hidden() []string {
	var out []string
	for _, path := range append(slices.Clone(s.cfg.Python.Hide), s.cfg.Journal) {
		if path == "" {
			continue
		}
		if abs, err := filepath.Abs(path); err == nil {
			out = append(out, abs)
		}
	}
	return out
}

// setupHelper returns the function that prepares a new helper of a module.
func (s *Scheduler) setupHelper(module string) func(context.Context, *pyproc.Process) error {
	return func(ctx context.Context, p *pyproc.Process) error {
		s.logSandbox(ctx, module, p.Isolation())
		return s.setupChild(ctx, p)
	}
}

// logSandbox logs the sandbox of a helper: of the first of each module for all to see, of the others for debugging.
func (s *Scheduler) logSandbox(ctx context.Context, module string, in pyproc.Isolation) {
	level := slog.LevelInfo
	if len(in.Missing) > 0 {
		level = slog.LevelWarn
	}
	if _, again := s.helpers.logged.LoadOrStore(module, true); again {
		level = slog.LevelDebug
	}
	s.log.Log(ctx, level, "Python helper sandbox", "module", module, "network", in.Network(), "uid", in.UID, "in force", in.InForce, "missing", in.Missing)
	if in.UID == 0 && os.Getuid() == 0 && level != slog.LevelDebug {
		s.log.Warn("Python helper runs as root", "module", module)
	}
}
