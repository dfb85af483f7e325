package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os/exec"
	"time"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/dask/pyproc"
)

// Find returns the interpreter for a sidecar: the named one, or else the result of pyproc.Find. It returns an error if
// the release of distributed is too old.
func Find(ctx context.Context, named string, log *slog.Logger) (pyproc.Interpreter, error) {
	in, err := pyproc.Find(ctx, named)
	if err != nil {
		return in, err
	}
	text := daskver.Worker.Message("the worker's Python, "+in.Path+",", in.Distributed)
	switch daskver.Worker.Check(in.Distributed) {
	case daskver.Older:
		return pyproc.Interpreter{}, errors.New(text)
	case daskver.Newer, daskver.Unknown:
		log.Warn(daskver.Untested, "detail", text)
	}
	return in, nil
}

// versionsProgram prints the versions that Dask compares among the processes of a cluster. It imports no large
// packages.
const versionsProgram = `import json, sys, importlib.metadata as m
out = {"python": ".".join(map(str, sys.version_info))}
for n in ("dask", "distributed", "msgpack", "cloudpickle", "toolz", "tornado", "numpy", "pandas", "lz4"):
    try: out[n] = m.version(n)
    except m.PackageNotFoundError: out[n] = None
print(json.dumps(out))`

// Versions returns the versions of an interpreter's packages; nil if the interpreter fails.
func Versions(ctx context.Context, path string) map[string]any {
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
