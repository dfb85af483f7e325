package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// ActionKind specifies the kind of an Action and which of its fields are set.
type ActionKind uint8

const (
	// DoExecute starts a run of Task, which ends with ExecuteSuccess, ExecuteFailure or Reschedule. The values of its
	// dependencies are in the store now; hold them before the next event.
	DoExecute ActionKind = iota
	// DoCancel reports that the run of Task is no longer needed: its context may be canceled. The run must still end
	// with an event. Task.Data may already be that of the next ComputeTask.
	DoCancel
	// DoGather fetches Tasks, NBytes together, from Peer. The transfer ends with one of the Gather events.
	DoGather
	// DoRetryBusy applies RetryBusy for Peer after the duration After.
	DoRetryBusy
	// DoDelete deletes the value of Key from the store. Task is nil if it was never known.
	DoDelete

	// SendTaskFinished reports the result of Task, run as RunID. (task-finished)
	SendTaskFinished
	// SendTaskErred reports that Task, run as RunID, has failed with Failure. (task-erred)
	SendTaskErred
	// SendAddKeys reports replicas of Tasks. With Adopt they may be results that are new to the scheduler: those of
	// runs that another scheduler, or the same before its restart, has assigned. (add-keys)
	SendAddKeys
	// SendReleaseData reports that Key is not here, or no longer. (release-worker-data)
	SendReleaseData
	// SendStealResponse reports the State in which Key was; HasState is false if Key was unknown: null.
	// (steal-response)
	SendStealResponse
	// SendLongRunning reports that Task, run as RunID, has seceded after After; HasState is false if the duration is
	// unknown: null. (long-running)
	SendLongRunning
	// SendReschedule returns Key to the scheduler. (reschedule)
	SendReschedule
	// SendRequestRefresh requests the holders of Tasks. (request-refresh-who-has)
	SendRequestRefresh
)

var actionNames = [...]string{
	"execute", "cancel", "gather", "retry-busy", "delete", "task-finished", "task-erred", "add-keys",
	"release-worker-data", "steal-response", "long-running", "reschedule", "request-refresh-who-has",
}

// String returns Dask's name of the message, if it is one.
func (k ActionKind) String() string {
	if int(k) < len(actionNames) {
		return actionNames[k]
	}
	return "unknown"
}

// ToScheduler reports whether the action is a message to the scheduler.
func (k ActionKind) ToScheduler() bool { return k >= SendTaskFinished }

// Action is an action of the server, see ActionKind for the fields that are set.
type Action struct {
	Kind ActionKind
	// State and HasState are set for SendStealResponse.
	State    TaskState
	HasState bool
	// Adopt is set for SendAddKeys.
	Adopt bool
	Task  *Task
	// Key is that of Task. It may be kept.
	Key   taskid.Key
	Peer  *Peer
	Tasks []*Task
	// NBytes is the sum of the known sizes of Tasks.
	NBytes int64
	RunID  int64
	After  time.Duration
	// Failure may be kept.
	Failure *Failure
	// Stimulus is that of the event, from which it borrows.
	Stimulus string
}

// Actions are the actions of one Apply, in order. It may be reused. It points into the state: read it before the next
// Apply.
type Actions struct {
	list  []Action
	tasks []*Task // backing array of Action.Tasks
}

// List returns the actions in order.
func (a *Actions) List() []Action { return a.list }

// Reset empties the list. Apply calls it.
func (a *Actions) Reset() {
	clear(a.list)
	clear(a.tasks)
	a.list, a.tasks = a.list[:0], a.tasks[:0]
}

func (a *Actions) add(kind ActionKind) *Action {
	if n := len(a.list); n < cap(a.list) {
		a.list = a.list[:n+1] // cleared by Reset
	} else {
		a.list = append(a.list, Action{})
	}
	act := &a.list[len(a.list)-1]
	act.Kind = kind
	return act
}

// keep copies a list of tasks for an action. Earlier lists stay valid if the memory grows.
func (a *Actions) keep(tasks []*Task) []*Task {
	n := len(a.tasks)
	a.tasks = append(a.tasks, tasks...)
	return a.tasks[n:len(a.tasks):len(a.tasks)]
}
