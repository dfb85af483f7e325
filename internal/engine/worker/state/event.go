package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Event is an event of the state machine: a pointer to one of the event structs of this package. The caller may reuse
// an event. Strings and slices in it are borrowed for the call, and the state copies them, unless a field says
// otherwise.
//
// Stimulus, in all events that have it, is Dask's name of the event (stimulus_id): it is in the log and in the actions
// that follow from the event. It may be empty.
type Event interface {
	stimulus() string
	kind() eventKind
	// apply converts the event to recommendations.
	apply(s *State)
}

// Priority orders tasks: the lowest runs first. It is that of the scheduler: the negative user priority, the generation
// of the graph and the position in it.
type Priority [3]float64

// Dep is a key that other workers hold.
type Dep struct {
	// Key is the key of the result.
	Key taskid.Key
	// NBytes is the size of the result; negative if unknown.
	NBytes int64
	// WhoHas are the addresses of the holders.
	WhoHas []string
}

// Stored is a key whose value the server has just put into its store.
type Stored struct {
	// Key is the key of the result.
	Key taskid.Key
	// NBytes is the size of the value.
	NBytes int64
	// TypeName is the type of the value as text. It is kept, not copied.
	TypeName string
}

// Failure is the reason why a task failed. It is not modified once it is in an event.
type Failure struct {
	// Exception and Traceback are opaque to the state, such as *wire.Serialized.
	Exception, Traceback any
	// ExceptionText and TracebackText are the same as text.
	ExceptionText, TracebackText string
}

// Error returns the text of the exception.
func (f *Failure) Error() string { return f.ExceptionText }

// Events of the scheduler:

// ComputeTask assigns a task to the worker. (compute-task)
type ComputeTask struct {
	Stimulus string
	Key      taskid.Key
	// RunID identifies this assignment: it is returned in the report.
	RunID    int64
	Priority Priority
	// Deps are the dependencies, with their holders.
	Deps []Dep
	// Spec is the encoded task. A copy is kept until the task has run.
	Spec []byte
	// Resources are the resources that the task needs.
	Resources []Resource
	// Actor makes the result an actor.
	Actor bool
	// Annotations are msgpack; a copy is kept.
	Annotations []byte
	// SpanID identifies the span.
	SpanID string
	// Data is opaque to the state, see Task.Data. It is kept.
	Data any
}

// FreeKeys frees keys that the scheduler no longer needs on this worker. (free-keys)
type FreeKeys struct {
	Stimulus string
	Keys     []taskid.Key
}

// RemoveReplicas drops replicas; those that a task on this worker needs are kept, and announced again.
// (remove-replicas)
type RemoveReplicas struct {
	Stimulus string
	Keys     []taskid.Key
}

// AcquireReplicas fetches keys. (acquire-replicas)
type AcquireReplicas struct {
	Stimulus string
	Deps     []Dep
}

// StealRequest returns a task that has not started to the scheduler. (steal-request)
type StealRequest struct {
	Stimulus string
	Key      taskid.Key
}

// CancelCompute withdraws an assignment, if the task has not started. (cancel-compute)
type CancelCompute struct {
	Stimulus string
	Key      taskid.Key
}

// RefreshWhoHas sets the holders of keys; NBytes of the Deps is not used. (refresh-who-has)
type RefreshWhoHas struct {
	Stimulus string
	Deps     []Dep
}

// RemovePeer indicates that a worker has gone. (remove-worker)
type RemovePeer struct {
	Stimulus string
	Peer     string
}

// SchedulerLost indicates that the connection to the scheduler has ended, and that another scheduler, or the same after
// a restart, may connect. Assigned tasks that have not started are dropped; results are kept, and running tasks
// continue: their results will be announced like others. There are no messages to the scheduler until Reattach.
type SchedulerLost struct{ Stimulus string }

// Reattach indicates that a scheduler is connected again: all results are announced to it in SendAddKeys, and later
// those of running tasks, for it to adopt.
type Reattach struct{ Stimulus string }

// Events of the server:

// Pause stops the start of runs and transfers.
type Pause struct{ Stimulus string }

// Unpause ends Pause.
type Unpause struct{ Stimulus string }

// SetResources sets the resources of the worker.
type SetResources struct {
	Stimulus  string
	Resources []Resource
}

// UpdateData indicates that values of a client or of the scheduler (scatter) are in the store. If the key is being run
// or fetched, the value takes effect when that ends.
type UpdateData struct {
	Stimulus string
	Data     []Stored
	// Passed specifies that the scheduler sent the values in its stream, and knows that they are on this worker.
	Passed bool
}

// DataLost indicates that the value of a key can no longer be read, for example from a damaged disk. It is deleted, and
// the scheduler is notified. A run that needs it must end with Reschedule.
type DataLost struct {
	Stimulus string
	Key      taskid.Key
}

// FindMissing requests the holders of all missing keys again. Apply it once a second. (find-missing)
type FindMissing struct{ Stimulus string }

// RetryBusy ends the delay of DoRetryBusy.
type RetryBusy struct {
	Stimulus string
	Peer     string
}

// Events of runs:

// ExecuteSuccess ends a run: the result is in the store.
type ExecuteSuccess struct {
	Stimulus string
	// Stored.Key is the key of the task.
	Stored
	// Hint is the task of the action DoExecute, which saves a search by the key; it may be nil, and may have been
	// forgotten and reused for another key since.
	Hint *Task
	// Start and Stop are the times of the run, in nanoseconds since 1970.
	Start, Stop int64
	// Thread is a number of the thread, for the task stream.
	Thread int64
}

// ExecuteFailure ends a run.
type ExecuteFailure struct {
	Stimulus string
	Key      taskid.Key
	// Failure is the reason. It is kept.
	Failure *Failure
	// Start and Stop are the times of the run, in nanoseconds since 1970; 0 if it never started.
	Start, Stop int64
	Thread      int64
}

// Reschedule ends a run that returned the task to the scheduler.
type Reschedule struct {
	Stimulus string
	Key      taskid.Key
}

// Secede removes a running task from those that count against the threads.
type Secede struct {
	Stimulus string
	Key      taskid.Key
	// Duration is the duration of the run so far.
	Duration time.Duration
}

// Events of transfers:

// GatherSuccess ends a transfer: the values are in the store. Data contains only requested keys; requested keys that
// are not in it are considered gone from the peer.
type GatherSuccess struct {
	Stimulus string
	Peer     string
	Data     []Stored
	// Device indicates that most of the data is in memory of the worker's GPU: the next transfer from the peer may be
	// larger (Config.DeviceMessageBytes).
	Device bool
}

// GatherBusy ends a transfer: the peer rejected it for now.
type GatherBusy struct {
	Stimulus string
	Peer     string
}

// GatherNetworkFailure ends a transfer: the peer is considered dead, until the scheduler names it again.
type GatherNetworkFailure struct {
	Stimulus string
	Peer     string
}

// GatherFailure ends a transfer whose data could not be read: the tasks that wait for it fail.
type GatherFailure struct {
	Stimulus string
	Peer     string
	// Failure is the reason. It is kept.
	Failure *Failure
}
