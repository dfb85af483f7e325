package rig

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
)

// python is a command of the setting's interpreter.
func (r *Rig) python(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.Context, r.Interpreter, args...)
	cmd.Dir = r.temp()
	return cmd
}

// name numbers the processes of a kind.
func (r *Rig) name(kind string) string {
	r.count[kind]++
	return fmt.Sprintf("%s-%d", kind, r.count[kind])
}

// DaskScheduler starts `dask scheduler`.
func (r *Rig) DaskScheduler(args ...string) *Process {
	r.Helper()
	full := append([]string{"-m", "distributed.cli.dask_scheduler", "--protocol", r.Protocol, "--host", "127.0.0.1",
		"--port", "0",
		"--dashboard-address", "127.0.0.1:0", "--no-show"}, args...)
	var address string
	p := r.launch(r.name("dask-scheduler"), r.python(full...), func(line string) bool {
		return after(line, "Scheduler at:", &address)
	})
	p.Address = address
	return p
}

// DaskWorker starts `dask worker` with one thread and without a nanny, unless the arguments say otherwise; Python's
// last word counts. It is registered when this returns. Address is the worker's.
func (r *Rig) DaskWorker(scheduler string, args ...string) *Process {
	r.Helper()
	full := []string{"-m", "distributed.cli.dask_worker", scheduler, "--protocol", r.Protocol, "--host", "127.0.0.1",
		"--dashboard-address", "127.0.0.1:0", "--memory-limit", "0"}
	if !contains(args, "--nthreads") {
		full = append(full, "--nthreads", "1")
	}
	if !contains(args, "--nanny") {
		full = append(full, "--no-nanny")
	}
	var address string
	p := r.launch(r.name("dask-worker"), r.python(append(full, args...)...), func(line string) bool {
		after(line, "Start worker at:", &address)
		var registered string
		return after(line, "Registered to:", &registered)
	})
	p.Address = address
	return p
}

// DaskCUDAWorker starts `dask cuda worker`, which has a nanny and a worker for each device. All of them are registered
// when this returns.
func (r *Rig) DaskCUDAWorker(scheduler string, devices int, args ...string) *Process {
	r.Helper()
	full := append([]string{"-m", "dask", "cuda", "worker", scheduler, "--protocol", r.Protocol, "--host", "127.0.0.1",
		"--dashboard-address", "127.0.0.1:0", "--memory-limit", "0"}, args...)
	var registered atomic.Int64 // both outputs are read at once
	return r.launch(r.name("dask-cuda-worker"), r.python(full...), func(line string) bool {
		return strings.Contains(line, "Registered to:") && registered.Add(1) == int64(devices)
	})
}

func contains(args []string, flag string) bool {
	for _, a := range args {
		if a == flag || strings.HasPrefix(a, flag+"=") {
			return true
		}
	}
	return false
}

// after finds the address behind a label of a log's line.
func after(line, label string, to *string) bool {
	_, rest, ok := strings.Cut(line, label)
	if ok && *to == "" {
		*to = strings.TrimSpace(rest)
	}
	return ok
}
