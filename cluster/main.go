package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/task"
)

// RoleVariable is the environment variable by which Local and Nanny set the role of a child process. Programs must not
// set it.
const RoleVariable = "MILLSTREAM_ROLE"

// ErrNoMain is returned by Local, with workers in processes, in a program that does not call Main: such a program would
// start itself recursively instead of workers.
var ErrNoMain = errors.New("cluster: workers are this program again, in other processes: call millstream.Main() in " +
	"the first line of main, or of TestMain, or use Goroutines")

// mainCalled is set by Main: this process would have become a worker if started as one.
var mainCalled atomic.Bool

// roles are the functions of child processes by role. They return the exit code.
var roles = map[string]func() int{
	roleWorker: workerRole,
}

const roleWorker = "worker"

// Main prepares a program for workers in child processes, which execute the same program. Call it first in main or in
// TestMain; functions must be registered before, as package-level variables are. In a process that was started as a
// worker it never returns. In other processes it closes the registry of functions and returns.
func Main() {
	task.Freeze()
	role, ok := os.LookupEnv(RoleVariable)
	if !ok {
		mainCalled.Store(true)
		return
	}
	// Processes that this process starts are not workers.
	_ = os.Unsetenv(RoleVariable)
	run, ok := roles[role]
	if !ok {
		childFailure("%s is %q, which is not a role of this program; unset the variable", RoleVariable, role)
		os.Exit(exitUsage)
	}
	os.Exit(run())
}

// warmUp calls registered functions, one after the other. A panic is returned as an error.
func warmUp(ctx context.Context, names []string, log *slog.Logger) error {
	if err := checkWarmUp(names); err != nil {
		return err
	}
	for _, name := range names {
		start := time.Now()
		f, _ := task.Lookup(name)
		if _, err := f.Invoke(ctx, nil); err != nil {
			return fmt.Errorf("cluster: warm-up %q: %w", name, err)
		}
		log.Info("warm-up function called", "function", name, "took", time.Since(start))
	}
	return nil
}
