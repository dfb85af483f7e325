package daskbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"go.millstream.dev/internal/bench/benchpeer"
)

// side is one side of the comparison.
type side struct {
	name            string
	ours, goWorkers bool
}

// command is a request to the Python client.
type command struct {
	Do      string `json:"do"`
	Address string `json:"address,omitempty"`
	Workers int    `json:"workers,omitempty"`
	N       int    `json:"n,omitempty"`
	Parts   int    `json:"parts,omitempty"`
	Seed    int    `json:"seed,omitempty"`
	Go      string `json:"go,omitempty"`
}

// answer is the reply, with measurements of the caller.
type answer struct {
	Seconds float64 `json:"seconds"`
	Tasks   int64   `json:"tasks"`
	// Check describes the result, which must be equal on both sides.
	Check string `json:"check"`
	// CPU is the processor time of the scheduler meanwhile, including helpers, in seconds.
	CPU float64 `json:"-"`
}

// goFunction is the Go function of map-noop; package taskbench registers it.
const goFunction = "taskbench.noop"

func (b *bench) command(c Case, s side) command {
	out := command{Do: c.Name, Seed: b.o.Seed}
	switch c.Name {
	case schedulerCPU:
		out.Do, out.N = mapNoop, b.o.Tasks
	case mapNoop:
		out.N = b.o.Tasks
		if s.goWorkers {
			out.Go = goFunction
		}
	case randomDAG:
		out.N = b.o.DAG
	case mergeTree:
		out.N = b.o.Leaves
	case frameMerge:
		out.N, out.Parts = b.o.Rows, b.o.Parts
	}
	return out
}

// once runs a case with fresh processes of a side.
func (b *bench) once(ctx context.Context, c Case, s side) (a answer, err error) {
	ctx, cancel := context.WithCancel(ctx)
	scheduler, address, err := b.scheduler(ctx, s)
	if err != nil {
		cancel()
		return a, err
	}
	running := []*process{scheduler}
	defer func() {
		cancel()
		for _, p := range running {
			<-p.child.Done
		}
	}()
	for i := range b.o.Workers {
		w, err := b.worker(ctx, s, address, i)
		if err != nil {
			return a, err
		}
		running = append(running, w)
	}
	path := b.modules()
	if given := os.Getenv("PYTHONPATH"); given != "" {
		path += string(os.PathListSeparator) + given
	}
	client, err := benchpeer.StartLines(ctx, b.programs.Client.Start, append(slices.Clone(environment),
		"PYTHONPATH="+path))
	if err != nil {
		return a, err
	}
	defer client.Stop()
	var none answer
	if err := client.Ask(ctx, command{Do: "connect", Address: address, Workers: b.o.Workers}, &none); err != nil {
		return a, fmt.Errorf("connect: %w", err)
	}
	before, err := treeTime(scheduler.cmd.Process.Pid)
	if err != nil {
		return a, err
	}
	if err := client.Ask(ctx, b.command(c, s), &a); err != nil {
		return a, err
	}
	after, err := treeTime(scheduler.cmd.Process.Pid)
	a.CPU = after - before
	return a, err
}

// environment is that of all Python processes: they write no files into the repository, and wait as long as necessary.
var environment = []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
	"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=60s"}

func (b *bench) python(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.programs.Client.Python, args...)
	cmd.Dir = b.dir
	return cmd
}

// scheduler starts a scheduler and returns its address.
func (b *bench) scheduler(ctx context.Context, s side) (*process, string, error) {
	if s.ours {
		return startProcess(s.name+" scheduler", b.programs.Millstream(ctx, "scheduler", "--host", "127.0.0.1",
			"--port", "0",
			"--dashboard-address", "127.0.0.1:0", "--python", b.programs.Client.Python), "scheduler at ")
	}
	return startProcess(s.name+" scheduler", b.python(ctx, "-m", "distributed.cli.dask_scheduler", "--host",
		"127.0.0.1", "--port", "0",
		"--dashboard-address", "127.0.0.1:0", "--no-show"), "Scheduler at:")
}

// worker starts a worker and waits until it is registered.
func (b *bench) worker(ctx context.Context, s side, address string, number int) (*process, error) {
	name := fmt.Sprintf("%s worker %d", s.name, number)
	var p *process
	var err error
	if s.goWorkers {
		p, _, err = startProcess(name, b.programs.Millstream(ctx, "worker", address, "--host", "127.0.0.1",
			"--dashboard-address", "127.0.0.1:0",
			"--nthreads", strconv.Itoa(b.o.Threads), "--no-nanny", "--memory-limit", "0", "--python",
			b.programs.Client.Python), "worker ")
	} else {
		p, _, err = startProcess(name, b.python(ctx, "-m", "distributed.cli.dask_worker", address, "--host",
			"127.0.0.1", "--dashboard-address", "127.0.0.1:0",
			"--nthreads", strconv.Itoa(b.o.Threads), "--no-nanny", "--memory-limit", "0"), "Registered to:")
	}
	return p, err
}
