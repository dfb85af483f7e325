package pyproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Interpreter is a Python interpreter that can import distributed.
type Interpreter struct {
	// Path is the path of the executable.
	Path string
	// Python, Dask and Distributed are versions.
	Python, Dask, Distributed string
	// From is the source of the path: "--python", "MILLSTREAM_PYTHON", …
	From string
}

// EnvPython is the environment variable with the interpreter of Python children.
const EnvPython = "MILLSTREAM_PYTHON"

// Find returns the interpreter for Python children: the explicit one (a flag or setting), that of MILLSTREAM_PYTHON, of
// VIRTUAL_ENV, of the virtual environment that contains this program, or the first python3 or python on PATH that can
// import distributed. An interpreter that is specified must work; others are skipped. The error lists the interpreters
// that were tried.
func Find(ctx context.Context, explicit string) (Interpreter, error) {
	named := []struct{ path, from string }{
		{explicit, "--python"}, {os.Getenv(EnvPython), EnvPython},
	}
	for _, n := range named {
		if n.path == "" {
			continue
		}
		path, err := exec.LookPath(n.path)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return Interpreter{}, fmt.Errorf("interpreter of %s: %w", n.from, err)
		}
		in, err := probe(ctx, path, n.from)
		if err != nil {
			return Interpreter{}, fmt.Errorf("interpreter of %s: %w", n.from, err)
		}
		return in, nil
	}
	var tried []string
	for _, c := range candidates() {
		in, err := probe(ctx, c.path, c.from)
		if err == nil {
			return in, nil
		}
		if ctx.Err() != nil {
			return Interpreter{}, ctx.Err()
		}
		tried = append(tried, err.Error())
	}
	if len(tried) == 0 {
		tried = []string{"no python3 or python on PATH"}
	}
	return Interpreter{}, &NotFoundError{Tried: tried}
}

// NotFoundError is returned by Find if no interpreter of the machine can import distributed.
type NotFoundError struct {
	// Tried has a description of each interpreter that was tried.
	Tried []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no Python that imports distributed (%s); install Dask (pip install distributed), or specify "+
		"an interpreter with --python or %s",
		strings.Join(e.Tried, "; "), EnvPython)
}

type candidate struct{ path, from string }

func candidates() []candidate {
	var out []candidate
	seen := map[string]bool{}
	add := func(path, from string) {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 || seen[path] {
			return
		}
		seen[path] = true
		out = append(out, candidate{path, from})
	}
	if v := os.Getenv("VIRTUAL_ENV"); v != "" {
		add(filepath.Join(v, "bin", "python3"), "VIRTUAL_ENV")
		add(filepath.Join(v, "bin", "python"), "VIRTUAL_ENV")
	}
	if program, err := os.Executable(); err == nil {
		if path := environmentOf(program); path != "" {
			add(path, "environment of the program")
		}
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, name := range []string{"python3", "python"} {
		for _, dir := range dirs {
			if dir != "" {
				add(filepath.Join(dir, name), "PATH")
			}
		}
	}
	return out
}

// environmentOf returns the interpreter of the virtual environment into which pip has installed a program, or "".
func environmentOf(program string) string {
	folder := filepath.Dir(program)
	if _, err := os.Stat(filepath.Join(filepath.Dir(folder), "pyvenv.cfg")); err != nil {
		return ""
	}
	return filepath.Join(folder, "python3")
}

const probeProgram = `import sys, importlib.metadata as m, importlib.util as u
for n in ("dask", "distributed", "msgpack"):
    if u.find_spec(n) is None: sys.exit(f"no module {n}")
print(sys.version.split()[0], m.version("dask"), m.version("distributed"))`

// probe returns the versions of an interpreter without importing the packages, which would take a second. The program
// bounds its output; the timeout is 20 s.
func probe(ctx context.Context, path, from string) (Interpreter, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", probeProgram)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		text := err.Error()
		if errors.As(err, &exit) {
			if lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n"); lines[len(lines)-1] != "" {
				text = lines[len(lines)-1]
			}
		}
		return Interpreter{}, fmt.Errorf("%s: %s", path, text)
	}
	f := strings.Fields(string(out))
	if len(f) != 3 {
		return Interpreter{}, fmt.Errorf("%s: unexpected output %q", path, out)
	}
	return Interpreter{Path: path, Python: f[0], Dask: f[1], Distributed: f[2], From: from}, nil
}
