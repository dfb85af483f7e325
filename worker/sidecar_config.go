package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/wire/msgpack"
)

// Python says whether and how the worker runs tasks of Python: in one process of Python
// beside it, the sidecar, which is started when the first such task comes. The zero value
// refuses them.
type Python struct {
	// Enabled has the worker take tasks of Python, if an interpreter is found that can
	// import distributed (--no-python turns it off).
	Enabled bool
	// Interpreter is its path (default: MILLSTREAM_PYTHON, that of VIRTUAL_ENV, or the first
	// on PATH that imports distributed; --python).
	Interpreter string
	// Env is the sidecar's environment, as os.Environ has it (default: this process's).
	Env []string
	// Security are the arguments of distributed.Security that its connections need, with
	// PEM text or files: tls_ca_file, tls_worker_cert, … (default: Dask's configuration).
	Security map[string]string
	// AllowedFailures is in how many deaths of sidecars a task may have a part before it
	// fails for good (default 3, distributed.scheduler.allowed-failures).
	AllowedFailures int
	// StartTimeout bounds the start of a sidecar (default 1 min).
	StartTimeout time.Duration
}

func (p Python) withDefaults() Python {
	p.AllowedFailures = cmp.Or(p.AllowedFailures, 3)
	p.StartTimeout = cmp.Or(p.StartTimeout, time.Minute)
	return p
}

// findPython makes the sidecar, which does not run yet. A worker without Python is a worker
// nevertheless: why it has none is told to those whose tasks it cannot run.
func (w *Worker) findPython(ctx context.Context) {
	switch in, err := w.interpreter(ctx); {
	case err != nil:
		w.noPython = err
		switch {
		case w.cfg.Python.Enabled && w.cfg.Python.Interpreter != "": // asked for by name
			w.log.Warn("Python tasks are refused", "error", err)
		case w.cfg.Python.Enabled:
			w.log.Debug("Python tasks are refused", "error", err)
		}
	default:
		w.pyVersions = pythonVersions(ctx, in.Path)
		w.sidecar = newSidecar(w, in)
		w.memory.SetChild(w.sidecar)
	}
}

// versionsProgram prints the versions that Dask compares among the processes of a cluster,
// without importing anything heavy.
const versionsProgram = `import json, sys, importlib.metadata as m
out = {"python": ".".join(map(str, sys.version_info))}
for n in ("dask", "distributed", "msgpack", "cloudpickle", "toolz", "tornado", "numpy", "pandas", "lz4"):
    try: out[n] = m.version(n)
    except m.PackageNotFoundError: out[n] = None
print(json.dumps(out))`

// pythonVersions asks an interpreter for its packages; it is nil if that fails.
func pythonVersions(ctx context.Context, path string) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", versionsProgram)
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	var out map[string]any
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

// versions is what Dask's get_versions returns, as far as the worker has it: the packages
// are the sidecar's. Without Python there are none that could differ from the scheduler's:
// the worker then names the scheduler's own, as every client would otherwise be warned of
// packages that are missing here and that nothing here needs.
func (w *Worker) versions() msgpack.Map {
	packages := msgpack.Map{}
	if theirs := w.packages.Load(); theirs != nil && len(w.pyVersions) == 0 {
		packages = *theirs
	}
	python := ""
	for _, k := range slices.Sorted(maps.Keys(w.pyVersions)) {
		packages.Set(k, w.pyVersions[k])
		if k == "python" {
			python, _ = w.pyVersions[k].(string)
		}
	}
	return msgpack.MapOf("host", msgpack.MapOf("python", python, "OS", runtime.GOOS, "machine", runtime.GOARCH, "go", runtime.Version()), "packages", packages)
}

func (w *Worker) interpreter(ctx context.Context) (pyproc.Interpreter, error) {
	if !w.cfg.Python.Enabled {
		return pyproc.Interpreter{}, fmt.Errorf("it was started without Python (leave out --no-python, or set Config.Python.Enabled)")
	}
	in, err := pyproc.Find(ctx, w.cfg.Python.Interpreter)
	if err != nil {
		return in, err
	}
	switch text := daskver.Worker.Message("the worker's own Python, "+in.Path+",", in.Distributed); daskver.Worker.Check(in.Distributed) {
	case daskver.Older:
		return pyproc.Interpreter{}, errors.New(text)
	case daskver.Newer, daskver.Unknown:
		w.log.Warn(text)
	}
	return in, nil
}

// refusePython is the failure of a task of Python on a worker that has none.
func (w *Worker) refusePython() error {
	return fmt.Errorf("worker: the task is Python's, and %s is a Go worker that runs none: %w; or keep such tasks on other workers (workers= or resources=, or millstream.install(client))", w.address, w.noPython)
}

// PythonSecurity are the arguments of distributed.Security for one certificate, whatever
// role it is used in: code in the sidecar connects as a worker, and as a client.
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

// security reads the certificates of Dask's settings.
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
