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

// Names of the Python programs that this package carries.
const (
	ScriptAllReduce = "bench_allreduce.py"
	ScriptComm      = "bench_comm.py"
	ScriptDask      = "bench_dask.py"
	ScriptKMeans    = "bench_kmeans.py"
	ScriptPool      = "bench_pool.py"
	ScriptTasks     = "bench_tasks.py"
	ScriptUCXX      = "bench_ucxx.py"
)

// Program is a Python program that this package carries, unpacked into a temporary folder, and the interpreter that
// runs it. Close removes the folder.
type Program struct {
	// Python is the interpreter.
	Python string
	// Script is the file of the program. The modules that it imports are next to it.
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
		return nil, errors.Join(fmt.Errorf("unpack the peer %s: %w", script, err), p.Close())
	}
	return p, nil
}

// Command returns the command that runs the program. It is a [Starter] where there are no arguments.
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

// FindProgram unpacks a program and finds the interpreter of the peers: see [FindPython].
func FindProgram(peer, script string, environ []string) (*Program, error) {
	python, err := FindPython(peer, environ)
	if err != nil {
		return nil, err
	}
	return Unpack(python, script)
}

// FindPython returns the Python of the peers: MILLSTREAM_PEER_PYTHON, then .local/venv of the repository around the
// working folder or the running program. The error is a [*MissingError] that names the peer.
func FindPython(peer string, environ []string) (string, error) {
	return Interpreter{Peer: peer, Variable: "MILLSTREAM_PEER_PYTHON", Path: ".local/venv/bin/python",
		Setup: "scripts/setup peers"}.Find(environ)
}

// Interpreter is where the Python of a peer is.
type Interpreter struct {
	// Peer is the name as given to --peers.
	Peer string
	// Variable is the environment variable that names the interpreter.
	Variable string
	// Path is where it is in the repository, which is looked for around the working folder and the program. Setup is
	// the command that puts it there.
	Path, Setup string
}

// Find returns the interpreter. The error is a [*MissingError].
func (in Interpreter) Find(environ []string) (string, error) {
	python := getenv(environ, in.Variable)
	if python == "" {
		root, ok := Repository()
		if !ok {
			return "", &MissingError{Peer: in.Peer, Reason: in.Variable + " is not set, and there are no sources of " +
				"Millstream around the working folder or the program", Fix: "export " + in.Variable + "=PYTHON"}
		}
		python = filepath.Join(root, in.Path)
	}
	if _, err := os.Stat(python); err != nil {
		return "", &MissingError{Peer: in.Peer, Reason: "no Python with its packages at " + python, Fix: in.Setup}
	}
	return python, nil
}

// marker is a file of the repository by which it is found.
const marker = "internal/bench/benchpeer/peers/" + ScriptUCXX

// Repository returns the folder of Millstream's sources, under which scripts/setup installs peers: around the working
// folder or the running program.
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
