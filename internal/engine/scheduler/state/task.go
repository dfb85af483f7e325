package state

import (
	"cmp"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// Task is a task: TaskState in Dask. The State owns it; others may read it until the next Apply.
type Task struct {
	key     taskid.Key
	spec    string  // bytes of Node.Spec; a string header is smaller
	shared  *[]byte // first part of the spec, if shared
	group   *Group
	pool    *pool  // of the workers that have its functions
	notes   *notes // annotations; nil for none
	kind    *ResultType
	failure *Failure
	prio    Priority

	// Every edge is stored at both ends with its index at the other, so that it can be removed in O(1).
	deps, dependents []edge
	holders          []holder
	wants            []want
	wide             *bitset   // holders by ID, if they are many
	holders1         [1]holder // avoids an allocation in the common case
	wants1           [1]want

	worker     *Worker // that processes it
	ahead      *Worker // to which it was sent while it waits, see sendAhead
	prev, next *Task   // in a list of its worker, or of those without a worker
	steal      *stealing
	runID      int64
	nbytes     int64
	since      int64 // time at which it was stranded, in nanoseconds

	value *shortValue // the result, for workers that need it; nil if it is long or not needed

	waitingOn int32 // dependencies that are not in memory, while the task waits
	waiters   int32 // dependents in play: waiting, queued, without a worker or processing
	place     int32 // in the queue; -1 for none
	sent      int32 // place of its ComputeTask among the actions of the event that sent it, +1
	turn      int32 // place of its latest recommendation on the stack
	retries   int32
	mark      uint64 // of the last traversal that visited it
	estimate  float32
	failures  uint16 // workers lost while they processed it (suspicious)

	state   TaskState
	target  target // current recommendation
	list    uint8  // which list of its worker it is in
	actor   bool
	orphan  bool // a dependency is forgotten: the task can never run again
	seceded bool // long-running
	refused bool // its worker did not give it up
	other   bool // counted by estimate, see count
	// producer marks a task that produces data, whatever its group looks like.
	producer bool
	watched  bool // changes of state are reported, see Watch
}

// shortValue is a short result: its length, followed by its bytes.
type shortValue [16]byte

// keepValue keeps a short result while dependents of the task are in play.
func (t *Task) keepValue(v []byte) {
	t.value = nil
	if n := len(v); n > 0 && n < len(shortValue{}) && t.waiters > 0 && !t.actor {
		t.value = new(shortValue)
		t.value[0] = byte(n)
		copy(t.value[1:], v)
	}
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

// want is a client that holds a task: place is the index in the client's list.
type want struct {
	c     *Client
	place int32
}

// Priority orders tasks: the lowest goes first, field by field, like Dask's tuple.
type Priority struct {
	// User is the negated priority of the user.
	User float64
	// Generation increases with each submitted graph.
	Generation float64
	// Order is the position in the graph.
	Order int64
}

// Compare returns a negative number if p goes before q.
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
	// Name is the name of the class, Pickle the pickled class.
	Name   string
	Pickle []byte
}

// Key returns the key of the task.
func (t *Task) Key() taskid.Key { return t.key }

// Spec returns the call as the client sent it; empty for scattered data.
func (t *Task) Spec() []byte { return unsafe.Slice(unsafe.StringData(t.spec), len(t.spec)) }

// State returns the state of the task.
func (t *Task) State() TaskState { return t.state }

// Priority returns the priority of the task.
func (t *Task) Priority() Priority { return t.prio }

// RunID returns the number of the latest run; 0 before the first.
func (t *Task) RunID() int64 { return t.runID }

// NBytes returns the size of the result; -1 if unknown.
func (t *Task) NBytes() int64 { return t.nbytes }

// HasValue reports whether the result is short and needed, so that AppendValue appends it.
func (t *Task) HasValue() bool { return t.value != nil }

// AppendValue appends the encoded result to b, if it is short and needed.
func (t *Task) AppendValue(b []byte) []byte {
	if t.value == nil {
		return b
	}
	return append(b, t.value[1:1+t.value[0]]...)
}

// Actor reports whether the result is an actor.
func (t *Task) Actor() bool { return t.actor }

// LongRunning reports whether the task is processing and has left the thread pool.
func (t *Task) LongRunning() bool { return t.seceded }

// Group returns the group of the task.
func (t *Task) Group() *Group { return t.group }

// Prefix returns the prefix of the task's group.
func (t *Task) Prefix() *Prefix { return t.group.prefix }

// Type returns the type of the result; nil if unknown.
func (t *Task) Type() *ResultType { return t.kind }

// Failure returns the failure of an erred task; nil otherwise.
func (t *Task) Failure() *Failure { return t.failure }

// Retries returns the number of retries that are left.
func (t *Task) Retries() int { return int(t.retries) }

// Suspicious returns the number of workers that were lost while they processed the task.
func (t *Task) Suspicious() int { return int(t.failures) }

// ProcessingOn returns the worker that processes the task; nil for none.
func (t *Task) ProcessingOn() *Worker { return t.worker }

// Annotations returns the annotations of the task; nil for none.
func (t *Task) Annotations() *Annotations {
	if t.notes == nil {
		return nil
	}
	return &t.notes.Annotations
}

// Shared returns the first part of the task's spec, which other tasks share; nil if the spec is whole.
func (t *Task) Shared() []byte {
	if t.shared == nil {
		return nil
	}
	return *t.shared
}

// Needs returns the kinds of tasks that the task's worker must support.
func (t *Task) Needs() Can { return t.pool.can }

// Registry returns the hash of functions that the task's worker must have.
func (t *Task) Registry() string { return t.pool.registry }

// NumDeps returns the number of dependencies.
func (t *Task) NumDeps() int { return len(t.deps) }

// Dep returns the i-th dependency.
func (t *Task) Dep(i int) *Task { return t.deps[i].t }

// NumDependents returns the number of tasks that depend on this one.
func (t *Task) NumDependents() int { return len(t.dependents) }

// Dependent returns the i-th task that depends on this one.
func (t *Task) Dependent(i int) *Task { return t.dependents[i].t }

// NumHolders returns the number of workers that hold the result.
func (t *Task) NumHolders() int { return len(t.holders) }

// Holder returns the i-th worker that holds the result.
func (t *Task) Holder(i int) *Worker { return t.holders[i].w }

// WaitingOn returns the dependencies that the task, in state Waiting, waits for.
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

// WhoWants returns the clients with a future of the result.
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

// needed reports whether the result is needed by a client or a dependent.
func (t *Task) needed() bool { return t.waiters > 0 || len(t.wants) > 0 }

// inPlay reports whether a task in this state needs its dependencies.
func (s TaskState) inPlay() bool {
	return s == Waiting || s == Queued || s == NoWorkerState || s == Processing
}

// FailureKind is the kind of a failure.
type FailureKind uint8

const (
	// TaskFailed means that the task failed on its worker. Exception and Traceback are those of the worker.
	TaskFailed FailureKind = iota
	// KilledWorker means that too many workers were lost while they processed the task
	// (distributed.scheduler.KilledWorker).
	KilledWorker
	// NoValidWorker means that no worker met the task's restrictions in time (NoValidWorkerError).
	NoValidWorker
	// NoWorkers means that there was no running worker for too long (NoWorkerError).
	NoWorkers
	// ActorLost means that the worker that held the actor was lost (RuntimeError).
	ActorLost
	// TooLarge means that the inputs do not fit into the worker's memory (MemoryError).
	TooLarge
	// BadGraph means that the graph of the key is invalid (ValueError).
	BadGraph
)

// Failure is the failure of an erred task. It is shared by all tasks that failed for the same reason and never changes.
type Failure struct {
	// Kind is the kind of the failure.
	Kind FailureKind
	// Key is the key of the task that caused it.
	Key taskid.Key
	// Exception and Traceback are the values of TaskErred, such as *wire.Serialized; nil unless Kind is TaskFailed.
	Exception, Traceback any
	// ExceptionText and TracebackText are their texts; ExceptionText is never empty.
	ExceptionText, TracebackText string
	// Worker is the address of the last worker, if there was one.
	Worker string
	// Cause is the reason why that worker ended, for KilledWorker.
	Cause string
}

// Error returns the text of the exception.
func (f *Failure) Error() string { return f.ExceptionText }

// killedWorker returns the failure of a task whose workers were lost. reason is that of the last of them.
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

// expecting reports whether a task waits for a worker to announce its data.
func (t *Task) expecting() bool { return t.state == Waiting && len(t.spec) == 0 }

// dropDep removes the i-th dependency from this side only.
func (t *Task) dropDep(i int) {
	last := len(t.deps) - 1
	if moved := t.deps[last]; i != last {
		t.deps[i] = moved
		moved.t.dependents[moved.back].back = int32(i)
	}
	t.deps[last] = edge{}
	t.deps = t.deps[:last]
}

// dropDependent removes the i-th dependent from this side only.
func (t *Task) dropDependent(i int) {
	last := len(t.dependents) - 1
	if moved := t.dependents[last]; i != last {
		t.dependents[i] = moved
		moved.t.deps[moved.back].back = int32(i)
	}
	t.dependents[last] = edge{}
	t.dependents = t.dependents[:last]
}
