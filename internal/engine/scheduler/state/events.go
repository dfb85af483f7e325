package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Event is an input of the state machine: one of the structs of this file, by pointer. The caller may reuse an event;
// strings and slices in it are borrowed for the call unless a field says otherwise. Apply sets the fields under "Out".
type Event interface {
	// cause returns the name of the event in the log of transitions.
	cause() cause
	// apply makes the direct changes of the event. Recommendations cause the rest.
	apply(s *State)
}

// AddWorker registers a worker.
type AddWorker struct {
	// Address is the address of the worker; Address and Name must be unique.
	Address, Name string
	// Host is the host of the address, for host restrictions.
	Host string
	// Threads is the number of tasks that it runs at once, at least 1.
	Threads int
	// MemoryLimit is in bytes; 0 is none.
	MemoryLimit int64
	// Resources are those of the worker.
	Resources []Resource
	// Registry is the hash of its functions; empty: it runs tasks without a registry only.
	Registry string
	// Can are the kinds of tasks that it runs.
	Can Can
	// Values specifies that the worker accepts StoreValues, Ahead that it accepts tasks whose dependencies it is still
	// to run.
	Values, Ahead bool
	// Status is usually StatusRunning or StatusInit.
	Status WorkerStatus
	// Returning specifies that the worker was registered before the scheduler restarted: results that it announces
	// while Hold is on are adopted.
	Returning bool
	// Token is a secret of the worker's process. A worker that was removed and is added again with the same token and
	// address may announce results that it held and tasks that it ran before. "" if the worker has none.
	Token string
	// Data belongs to the server, see Worker.Data.
	Data any

	// Out: Worker is the ID of the worker, or NoWorker with the error Err.
	Worker WorkerID
	Err    error
}

// RemoveWorker removes a worker. Its tasks run elsewhere, results that only it held are recomputed.
type RemoveWorker struct {
	Worker WorkerID
	// Safe specifies that the worker left on purpose: its tasks are not suspicious.
	Safe bool
	// Close also sends the worker the order to close.
	Close bool
	// Await is how long scattered data that only this worker holds is kept for its return; 0 if the worker does not
	// return. It needs AddWorker.Token.
	Await time.Duration
	// Reason is for the log.
	Reason string

	// Out: Awaited is the number of pieces of data that are kept.
	Awaited int
}

// ForgetDeparted ends the wait for a removed worker that will not return, by its token.
type ForgetDeparted struct{ Token string }

// WorkerStatusChange is a worker's report of its status: paused, running again, closing.
type WorkerStatusChange struct {
	Worker WorkerID
	Status WorkerStatus
}

// SetResources replaces the resources of a worker.
type SetResources struct {
	Worker    WorkerID
	Resources []Resource
}

// Heartbeat is the periodic report of a worker.
type Heartbeat struct {
	Worker WorkerID
	// Memory is the memory of the process, Managed the bytes of results in memory, Spilled the bytes of results on
	// disk.
	Memory, Managed, Spilled int64
	// Bandwidth is the measured bandwidth between workers, in bytes per second; 0 if unknown.
	Bandwidth float64
	// Executing are the tasks that are running.
	Executing []Executing
}

// Executing is a running task, with the time it has run so far.
type Executing struct {
	Key taskid.Key
	For time.Duration
}

// AddClient registers a client.
type AddClient struct {
	// Name is the client's own ID; it is kept.
	Name string
	// Data belongs to the server, see Client.Data.
	Data any

	// Out: Client is its ID. A known name returns the known client, which has reconnected.
	Client ClientID
}

// RemoveClient removes a client: keys that only it holds are released.
type RemoveClient struct{ Client ClientID }

// UpdateGraph submits a graph. Keys that cannot be computed because of unknown dependencies are answered with
// CancelledKeys, an invalid graph with KeyErred for each of Keys, and Err.
type UpdateGraph struct {
	Client ClientID
	// Graph is partly kept, see Graph.
	Graph *Graph
	// Keys are the keys that the client requests; other nodes run only if these depend on them.
	Keys []taskid.Key
	// UserPriority is the priority of the graph: higher runs first.
	UserPriority float64
	// FIFOTimeout is the time within which a graph belongs to the same generation as the previous one.
	FIFOTimeout time.Duration
	// SubmittingTask is the task that submits the graph, if any: its children run before others of its age.
	SubmittingTask taskid.Key
	// Actors makes every one of Keys an actor, ActorKeys those listed.
	Actors    bool
	ActorKeys []taskid.Key

	// Out: NewTasks is the number of new tasks, Err the error of an invalid graph.
	NewTasks int
	Err      error
}

// ClientDesires makes a client hold keys. Keys that are done are reported immediately, unknown ones as canceled.
type ClientDesires struct {
	Client ClientID
	Keys   []taskid.Key
}

// ClientReleases releases keys of a client.
type ClientReleases struct {
	Client ClientID
	Keys   []taskid.Key
}

// ReportKey requests that the state of a key is reported to the client again.
type ReportKey struct {
	Client ClientID
	Key    taskid.Key
}

// CancelKeys cancels tasks and their dependents.
type CancelKeys struct {
	Client ClientID
	Keys   []taskid.Key
	// Force also cancels keys that other clients hold.
	Force bool
	// Reason and Msg are sent to the clients.
	Reason, Msg string
}

// Retry runs erred tasks again.
type Retry struct {
	Client ClientID
	Keys   []taskid.Key

	// Out: Retried are the keys that are retried, valid until the next event.
	Retried []taskid.Key
}

// TaskFinished is a worker's report that a result is in its memory.
type TaskFinished struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID must be that of ComputeTask, otherwise the report is stale.
	RunID int64
	// NBytes is the size of the result.
	NBytes int64
	// Type is the pickled class of the result and TypeName its name.
	Type     []byte
	TypeName string
	// Duration is that of the computation only; 0 if unknown.
	Duration time.Duration
	// Value is the result if it is short: an encoded scalar, which is passed on to clients and workers. The state
	// copies it.
	Value []byte

	// Prefix is set by Apply: the prefix of the task, nil if it is not known.
	Prefix *Prefix
}

// TaskErred is a worker's report that a task failed.
type TaskErred struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID is as in TaskFinished.
	RunID int64
	// Exception and Traceback are kept unchanged, see Failure.
	Exception, Traceback any
	// ExceptionText and TracebackText are copied.
	ExceptionText, TracebackText string
}

// Reschedule is a worker's report that it has returned a task.
type Reschedule struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID is 0 if unknown.
	RunID int64
}

// LongRunning is a worker's report that a task has left its thread pool (secede).
type LongRunning struct {
	Worker WorkerID
	Key    taskid.Key
	// RunID is as in TaskFinished.
	RunID int64
	// Duration is the time that it ran until then; negative if unknown.
	Duration time.Duration
}

// AddKeys is a worker's report that it holds replicas.
type AddKeys struct {
	Worker WorkerID
	Keys   []taskid.Key
	// Adopt accepts results of tasks that are not done yet, of a worker that returns to a restarted scheduler, see
	// AddWorker.Returning. Without it such replicas are removed.
	Adopt bool
	// NBytes are the sizes of the keys, for Adopt.
	NBytes []int64
}

// ReleaseWorkerData is a worker's report that it no longer holds a result.
type ReleaseWorkerData struct {
	Worker WorkerID
	Key    taskid.Key
}

// RequestRefreshWhoHas is a worker's request for the holders of keys.
type RequestRefreshWhoHas struct {
	Worker WorkerID
	Keys   []taskid.Key
}

// StealResponse is a worker's response to StealRequest.
type StealResponse struct {
	Worker WorkerID
	Key    taskid.Key
	// Steal is the number of the request.
	Steal uint64
	// State is the state of the task on the worker, as in Dask; empty if the worker does not have the task.
	State string
}

// UpdateData reports scattered data.
type UpdateData struct {
	// Client is the client that holds it; NoClient for none.
	Client ClientID
	// Data is in any order.
	Data []NewData
}

// NewData is one piece of scattered data.
type NewData struct {
	Key     taskid.Key
	NBytes  int64
	Workers []WorkerID
	// Type is as in TaskFinished.
	Type     []byte
	TypeName string
}

// Replicate requests copies of keys on several workers. RequestDone is the response.
type Replicate struct {
	// Request is the caller's number.
	Request uint64
	Keys    []taskid.Key
	// N is the number of replicas; 0 means one on each of Workers.
	N int
	// Workers are those that may hold the replicas; empty: all.
	Workers []WorkerID
	// Delete removes replicas beyond N.
	Delete bool
	// Keep keeps N replicas when ReduceReplicas drops others.
	Keep bool
}

// Rebalance balances the workers' memory. RequestDone is the response.
type Rebalance struct {
	// Request is the caller's number.
	Request uint64
	// Keys are those that may be moved; empty: all.
	Keys []taskid.Key
	// Workers are those to balance; empty: all.
	Workers []WorkerID
}

// ReduceReplicas drops replicas of results that no task needs, so that one holder is left, or the number of
// Replicate.Keep.
type ReduceReplicas struct {
	// Out: Dropped is the number of replicas that were dropped.
	Dropped int
}

// RetireWorkers retires workers: they receive no more tasks, their data moves to others, then they close. RequestDone
// is the response when the data of all has been moved or cannot be moved.
type RetireWorkers struct {
	// Request is the caller's number.
	Request uint64
	Workers []WorkerID
	// Close sends them the order to close when they are empty, Remove also removes them from the state.
	Close, Remove bool
}

// SetRestrictions replaces the workers that may run tasks that have not started. Empty Workers removes the restriction.
type SetRestrictions struct {
	Keys    []taskid.Key
	Workers []string
}

// Hold stops the assignment of tasks to workers, or resumes it: a restarted scheduler waits some time for workers to
// announce their results.
type Hold struct{ On bool }

// ExpectData declares, while Hold is on, scattered data that a client holds and that workers held before the restart of
// the scheduler. It is accepted from workers that announce it.
type ExpectData struct {
	Client ClientID
	Keys   []taskid.Key
}

// Restart forgets all tasks: all futures of clients are lost. Workers stay; the server restarts them.
type Restart struct{ Client ClientID }

// Tick advances time: stealing, timeouts, requests. Apply it about every 100 ms.
type Tick struct{}

// Watch makes every change of state of tasks an action (TaskMoved), until they are forgotten or Off is set: for
// shuffles, which end with their barrier, and progress bars. Unknown keys are ignored.
type Watch struct {
	Keys []taskid.Key
	Off  bool
}

// Rerun releases tasks and their results, so that those that are needed run again. Erred tasks stay erred. The first of
// Keys is released first.
type Rerun struct{ Keys []taskid.Key }

// Unqueue permanently keeps tasks out of the queue of root-ish tasks.
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
func (*ReduceReplicas) cause() cause       { return causeReduceReplicas }
func (*RetireWorkers) cause() cause        { return causeRetireWorkers }
func (*SetRestrictions) cause() cause      { return causeSetRestrictions }
func (*Hold) cause() cause                 { return causeHold }
func (*ExpectData) cause() cause           { return causeExpectData }
func (*Restart) cause() cause              { return causeRestart }
func (*Watch) cause() cause                { return causeWatch }
func (*Rerun) cause() cause                { return causeRerun }
func (*Unqueue) cause() cause              { return causeUnqueue }
func (*FailShortage) cause() cause         { return causeFailShortage }
