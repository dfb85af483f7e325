package state

// WorkerID identifies a worker. IDs are dense, start at 0 and are reused after the worker was removed and the next
// event has begun.
type WorkerID int32

// ClientID identifies a client. IDs are dense; 0 is FireAndForget.
type ClientID int32

const (
	// NoWorker is the ID of no worker.
	NoWorker WorkerID = -1
	// NoClient is the ID of no client.
	NoClient ClientID = -1
	// FireAndForget is the client that holds a task until it has run once. It always exists.
	FireAndForget ClientID = 0
)

// TaskState is the state of a task.
type TaskState uint8

const (
	// Released tasks are known and not requested (or their run was canceled).
	Released TaskState = iota
	// Waiting tasks wait for dependencies.
	Waiting
	// Queued tasks are ready root-ish tasks that wait for a free thread.
	Queued
	// NoWorkerState tasks are ready, and no running worker can run them.
	NoWorkerState
	// Processing tasks were sent to a worker.
	Processing
	// Memory tasks have a result on at least one worker.
	Memory
	// Erred tasks have failed, or one of their dependencies has.
	Erred
	// Forgotten tasks were removed. A task in this state is valid only until the next event.
	Forgotten

	numTaskStates = int(Forgotten) + 1
)

var taskStateNames = [numTaskStates]string{"released", "waiting", "queued", "no-worker", "processing", "memory",
	"erred", "forgotten"}

// String returns Dask's name.
func (s TaskState) String() string {
	if int(s) < len(taskStateNames) {
		return taskStateNames[s]
	}
	return "unknown"
}

// TaskStates returns all states but forgotten, in the order of a task's life, for metrics.
func TaskStates() []TaskState {
	return []TaskState{Released, Waiting, Queued, NoWorkerState, Processing, Memory, Erred}
}

// WorkerStatus is the status of a worker, with the names of Dask.
type WorkerStatus uint8

const (
	// StatusRunning workers accept tasks.
	StatusRunning WorkerStatus = iota
	// StatusInit workers have registered and do not accept tasks yet.
	StatusInit
	// StatusPaused workers accept no new tasks: their memory is nearly full.
	StatusPaused
	// StatusClosingGracefully workers transfer their data to others before they close.
	StatusClosingGracefully
	// StatusClosing workers are about to close.
	StatusClosing
	// StatusClosed workers have closed.
	StatusClosed

	numStatuses = int(StatusClosed) + 1
)

var statusNames = [numStatuses]string{"running", "init", "paused", "closing_gracefully", "closing", "closed"}

// String returns Dask's name.
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
