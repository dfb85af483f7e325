package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Event is something that happened: one of the structs of this package that say so, by
// pointer. The caller may use an event again. Strings and slices in it are borrowed for the
// call, and the state copies what it keeps, unless a field says otherwise.
//
// Stimulus, in all events that have it, is Dask's name of the event (stimulus_id): it is in
// the log and in the actions that follow from the event. It may be empty.
type Event interface {
	stimulus() string
	kind() eventKind
	// apply turns the event into recommendations.
	apply(s *State)
}

// Priority orders tasks: the lowest runs first. It is what the scheduler sends: the negative
// user priority, the generation of the graph and the place in it.
type Priority [3]float64

// Dep is a key that is somewhere else.
type Dep struct {
	// Key names it.
	Key taskid.Key
	// NBytes is its size; less than 0 if that is unknown.
	NBytes int64
	// WhoHas are the addresses of those who hold it.
	WhoHas []string
}

// Stored is a key whose value the server has just put into its store.
type Stored struct {
	// Key names it.
	Key taskid.Key
	// NBytes is its size.
	NBytes int64
	// TypeName is the type of the value for people. It is kept, not copied.
	TypeName string
}

// Failure is why a task failed. It never changes once it is in an event.
type Failure struct {
	// Exception and Traceback are the server's own, such as *wire.Serialized.
	Exception, Traceback any
	// ExceptionText and TracebackText are for people.
	ExceptionText, TracebackText string
}

// Error is the exception's text.
func (f *Failure) Error() string { return f.ExceptionText }

// From the scheduler:

// ComputeTask orders a task to be run. (compute-task)
type ComputeTask struct {
	Stimulus string
	Key      taskid.Key
	// RunID names this assignment: it is echoed in the report.
	RunID    int64
	Priority Priority
	// Deps are the keys that it needs, with those who hold them.
	Deps []Dep
	// Spec is the encoded task. A copy is kept until the task has run.
	Spec []byte
	// Resources that it needs.
	Resources []Resource
	// Actor makes its result an actor.
	Actor bool
	// Annotations are msgpack; a copy is kept.
	Annotations []byte
	// SpanID names the span.
	SpanID string
	// Data is the server's own, see Task.Data. It is kept.
	Data any
}

// FreeKeys tells that the scheduler no longer wants keys to be here. (free-keys)
type FreeKeys struct {
	Stimulus string
	Keys     []taskid.Key
}

// RemoveReplicas asks for replicas to be dropped; those that a task here needs are kept, and
// announced again. (remove-replicas)
type RemoveReplicas struct {
	Stimulus string
	Keys     []taskid.Key
}

// AcquireReplicas asks for keys to be fetched. (acquire-replicas)
type AcquireReplicas struct {
	Stimulus string
	Deps     []Dep
}

// StealRequest asks for a task back that has not started. (steal-request)
type StealRequest struct {
	Stimulus string
	Key      taskid.Key
}

// CancelCompute takes an order back, if the task has not started. (cancel-compute)
type CancelCompute struct {
	Stimulus string
	Key      taskid.Key
}

// RefreshWhoHas tells who holds keys; NBytes of the Deps is not used. (refresh-who-has)
type RefreshWhoHas struct {
	Stimulus string
	Deps     []Dep
}

// RemovePeer tells that a worker has gone. (remove-worker)
type RemovePeer struct {
	Stimulus string
	Peer     string
}

// SchedulerLost tells that the connection to the scheduler has ended, and that another
// scheduler, or the same after a restart, may come. What was ordered and has not started is
// forgotten; results stay, and running tasks go on: their results will be announced like
// others. No message to the scheduler is made until Reattach.
type SchedulerLost struct{ Stimulus string }

// Reattach tells that a scheduler is there again: all results that are here are announced
// to it in SendAddKeys, and those of runs that go on will be, for it to adopt.
type Reattach struct{ Stimulus string }

// From the server itself:

// Pause stops new runs and transfers from being started.
type Pause struct{ Stimulus string }

// Unpause ends Pause.
type Unpause struct{ Stimulus string }

// SetResources changes what the worker has.
type SetResources struct {
	Stimulus  string
	Resources []Resource
}

// UpdateData tells that values have come from a client or the scheduler (scatter) and are in
// the store. If the key is being run or fetched just then, the value counts when that ends.
type UpdateData struct {
	Stimulus string
	Data     []Stored
}

// DataLost tells that the value of a key cannot be read any more, such as from a damaged
// disk. It is deleted, and the scheduler is told that it is not here. A run that wanted it
// is to end with Reschedule.
type DataLost struct {
	Stimulus string
	Key      taskid.Key
}

// FindMissing asks for the holders of all missing keys again: to be applied once a second.
// (find-missing)
type FindMissing struct{ Stimulus string }

// RetryBusy ends the wait of DoRetryBusy.
type RetryBusy struct {
	Stimulus string
	Peer     string
}

// From runs:

// ExecuteSuccess ends a run: the result is in the store.
type ExecuteSuccess struct {
	Stimulus string
	// Stored.Key is the task's.
	Stored
	// Start and Stop of the run, in nanoseconds since 1970.
	Start, Stop int64
	// Thread is a number of the thread, for the task stream.
	Thread int64
}

// ExecuteFailure ends a run.
type ExecuteFailure struct {
	Stimulus string
	Key      taskid.Key
	// Failure is why. It is kept.
	Failure *Failure
	// Start and Stop of the run, in nanoseconds since 1970; 0 if it never started.
	Start, Stop int64
	Thread      int64
}

// Reschedule ends a run that gave the task back to the scheduler.
type Reschedule struct {
	Stimulus string
	Key      taskid.Key
}

// Secede takes a running task from those that count against the threads.
type Secede struct {
	Stimulus string
	Key      taskid.Key
	// Duration is how long it has run.
	Duration time.Duration
}

// From transfers:

// GatherSuccess ends a transfer: the values are in the store. The server passes only keys on
// that it asked for; keys that it did not get are taken to be no longer on the peer.
type GatherSuccess struct {
	Stimulus string
	Peer     string
	Data     []Stored
	// Device tells that most of it came into memory of the worker's GPU: the next transfer from
	// the peer may be larger (Config.DeviceMessageBytes).
	Device bool
}

// GatherBusy ends a transfer: the peer has no room for another one now.
type GatherBusy struct {
	Stimulus string
	Peer     string
}

// GatherNetworkFailure ends a transfer: the peer is taken to be dead, until the scheduler
// names it again.
type GatherNetworkFailure struct {
	Stimulus string
	Peer     string
}

// GatherFailure ends a transfer whose data could not be read: the tasks that wait for it fail.
type GatherFailure struct {
	Stimulus string
	Peer     string
	// Failure is why. It is kept.
	Failure *Failure
}
