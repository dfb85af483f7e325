package state

import (
	"cmp"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// Task is one task: what Dask calls TaskState. The State owns it; others read it, until the next Apply.
type Task struct {
	key     taskid.Key
	spec    string  // the bytes of Node.Spec, as a string because that is shorter
	shared  *[]byte // the first part of the spec, if others have the same
	group   *Group
	pool    *pool  // of the workers that have its functions
	notes   *notes // what the user said about it; nil for nothing
	kind    *ResultType
	failure *Failure
	prio    Priority

	// Every edge is on both sides and knows its place on the other, so that it goes in O(1).
	deps, dependents []edge
	holders          []holder
	wants            []want
	wide             *bitset   // the holders by id, when they are many
	holders1         [1]holder // the usual case needs no further allocation
	wants1           [1]want

	worker     *Worker // where it is processed
	prev, next *Task   // in a list of its worker, or of those without a worker
	steal      *stealing
	runID      int64
	nbytes     int64
	since      int64 // when it became without a worker, in nanoseconds

	waitingOn int32 // dependencies that are not in memory, while the task waits
	waiters   int32 // dependents in play: waiting, queued, without a worker or processing
	place     int32 // in the queue; -1 when not there
	sent      int32 // place of its ComputeTask among the actions of the event that sent it, +1
	turn      int32 // place of its latest recommendation on the stack
	retries   int32
	failures  uint16 // workers that died while they processed it (suspicious)
	mark      uint64 // of the last walk that came by
	estimate  float32

	state   TaskState
	target  target // what is recommended for it, none mostly
	list    uint8  // which list of its worker it is in
	actor   bool
	orphan  bool // one of its dependencies is forgotten: it can never run again
	seceded bool // long-running
	refused bool // its worker would not give it back
	other   bool // it is counted by estimate, see count
	// producer brings data into the cluster, whatever its group looks like.
	producer bool
	watched  bool // the server is told of its changes, see Watch
}

// edge is one end of a dependency.
type edge struct {
	t    *Task
	back int32 // index in the other end's list
}

// holder is a worker that holds a replica: place is the index in the worker's list.
type holder struct {
	w     *Worker
	place int32
}

// want is a client that wants a task: place is the index in the client's list.
type want struct {
	c     *Client
	place int32
}

// Priority orders tasks: the lowest goes first, field by field. It is Dask's tuple.
type Priority struct {
	// User is the negated priority of the user.
	User float64
	// Generation grows with each graph that is submitted.
	Generation float64
	// Order is the place in the graph.
	Order int64
}

// Compare is negative if p goes before q.
func (p Priority) Compare(q Priority) int {
	if p.User != q.User {
		return cmp.Compare(p.User, q.User)
	}
	if p.Generation != q.Generation {
		return cmp.Compare(p.Generation, q.Generation)
	}
	return cmp.Compare(p.Order, q.Order)
}

// ResultType is the type of results, shared by all tasks that have it.
type ResultType struct {
	// Name for people, Pickle the pickled class.
	Name   string
	Pickle []byte
}

// Key of the task.
func (t *Task) Key() taskid.Key { return t.key }

// Spec is the call as the client sent it; empty for data that came from outside.
func (t *Task) Spec() []byte { return unsafe.Slice(unsafe.StringData(t.spec), len(t.spec)) }

// State of the task.
func (t *Task) State() TaskState { return t.state }

// Priority of the task.
func (t *Task) Priority() Priority { return t.prio }

// RunID is the number of the latest run; 0 before the first.
func (t *Task) RunID() int64 { return t.runID }

// NBytes is the size of the result; -1 when unknown.
func (t *Task) NBytes() int64 { return t.nbytes }

// Actor tells that the result is an actor.
func (t *Task) Actor() bool { return t.actor }

// LongRunning tells that the task is processing and has left the pool of threads.
func (t *Task) LongRunning() bool { return t.seceded }

// Group of the task.
func (t *Task) Group() *Group { return t.group }

// Prefix of the task's group.
func (t *Task) Prefix() *Prefix { return t.group.prefix }

// Type of the result; nil when unknown.
func (t *Task) Type() *ResultType { return t.kind }

// Failure is why the task is erred; nil otherwise.
func (t *Task) Failure() *Failure { return t.failure }

// Retries that are left.
func (t *Task) Retries() int { return int(t.retries) }

// Suspicious is how many workers died while they processed the task.
func (t *Task) Suspicious() int { return int(t.failures) }

// ProcessingOn is the worker that processes the task; nil when none does.
func (t *Task) ProcessingOn() *Worker { return t.worker }

// Annotations of the task; nil when there are none.
func (t *Task) Annotations() *Annotations {
	if t.notes == nil {
		return nil
	}
	return &t.notes.Annotations
}

// Shared is the first part of the task's spec, which other tasks have as well; nil when the spec is whole.
func (t *Task) Shared() []byte {
	if t.shared == nil {
		return nil
	}
	return *t.shared
}

// Needs is what the task's worker must be able to.
func (t *Task) Needs() Can { return t.pool.can }

// Registry is the hash of functions that the task's worker must have.
func (t *Task) Registry() string { return t.pool.registry }

// NumDeps is the number of dependencies, and Dep the i-th.
func (t *Task) NumDeps() int { return len(t.deps) }

// Dep is the i-th dependency.
func (t *Task) Dep(i int) *Task { return t.deps[i].t }

// NumDependents is the number of tasks that depend on this one, and Dependent the i-th.
func (t *Task) NumDependents() int { return len(t.dependents) }

// Dependent is the i-th task that depends on this one.
func (t *Task) Dependent(i int) *Task { return t.dependents[i].t }

// NumHolders is the number of workers that hold the result, and Holder the i-th.
func (t *Task) NumHolders() int { return len(t.holders) }

// Holder is the i-th worker that holds the result.
func (t *Task) Holder(i int) *Worker { return t.holders[i].w }

// WaitingOn are the dependencies that the task, in state Waiting, waits for.
func (t *Task) WaitingOn() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		if t.state != Waiting {
			return
		}
		for _, e := range t.deps {
			if e.t.state != Memory && !yield(e.t) {
				return
			}
		}
	}
}

// WhoWants are the clients that want the result.
func (t *Task) WhoWants() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, w := range t.wants {
			if !yield(w.c) {
				return
			}
		}
	}
}

// NumWaiters returns the number of dependents that need the task's result before they can run.
func (t *Task) NumWaiters() int { return int(t.waiters) }

// needed tells whether somebody is interested in the result.
func (t *Task) needed() bool { return t.waiters > 0 || len(t.wants) > 0 }

// inPlay are the states in which a task needs its dependencies.
func (s TaskState) inPlay() bool {
	return s == Waiting || s == Queued || s == NoWorkerState || s == Processing
}

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
		"task %s has %d bytes of input dependencies, but worker %s has a memory limit of %d bytes: "+
			"split the task or raise the limit",
		t.key, need, w.address, w.memoryLimit)}
}

// expecting tells that a task waits for a worker to say that it holds its data.
func (t *Task) expecting() bool { return t.state == Waiting && len(t.spec) == 0 }

// dropDep removes the i-th dependency from this side alone.
func (t *Task) dropDep(i int) {
	last := len(t.deps) - 1
	if moved := t.deps[last]; i != last {
		t.deps[i] = moved
		moved.t.dependents[moved.back].back = int32(i)
	}
	t.deps[last] = edge{}
	t.deps = t.deps[:last]
}

// dropDependent removes the i-th dependent from this side alone.
func (t *Task) dropDependent(i int) {
	last := len(t.dependents) - 1
	if moved := t.dependents[last]; i != last {
		t.dependents[i] = moved
		moved.t.deps[moved.back].back = int32(i)
	}
	t.dependents[last] = edge{}
	t.dependents = t.dependents[:last]
}
