package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Event is something that happened: one of the structs of this file, by pointer. The caller may use an event
// again; strings and slices in it are borrowed for the call unless a field says otherwise. Fields under
// "Out" are set by Apply.
type Event interface {
	// cause names the event in the log of transitions.
	cause() cause
	// apply changes the state as far as the event does so directly: the rest follows from recommendations.
	apply(s *State)
}

// AddWorker registers a worker.
type AddWorker struct {
	// Address is how others reach it; no other worker may have the same, nor the same Name.
	Address, Name string
	// Host is the host of the address, what host restrictions mean.
	Host string
	// Threads is how many tasks it runs at once: at least 1.
	Threads int
	// MemoryLimit in bytes; 0 is none.
	MemoryLimit int64
	// Resources that it has.
	Resources []Resource
	// Registry is the hash of its functions; empty: it runs tasks without a registry only.
	Registry string
	// Can is what sorts of tasks it runs.
	Can Can
	// Status is usually StatusRunning or StatusInit.
	Status WorkerStatus
	// Returning specifies that the worker was there before the scheduler was started again: results that it announces
	// while Hold is on are adopted.
	Returning bool
	// Token is a secret of the worker's process. A worker that was removed and is added again with the same token and
	// address may announce results that it held and tasks that it ran before. "" if the worker has none.
	Token string
	// Data is the server's own, see Worker.Data.
	Data any

	// Out: the worker's id, or NoWorker and why not.
	Worker WorkerID
	Err    error
}

// RemoveWorker tells that a worker has gone. What it processed runs elsewhere, what only it held is computed
// again.
type RemoveWorker struct {
	Worker WorkerID
	// Safe tells that it left on purpose: its tasks are not suspicious.
	Safe bool
	// Close also sends it the order to end.
	Close bool
	// Await is how long data from outside that only this worker holds is kept for its return; 0 if the worker does not
	// come back. It needs AddWorker.Token.
	Await time.Duration
	// Reason is for the log.
	Reason string

	// Awaited is set: how many pieces of data are kept.
	Awaited int
}

// ForgetDeparted ends the wait for a removed worker that will not come back, by its token.
type ForgetDeparted struct{ Token string }

// WorkerStatusChange is a worker's report about itself: paused, running again, closing.
type WorkerStatusChange struct {
	Worker WorkerID
	Status WorkerStatus
}

// SetResources replaces what a worker supplies.
type SetResources struct {
	Worker    WorkerID
	Resources []Resource
}

// Heartbeat is what a worker says about itself from time to time.
type Heartbeat struct {
	Worker WorkerID
	// Memory of the process, Managed bytes of results in memory, Spilled bytes of results on disk.
	Memory, Managed, Spilled int64
	// Bandwidth that it measured between workers, in bytes per second; 0 when unknown.
	Bandwidth float64
	// Executing are the tasks that run now, and since when.
	Executing []Executing
}

// Executing is a task that runs, with the time it has run so far.
type Executing struct {
	Key taskid.Key
	For time.Duration
}

// AddClient registers a client.
type AddClient struct {
	// Name is the client's own id; it is kept.
	Name string
	// Data is the server's own, see Client.Data.
	Data any

	// Out: its id. A name that is known already gives the known client: it has come back.
	Client ClientID
}

// RemoveClient forgets a client: what only it wanted is released.
type RemoveClient struct{ Client ClientID }

// UpdateGraph submits work. Keys that cannot be computed because something they need is unknown are answered
// with CancelledKeys, a graph that cannot be run at all with TaskErred for each of Keys, and Err.
type UpdateGraph struct {
	Client ClientID
	// Graph: see there what is kept.
	Graph *Graph
	// Keys are what the client wants; other nodes run only if they are needed for them.
	Keys []taskid.Key
	// UserPriority: higher runs first.
	UserPriority float64
	// FIFOTimeout: a graph that comes so soon after another counts as the same generation.
	FIFOTimeout time.Duration
	// SubmittingTask is the task that submits, if one does: its children run before others of its age.
	SubmittingTask taskid.Key
	// Actors makes every one of Keys an actor, ActorKeys those listed.
	Actors    bool
	ActorKeys []taskid.Key

	// Out.
	NewTasks int
	Err      error
}

// ClientDesires adds a client to those who want keys. Keys that are done are reported at once. Unknown keys
// are reported as cancelled.
type ClientDesires struct {
	Client ClientID
	Keys   []taskid.Key
}

// ClientReleases takes a client from those who want keys.
type ClientReleases struct {
	Client ClientID
	Keys   []taskid.Key
}

// ReportKey asks for the state of a key to be reported to the client again.
type ReportKey struct {
	Client ClientID
	Key    taskid.Key
}

// CancelKeys stops tasks and those that depend on them.
type CancelKeys struct {
	Client ClientID
	Keys   []taskid.Key
	// Force cancels also what other clients want.
	Force bool
	// Reason and Msg go to the clients.
	Reason, Msg string
}

// Retry runs erred tasks again.
type Retry struct {
	Client ClientID
	Keys   []taskid.Key

	// Out: the keys that are retried, valid until the next event.
	Retried []taskid.Key
}

// TaskFinished is a worker's report that a result is in its memory.
type TaskFinished struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID must be that of ComputeTask, or the report is stale.
	RunID int64
	// NBytes is the size of the result.
	NBytes int64
	// Type is the pickled class of the result and TypeName its name.
	Type     []byte
	TypeName string
	// Duration of the computation alone; 0 when unknown.
	Duration time.Duration
}

// TaskErred is a worker's report that a task failed.
type TaskErred struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID as in TaskFinished.
	RunID int64
	// Exception and Traceback are kept as they are, see Failure.
	Exception, Traceback any
	// ExceptionText and TracebackText are copied.
	ExceptionText, TracebackText string
}

// Reschedule is a worker's report that it has given a task back.
type Reschedule struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID is 0 when the worker does not say.
	RunID int64
}

// LongRunning is a worker's report that a task has left the pool of threads (secede).
type LongRunning struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID as in TaskFinished.
	RunID int64
	// Duration that it ran until then; negative when unknown.
	Duration time.Duration
}

// AddKeys is a worker's report that it holds replicas.
type AddKeys struct {
	Worker WorkerID
	Keys   []taskid.Key
	// Adopt takes results of tasks that are not done yet as done: a worker that comes back to a scheduler
	// which has lost its memory, see AddWorker.Returning. Without it such replicas are removed.
	Adopt bool
	// NBytes of each key, for Adopt.
	NBytes []int64
}

// ReleaseWorkerData is a worker's report that it no longer holds a result.
type ReleaseWorkerData struct {
	Worker WorkerID
	Key    taskid.Key
}

// RequestRefreshWhoHas is a worker's question who holds keys.
type RequestRefreshWhoHas struct {
	Worker WorkerID
	Keys   []taskid.Key
}

// StealResponse is a worker's answer to StealRequest.
type StealResponse struct {
	Worker WorkerID
	Key    taskid.Key
	// Steal is the number of the request.
	Steal uint64
	// State of the task on the worker, in Dask's words; empty when it does not know the task.
	State string
}

// UpdateData tells that data has entered the cluster from outside (scatter).
type UpdateData struct {
	// Client that wants it; NoClient when none.
	Client ClientID
	// Data in any order.
	Data []NewData
}

// NewData is one piece of data that came from outside.
type NewData struct {
	Key     taskid.Key
	NBytes  int64
	Workers []WorkerID
	// Type as in TaskFinished.
	Type     []byte
	TypeName string
}

// Replicate asks for copies of keys on several workers. RequestDone answers.
type Replicate struct {
	// Request is the caller's number.
	Request uint64
	Keys    []taskid.Key
	// N is the number of replicas; 0 means one on each of Workers.
	N int
	// Workers that may hold them; empty: all.
	Workers []WorkerID
	// Delete removes replicas beyond N.
	Delete bool
}

// Rebalance evens the workers' memory out. RequestDone answers.
type Rebalance struct {
	// Request is the caller's number.
	Request uint64
	// Keys that may be moved; empty: all.
	Keys []taskid.Key
	// Workers among which; empty: all.
	Workers []WorkerID
}

// RetireWorkers makes workers leave: they get no more tasks, their data moves to others, then they close.
// RequestDone answers when all have given their data away or cannot.
type RetireWorkers struct {
	// Request is the caller's number.
	Request uint64
	Workers []WorkerID
	// Close sends them the order to end when they are empty, Remove also removes them from the state.
	Close, Remove bool
}

// SetRestrictions replaces the workers that may run tasks that have not started. Empty Workers lifts them.
type SetRestrictions struct {
	Keys    []taskid.Key
	Workers []string
}

// Hold stops the assignment of tasks to workers, or lets it go on: a scheduler that comes back waits a while
// for workers to announce what they hold.
type Hold struct{ On bool }

// ExpectData tells, while Hold is on, of data from outside that a client wants and that workers held in the
// scheduler's former life: it is taken from those who announce it.
type ExpectData struct {
	Client ClientID
	Keys   []taskid.Key
}

// Restart forgets all tasks: every client's futures are lost. Workers stay; the server restarts them.
type Restart struct{ Client ClientID }

// Tick lets time pass: stealing, timeouts, requests. Call it about every 100 ms.
type Tick struct{}

// Watch makes every change of state of tasks an action (TaskMoved), until they are forgotten or Off says so: for
// shuffles, which live as long as their barrier, and progress bars. Keys that are not known are passed over.
type Watch struct {
	Keys []taskid.Key
	Off  bool
}

// Rerun takes tasks back whatever they are doing and whatever they have made, so that those that are needed run
// again. Erred tasks stay as they are. The first of Keys is taken back first.
type Rerun struct{ Keys []taskid.Key }

// Unqueue keeps tasks out of the queue of root-ish tasks for the rest of their lives.
type Unqueue struct{ Keys []taskid.Key }

// FailShortage fails the tasks of a Shortage that the last Apply has not changed: no worker will ever run them.
type FailShortage struct {
	Shortage *Shortage
	// Text is the error of the tasks.
	Text string
}

func (*TaskFinished) cause() cause         { return causeTaskFinished }
func (*TaskErred) cause() cause            { return causeTaskErred }
func (*UpdateGraph) cause() cause          { return causeUpdateGraph }
func (*ClientReleases) cause() cause       { return causeClientReleasesKeys }
func (*ClientDesires) cause() cause        { return causeClientDesiresKeys }
func (*AddKeys) cause() cause              { return causeAddKeys }
func (*ReleaseWorkerData) cause() cause    { return causeReleaseWorkerData }
func (*RequestRefreshWhoHas) cause() cause { return causeRequestRefreshWhoHas }
func (*StealResponse) cause() cause        { return causeStealResponse }
func (*Reschedule) cause() cause           { return causeReschedule }
func (*LongRunning) cause() cause          { return causeLongRunning }
func (*Tick) cause() cause                 { return causeTick }
func (*Heartbeat) cause() cause            { return causeHeartbeat }
func (*AddWorker) cause() cause            { return causeAddWorker }
func (*RemoveWorker) cause() cause         { return causeRemoveWorker }
func (*ForgetDeparted) cause() cause       { return causeRemoveWorker }
func (*WorkerStatusChange) cause() cause   { return causeWorkerStatusChange }
func (*SetResources) cause() cause         { return causeSetResources }
func (*AddClient) cause() cause            { return causeAddClient }
func (*RemoveClient) cause() cause         { return causeRemoveClient }
func (*ReportKey) cause() cause            { return causeReportKey }
func (*CancelKeys) cause() cause           { return causeCancelKeys }
func (*Retry) cause() cause                { return causeRetry }
func (*UpdateData) cause() cause           { return causeUpdateData }
func (*Replicate) cause() cause            { return causeReplicate }
func (*Rebalance) cause() cause            { return causeRebalance }
func (*RetireWorkers) cause() cause        { return causeRetireWorkers }
func (*SetRestrictions) cause() cause      { return causeSetRestrictions }
func (*Hold) cause() cause                 { return causeHold }
func (*ExpectData) cause() cause           { return causeExpectData }
func (*Restart) cause() cause              { return causeRestart }
func (*Watch) cause() cause                { return causeWatch }
func (*Rerun) cause() cause                { return causeRerun }
func (*Unqueue) cause() cause              { return causeUnqueue }
func (*FailShortage) cause() cause         { return causeFailShortage }
