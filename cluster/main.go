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

// RoleVariable is the environment variable by which a process that was started by Local or
// a Nanny learns what it is. Nobody else sets it.
const RoleVariable = "MILLSTREAM_ROLE"

// ErrNoMain is returned by Local, with workers in processes, in a program that does not
// call Main: such a program would run itself again and again instead of workers.
var ErrNoMain = errors.New("cluster: workers are this program again, in other processes: call millstream.Main() in " +
	"the first line of main, or of TestMain, or use Goroutines")

// mainCalled tells that this process would have become a worker had it been told to.
var mainCalled atomic.Bool

// roles are what a process can be. The functions return its exit code.
var roles = map[string]func() int{
	roleWorker: workerRole,
}

const roleWorker = "worker"

// Main makes a program fit for workers in processes of their own, which are the same
// program again. It is the first line of main, or of TestMain; the functions must be
// registered by then, as package-level variables are. In a process that was started as a
// worker it never returns. In all others it closes the registry of functions and returns.
func Main() {
	task.Freeze()
	role, ok := os.LookupEnv(RoleVariable)
	if !ok {
		mainCalled.Store(true)
		return
	}
	// What the process starts itself is no worker.
	_ = os.Unsetenv(RoleVariable)
	run, ok := roles[role]
	if !ok {
		childFailure("%s is %q: this program was not meant to be started so; unset the variable", RoleVariable, role)
		os.Exit(exitUsage)
	}
	os.Exit(run())
}

// warmUp calls registered functions, one after the other. A panic in one is an error.
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
		log.Info("warmed up", "function", name, "took", time.Since(start))
	}
	return nil
}
