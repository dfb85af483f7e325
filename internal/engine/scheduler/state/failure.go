package state

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/taskid"
)

// FailureKind says who found a failure.
type FailureKind uint8

const (
	// TaskFailed: the task itself, on its worker. Exception and Traceback are what the worker sent.
	TaskFailed FailureKind = iota
	// KilledWorker: too many workers died while they processed the task. (distributed.scheduler.KilledWorker)
	KilledWorker
	// NoValidWorker: no worker met the task's restrictions in time. (NoValidWorkerError)
	NoValidWorker
	// NoWorkers: there was no running worker for too long. (NoWorkerError)
	NoWorkers
	// ActorLost: the worker that held the actor died. (RuntimeError)
	ActorLost
	// TooLarge: the inputs do not fit into the worker's memory. (MemoryError)
	TooLarge
	// BadGraph: the graph that the key came with cannot be run. (ValueError)
	BadGraph
)

// Failure is why a task is erred. It is shared by all tasks that failed for the same reason and never changes.
type Failure struct {
	// Kind says who found it.
	Kind FailureKind
	// Key is the task that is to blame.
	Key taskid.Key
	// Exception and Traceback are the server's own values of TaskErred, such as *wire.Serialized; nil unless
	// Kind is TaskFailed.
	Exception, Traceback any
	// ExceptionText and TracebackText are for people; ExceptionText is never empty.
	ExceptionText, TracebackText string
	// Worker is the address of the last worker, if there was one.
	Worker string
	// Cause is how that worker ended, for KilledWorker.
	Cause string
}

// Error is the exception's text.
func (f *Failure) Error() string { return f.ExceptionText }

// killedWorker blames a task for the deaths of workers. reason is how the last of them ended.
func killedWorker(t *Task, w *Worker, reason string) *Failure {
	plural := "s"
	if t.failures == 1 {
		plural = ""
	}
	return &Failure{Kind: KilledWorker, Key: t.key, Worker: w.address, Cause: reason, ExceptionText: fmt.Sprintf(
		"%d worker%s died while task %s was running or next in line; the last was worker %s at %s: %s",
		t.failures, plural, t.key, w.name, w.address, reason)}
}

func noValidWorker(t *Task, why string, timeout time.Duration) *Failure {
	return &Failure{Kind: NoValidWorker, Key: t.key, ExceptionText: fmt.Sprintf(
		"attempted to run task %s but timed out after %v waiting for a valid worker: %s", t.key, timeout, why)}
}

func noWorkers(t *Task, timeout time.Duration) *Failure {
	return &Failure{Kind: NoWorkers, Key: t.key, ExceptionText: fmt.Sprintf(
		"attempted to run task %s but timed out after %v waiting for any worker", t.key, timeout)}
}

func tooLarge(t *Task, w *Worker, need int64) *Failure {
	return &Failure{Kind: TooLarge, Key: t.key, Worker: w.address, ExceptionText: fmt.Sprintf(
		"task %s has %d bytes of input dependencies, but worker %s has a memory limit of %d bytes: split the task or raise the limit",
		t.key, need, w.address, w.memoryLimit)}
}
