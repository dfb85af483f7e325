package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/sidecar"
)

// Python specifies whether and how the worker runs Python tasks: in one Python process, the sidecar, which is started
// for the first such task. The zero value rejects them.
type Python struct {
	// Enabled makes the worker accept Python tasks, if it finds an interpreter that can import distributed (--no-python
	// disables it).
	Enabled bool
	// Interpreter is the path of the interpreter (default: MILLSTREAM_PYTHON, that of VIRTUAL_ENV, or the first on PATH
	// that imports distributed; --python).
	Interpreter string
	// Env is the environment of the sidecar, in the form of os.Environ (default: that of this process).
	Env []string
	// Security are the arguments of distributed.Security for connections of the sidecar, with PEM text or files:
	// tls_ca_file, tls_worker_cert, … (default: Dask's configuration).
	Security map[string]string
	// AllowedFailures is the number of sidecar crashes during which a task may run; with the next one the task fails
	// (default 3, distributed.scheduler.allowed-failures).
	AllowedFailures int
	// StartTimeout bounds the start of a sidecar (default 1 min).
	StartTimeout time.Duration
	// Preload are Python modules, paths of .py files or URLs that the sidecar runs when it starts, which is then with
	// the worker (distributed.worker.preload; --preload). PreloadArgv are the arguments of a dask_setup that is a click
	// command (distributed.worker.preload-argv; --preload-argv).
	Preload, PreloadArgv []string
}

func (p Python) withDefaults() Python {
	p.AllowedFailures = cmp.Or(p.AllowedFailures, 3)
	p.StartTimeout = cmp.Or(p.StartTimeout, time.Minute)
	return p
}

// findPython finds an interpreter and prepares the sidecar, without starting it. A worker without Python is usable:
// noPython is returned for the tasks that it cannot run.
func (w *Worker) findPython(ctx context.Context) {
	if !w.cfg.Python.Enabled {
		w.noPython = errors.New("Python is disabled; leave out --no-python, or set Config.Python.Enabled")
		return
	}
	in, err := sidecar.Find(ctx, w.cfg.Python.Interpreter, w.log)
	if err != nil {
		w.noPython = err
		level := slog.LevelDebug
		if w.cfg.Python.Interpreter != "" { // explicitly configured
			level = slog.LevelWarn
		}
		w.log.Log(ctx, level, "Python not available; Python tasks are rejected", "error", err)
		return
	}
	w.pyVersions = sidecar.Versions(ctx, in.Path)
	w.sidecar = sidecar.New(w.sidecarConfig(in))
	w.memory.SetChild(w.sidecar)
}

// sidecarConfig returns the configuration of the sidecar.
func (w *Worker) sidecarConfig(in pyproc.Interpreter) sidecar.Config {
	p := w.cfg.Python
	return sidecar.Config{Interpreter: in, Env: p.Env, AllowedFailures: p.AllowedFailures, StartTimeout: p.StartTimeout,
		MemoryLimit: w.cfg.MemoryLimit, Logger: w.log, Data: w.data,
		Worker: sidecar.Worker{
			Context:  w.ctx,
			Tasks:    w.taskCtx,
			Go:       w.tasks.Go,
			Closed:   ErrClosed,
			Address:  w.Address,
			Settings: w.pythonSettings,
			State:    func() (msgpack.Map, error) { return pythonState(w) },
			Send:     func(message []byte, frames [][]byte) { w.do(func() { w.out.Raw(message, frames) }) },
			Store:    func(v *task.Value, s state.Stored) { w.store([]*task.Value{v}, []state.Stored{s}) },
			SetResources: func(list []state.Resource) {
				w.do(func() { w.apply(&state.SetResources{Stimulus: w.stimulus, Resources: list}) })
			},
			Lost: func(keys []task.Key, still func(i int) bool) {
				w.do(func() {
					for i, k := range keys {
						if still == nil || still(i) {
							w.apply(&state.DataLost{Stimulus: w.stimulus, Key: k})
						}
					}
				})
			},
			End: func(graceful bool, reason string) {
				if graceful {
					w.retireAsync()
				} else {
					w.shutDownAsync(fmt.Errorf("%w: requested by code in its Python process: %s", ErrClosed, reason))
				}
			},
		}}
}

// pythonSettings returns the settings of the worker that are sent to the sidecar.
func (w *Worker) pythonSettings() msgpack.Map {
	resources, security := msgpack.Map{}, msgpack.Map{}
	for k, v := range w.cfg.Resources {
		resources.Set(k, v)
	}
	for k, v := range w.cfg.Python.Security {
		security.Set(k, v)
	}
	port := 0
	if w.http != nil {
		port = w.http.Port
	}
	interval, cycle := w.exec.Profile().Settings()
	return msgpack.MapOf("profile_interval", interval.Seconds(), "profile_cycle", cycle.Seconds(),
		"scheduler", w.cfg.Scheduler, "http_port", port, "address", w.address, "name", w.name, "id",
		w.id,
		"nthreads", w.cfg.Threads, "memory_limit", w.cfg.MemoryLimit, "directory", w.memory.Directory(),
		"resources", resources, "security", security, "pid", os.Getpid(),
		"preload", w.cfg.Python.Preload, "preload_argv", w.cfg.Python.PreloadArgv)
}

// versions returns the reply of Dask's get_versions. The packages are those of the sidecar. A worker without Python
// returns the packages of the scheduler: clients would otherwise warn about missing packages that the worker does not
// need.
func (w *Worker) versions() msgpack.Map {
	packages := msgpack.Map{}
	if theirs := w.scheduler.Packages(); theirs != nil && len(w.pyVersions) == 0 {
		packages = theirs
	}
	python := ""
	for _, k := range slices.Sorted(maps.Keys(w.pyVersions)) {
		packages.Set(k, w.pyVersions[k])
		if k == "python" {
			python, _ = w.pyVersions[k].(string)
		}
	}
	return msgpack.MapOf("host", msgpack.MapOf("python", python, "OS", runtime.GOOS, "machine", runtime.GOARCH, "go",
		runtime.Version()), "packages", packages)
}

// PythonSecurity returns the arguments of distributed.Security for one certificate in all roles: code in the sidecar
// connects as a worker and as a client.
func PythonSecurity(ca, cert, key string) map[string]string {
	out := map[string]string{"tls_ca_file": ca}
	for _, role := range []string{"worker", "client"} {
		out["tls_"+role+"_cert"] = cert
		if key != "" {
			out["tls_"+role+"_key"] = key
		}
	}
	return out
}

// security reads the certificates of the Dask configuration.
func (r *reader) security() map[string]string {
	const base = "distributed.comm.tls."
	ca, cert := r.text(base+"ca-file"), r.text(base+"worker.cert")
	if ca == "" || cert == "" {
		return nil
	}
	out := PythonSecurity(ca, cert, r.text(base+"worker.key"))
	if c := r.text(base + "client.cert"); c != "" {
		out["tls_client_cert"], out["tls_client_key"] = c, r.text(base+"client.key")
	}
	return out
}
