package state

// TaskState is where a task is in its life on this worker.
type TaskState uint8

const (
	// Released: known because others depend on it, and nothing is done about it.
	Released TaskState = iota
	// Waiting: to be run here once its dependencies are.
	Waiting
	// Fetch: to be fetched from a peer that is known to hold it.
	Fetch
	// Flight: being fetched.
	Flight
	// Missing: needed, and no holder is known.
	Missing
	// Ready to run, when a thread is free.
	Ready
	// Constrained: ready to run, when a thread and its resources are free.
	Constrained
	// Executing: running.
	Executing
	// LongRunning: running, and no longer counted against the threads. (secede)
	LongRunning
	// Memory: its result is here.
	Memory
	// Erred: its run failed. (Dask: error)
	Erred
	// Cancelled: nobody wants it any more, but its run or transfer (Task.Previous) has not ended.
	Cancelled
	// Resumed: wanted again in another way than before it was cancelled: fetched instead of
	// run, or run instead of fetched.
	Resumed
	// Rescheduled is the way out of a run that gave itself back; no task stays in it.
	Rescheduled
	// Forgotten: gone. A task in this state is valid only until the next event.
	Forgotten

	numStates = int(Forgotten) + 1
	noState   = TaskState(0xff)
)

var stateNames = [numStates]string{
	"released", "waiting", "fetch", "flight", "missing", "ready", "constrained", "executing", "long-running",
	"memory", "error", "cancelled", "resumed", "rescheduled", "forgotten",
}

// String is Dask's name.
func (s TaskState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return ""
}

// TaskStates are the states that a task can stay in, in the order of a task's life: what
// metrics list.
func TaskStates() []TaskState {
	return []TaskState{Released, Waiting, Fetch, Flight, Missing, Ready, Constrained, Executing, LongRunning,
		Memory, Erred, Cancelled, Resumed}
}
