package state

// TaskState is the state of a task on this worker.
type TaskState uint8

const (
	// Released is the state of a task that is known only because others depend on it.
	Released TaskState = iota
	// Waiting is the state of an assigned task whose dependencies are not all in memory.
	Waiting
	// Fetch is the state of a result that is to be fetched from a known holder.
	Fetch
	// Flight is the state of a result that is being fetched.
	Flight
	// Missing is the state of a needed result without a known holder.
	Missing
	// Ready is the state of a task that can run when a thread is free.
	Ready
	// Constrained is the state of a task that can run when a thread and its resources are free.
	Constrained
	// Executing is the state of a running task.
	Executing
	// LongRunning is the state of a running task that no longer counts against the threads. (secede)
	LongRunning
	// Memory is the state of a task whose result is on this worker.
	Memory
	// Erred is the state of a task whose run failed. (Dask: error)
	Erred
	// Cancelled is the state of a task that is no longer wanted, but whose run or transfer (Task.Previous) has not
	// ended.
	Cancelled
	// Resumed is the state of a task that is wanted again in another way than before it was canceled: fetched instead
	// of run, or run instead of fetched.
	Resumed
	// Rescheduled is the transient state after a run that returned its task to the scheduler.
	Rescheduled
	// Forgotten is the state of a removed task. It is valid only until the next event.
	Forgotten

	numStates = int(Forgotten) + 1
	noState   = TaskState(0xff)
)

var stateNames = [numStates]string{
	"released", "waiting", "fetch", "flight", "missing", "ready", "constrained", "executing", "long-running",
	"memory", "error", "cancelled", "resumed", "rescheduled", "forgotten",
}

// String returns Dask's name.
func (s TaskState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return ""
}

// TaskStates returns the states in which a task can stay, in the order of a task's life, as metrics list them.
func TaskStates() []TaskState {
	return []TaskState{Released, Waiting, Fetch, Flight, Missing, Ready, Constrained, Executing, LongRunning,
		Memory, Erred, Cancelled, Resumed}
}
