package collbench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"go.millstream.dev/internal/bench/benchpeer"
)

// setupCommand installs the peers.
const setupCommand = "scripts/setup collectives"

// FindOpenMPI returns Open MPI twice: with defaults, and with processes that yield while they wait, which is better for
// more ranks than processors. Its folder is MILLSTREAM_OPENMPI or .local/openmpi of the repository.
func FindOpenMPI(root string) ([]Competitor, error) {
	dir := os.Getenv("MILLSTREAM_OPENMPI")
	if dir == "" {
		dir = filepath.Join(root, ".local", "openmpi")
	}
	run, bench := filepath.Join(dir, "mpirun"), filepath.Join(dir, "bench_allreduce")
	for _, p := range []string{run, bench} {
		if _, err := os.Stat(p); err != nil {
			return nil, &benchpeer.MissingError{Peer: OpenMPI, Reason: "no " + p, Fix: setupCommand}
		}
	}
	start := func(options ...string) func(context.Context, Options) *exec.Cmd {
		return func(ctx context.Context, o Options) *exec.Cmd {
			args := append([]string{"-n", strconv.Itoa(o.Ranks)}, options...)
			return exec.CommandContext(ctx, run, append(append(args, bench), arguments(o)...)...)
		}
	}
	return []Competitor{
		{Name: OpenMPI, Variant: "default", measure: program(start())},
		{Name: OpenMPI, Variant: "yield", measure: program(start("--mca", "mpi_yield_when_idle", "1"))},
	}, nil
}

// FindTorch returns the Python that has torch: MILLSTREAM_TORCH_PYTHON, or that in .local/torch of the repository.
func FindTorch(environ []string) (string, error) {
	return benchpeer.Interpreter{Peer: Gloo, Variable: "MILLSTREAM_TORCH_PYTHON", Path: ".local/torch/bin/python",
		Setup: setupCommand}.Find(environ)
}

// FindMPI4Py returns the Python that has mpi4py and the mpirun next to it: MILLSTREAM_MPI4PY_PYTHON, or that in
// .local/mpi4py of the repository.
func FindMPI4Py(environ []string) (string, error) {
	return benchpeer.Interpreter{Peer: MPI4Py, Variable: "MILLSTREAM_MPI4PY_PYTHON",
		Path: ".local/mpi4py/bin/python", Setup: setupCommand}.Find(environ)
}

// MPI4PyOf returns mpi4py with Open MPI twice, as FindOpenMPI. script is benchpeer.ScriptNumPy.
func MPI4PyOf(script *benchpeer.Program) []Competitor {
	start := func(options ...string) func(context.Context, Options) *exec.Cmd {
		return func(ctx context.Context, o Options) *exec.Cmd {
			args := append([]string{"--oversubscribe", "-n", strconv.Itoa(o.Ranks)}, options...)
			args = append(args, script.Python, script.Script, MPI4Py, strconv.Itoa(o.Ranks))
			cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(script.Python), "mpirun"),
				append(args, arguments(o)...)...)
			cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			return cmd
		}
	}
	return []Competitor{
		{Name: MPI4Py, Variant: "default", measure: program(start())},
		{Name: MPI4Py, Variant: "yield", measure: program(start("--mca", "mpi_yield_when_idle", "1"))},
	}
}

// OursInPython returns the competitor that measures libmillstream in Python processes. root is the repository, script
// is benchpeer.ScriptNumPy. The library is MILLSTREAM_LIBRARY or bin/libmillstream.so of the repository.
func OursInPython(root string, script *benchpeer.Program) (Competitor, error) {
	library := cmp.Or(os.Getenv("MILLSTREAM_LIBRARY"), filepath.Join(root, "bin", "libmillstream.so"))
	if _, err := os.Stat(library); err != nil {
		return Competitor{}, fmt.Errorf("setting %s: no library at %s; run `make library`", SettingPython, library)
	}
	env := append(os.Environ(), "MILLSTREAM_LIBRARY="+library,
		"PYTHONPATH="+filepath.Join(root, "internal", "dask", "python"))
	return Competitor{Setting: SettingPython, measure: program(func(ctx context.Context, o Options) *exec.Cmd {
		cmd := script.Command(ctx, append([]string{"millstream", strconv.Itoa(o.Ranks)}, arguments(o)...)...)
		cmd.Env = env
		return cmd
	})}, nil
}

// GlooOf returns Gloo in torch. script is benchpeer.ScriptAllReduce.
func GlooOf(script *benchpeer.Program) Competitor {
	return Competitor{Name: Gloo, measure: program(func(ctx context.Context, o Options) *exec.Cmd {
		return script.Command(ctx, append([]string{strconv.Itoa(o.Ranks)}, arguments(o)...)...)
	})}
}

// FindNCCL returns the loop in C around ncclAllReduce, in processes that share a GPU: MILLSTREAM_NCCL_BENCH or
// .local/nccl/bench_allreduce of the repository.
func FindNCCL(root string) (Competitor, error) {
	bench := os.Getenv("MILLSTREAM_NCCL_BENCH")
	if bench == "" {
		bench = filepath.Join(root, ".local", "nccl", "bench_allreduce")
	}
	if _, err := os.Stat(bench); err != nil {
		return Competitor{}, &benchpeer.MissingError{Peer: NCCL, Reason: "no " + bench, Fix: setupCommand}
	}
	return Competitor{Name: NCCL, measure: program(func(ctx context.Context, o Options) *exec.Cmd {
		return exec.CommandContext(ctx, bench, append([]string{strconv.Itoa(o.Ranks)}, arguments(o)...)...)
	})}, nil
}

// arguments returns the arguments of the programs: the time for each size, and the sizes.
func arguments(o Options) []string {
	args := []string{fmt.Sprintf("%g", o.RoundTime.Seconds())}
	for _, n := range o.Sizes {
		args = append(args, strconv.FormatInt(n, 10))
	}
	return args
}
