package state

// WorkerID names a worker. Ids are dense, start at 0 and are used again after the worker has left and the
// next event has begun.
type WorkerID int32

// ClientID names a client. Ids are dense; 0 is FireAndForget.
type ClientID int32

const (
	// NoWorker is the id of no worker.
	NoWorker WorkerID = -1
	// NoClient is the id of no client.
	NoClient ClientID = -1
	// FireAndForget is the client that wants a task until it has run once: it is always there.
	FireAndForget ClientID = 0
)

// TaskState is where a task is in its life.
type TaskState uint8

const (
	// Released: known, and nobody has asked for it (or its run was taken back).
	Released TaskState = iota
	// Waiting for dependencies.
	Waiting
	// Queued: ready, a root-ish task that waits for a free thread.
	Queued
	// NoWorkerState: ready, and no running worker may take it.
	NoWorkerState
	// Processing: sent to a worker.
	Processing
	// Memory: its result is on at least one worker.
	Memory
	// Erred: it failed, or something that it needs did.
	Erred
	// Forgotten: gone. A task in this state is valid only until the next event.
	Forgotten

	numTaskStates = int(Forgotten) + 1
)

var taskStateNames = [numTaskStates]string{"released", "waiting", "queued", "no-worker", "processing", "memory",
	"erred", "forgotten"}

// String is Dask's name.
func (s TaskState) String() string {
	if int(s) < len(taskStateNames) {
		return taskStateNames[s]
	}
	return "unknown"
}

// TaskStates are all states but forgotten, in the order of a task's life: what metrics list.
func TaskStates() []TaskState {
	return []TaskState{Released, Waiting, Queued, NoWorkerState, Processing, Memory, Erred}
}

// WorkerStatus is a worker's own state, with Dask's names.
type WorkerStatus uint8

const (
	// StatusRunning workers take tasks.
	StatusRunning WorkerStatus = iota
	// StatusInit workers have registered and do not take tasks yet.
	StatusInit
	// StatusPaused workers take no new tasks: their memory is nearly full.
	StatusPaused
	// StatusClosingGracefully workers give their data away before they leave.
	StatusClosingGracefully
	// StatusClosing workers are about to leave.
	StatusClosing
	// StatusClosed workers have left.
	StatusClosed

	numStatuses = int(StatusClosed) + 1
)

var statusNames = [numStatuses]string{"running", "init", "paused", "closing_gracefully", "closing", "closed"}

// String is Dask's name.
func (s WorkerStatus) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// ParseStatus reads Dask's name of a worker's status.
func ParseStatus(name string) (WorkerStatus, bool) {
	for i, n := range statusNames {
		if n == name {
			return WorkerStatus(i), true
		}
	}
	return StatusClosed, false
}
