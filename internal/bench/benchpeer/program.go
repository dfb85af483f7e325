package benchpeer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed peers/*.py
var peers embed.FS

// Names of the Python programs in this package.
const (
	ScriptAllReduce = "bench_allreduce.py"
	ScriptNumPy     = "bench_allreduce_numpy.py"
	ScriptComm      = "bench_comm.py"
	ScriptDask      = "bench_dask.py"
	ScriptDuckDB    = "bench_duckdb.py"
	ScriptFrames    = "bench_frames_dask.py"
	ScriptKMeans    = "bench_kmeans.py"
	ScriptPool      = "bench_pool.py"
	ScriptTasks     = "bench_tasks.py"
	ScriptUCXX      = "bench_ucxx.py"
)

// Program is a Python program of this package, unpacked into a temporary folder, with its interpreter. Close removes
// the folder.
type Program struct {
	// Python is the interpreter.
	Python string
	// Script is the path of the program. The modules that it imports are next to it.
	Script string
}

// Unpack writes a program and its modules into a temporary folder.
func Unpack(python, script string) (*Program, error) {
	dir, err := os.MkdirTemp("", "millstream-peer-")
	if err != nil {
		return nil, err
	}
	p := &Program{Python: python, Script: filepath.Join(dir, "peers", script)}
	err = os.CopyFS(dir, peers)
	if err == nil {
		_, err = os.Stat(p.Script)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack peer %s: %w", script, err), p.Close())
	}
	return p, nil
}

// Command returns the command that runs the program with arguments.
func (p *Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.Python, append([]string{p.Script}, args...)...)
}

// Start returns the command that runs the program without arguments. It is a [Starter].
func (p *Program) Start(ctx context.Context) *exec.Cmd { return p.Command(ctx) }

// Close removes the unpacked files. The program must have ended. Close may be called twice, and on nil.
func (p *Program) Close() error {
	if p == nil {
		return nil
	}
	return os.RemoveAll(filepath.Dir(filepath.Dir(p.Script)))
}

// FindProgram finds the interpreter of a peer (see [FindPython]) and unpacks the program.
func FindProgram(peer, script string, environ []string) (*Program, error) {
	python, err := FindPython(peer, environ)
	if err != nil {
		return nil, err
	}
	return Unpack(python, script)
}

// FindPython returns the interpreter of the peers: MILLSTREAM_PEER_PYTHON, or .local/venv of the repository that
// contains the working directory or the running program. The error is a [*MissingError].
func FindPython(peer string, environ []string) (string, error) {
	return Interpreter{Peer: peer, Variable: "MILLSTREAM_PEER_PYTHON", Path: ".local/venv/bin/python",
		Setup: "scripts/setup peers"}.Find(environ)
}

// Interpreter specifies where to find the interpreter of a peer.
type Interpreter struct {
	// Peer is the name as given to --peers.
	Peer string
	// Variable is the environment variable with the path of the interpreter.
	Variable string
	// Path is its path in the repository that contains the working directory or the program. Setup is the command that
	// installs it.
	Path, Setup string
}

// Find returns the interpreter. The error is a [*MissingError].
func (in Interpreter) Find(environ []string) (string, error) {
	python := getenv(environ, in.Variable)
	if python == "" {
		root, ok := Repository()
		if !ok {
			return "", &MissingError{Peer: in.Peer, Reason: in.Variable + " is not set, and neither the working  " +
				"directory nor the program is in a repository of Millstream", Fix: "export " + in.Variable + "=PYTHON"}
		}
		python = filepath.Join(root, in.Path)
	}
	if _, err := os.Stat(python); err != nil {
		return "", &MissingError{Peer: in.Peer, Reason: "no Python with the packages of the peer at " + python,
			Fix: in.Setup}
	}
	return python, nil
}

// marker is a file that identifies the repository.
const marker = "internal/bench/benchpeer/peers/" + ScriptUCXX

// Repository returns the folder of the sources of Millstream that contains the working directory or the running
// program. scripts/setup installs peers in it.
func Repository() (string, bool) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for {
			if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
				return dir, true
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return "", false
}
